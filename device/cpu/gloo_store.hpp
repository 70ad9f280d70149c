// Where ranks leave their addresses for each other, over TCP: rank 0 keeps them, at an address that all know
// from their environment. Gloo itself has such stores in files and in memory only.
#pragma once

#include <gloo/rendezvous/store.h>

#include <memory>
#include <string>

namespace foretrain::device::cpu {

class AddressServer {
 public:
  virtual ~AddressServer() = default;
  virtual int port() const = 0;
};
// Listens on a port (0: any that is free) of all interfaces until it is destroyed. Throws Error (failure)
// where the port is taken.
std::unique_ptr<AddressServer> serve_addresses(int port);

// At "host:port"; connects anew for each request, until `limit` seconds have passed. Keys are unique to the
// prefix.
std::unique_ptr<gloo::rendezvous::Store> store_at(const std::string& address, const std::string& prefix,
                                                  double limit);

// This host's own address on the way to another ("host:port"); empty where there is no way.
std::string own_address_towards(const std::string& address);

}  // namespace foretrain::device::cpu
