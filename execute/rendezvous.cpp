#include "execute/rendezvous.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "sim/output/file_writer.hpp"

namespace foretrain {
namespace {

std::string file_of(const Rendezvous& rendezvous, int n) {
  return n == 0 ? rendezvous.path : fmt::format("{}.{}", rendezvous.path, n);
}

// The name as hexadecimal digits, a line.
std::string text_of(const device::CommunicatorId& id) {
  std::string text;
  for (std::byte each : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned>(each));
  return text + "\n";
}

device::CommunicatorId id_of(const std::string& text, const std::string& file) {
  device::CommunicatorId id;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    char* end = nullptr;
    const std::string digits = text.substr(i, 2);
    const unsigned long value = std::strtoul(digits.c_str(), &end, 16);
    if (end != digits.c_str() + 2) throw Error(ErrorKind::failure, file + " holds no communicator's name");
    id.bytes.push_back(static_cast<std::byte>(value));
  }
  return id;
}

}  // namespace

Rendezvous choose_rendezvous(const LaunchEnvironment& launch, const Environment& environment) {
  Rendezvous rendezvous;
  const bool several = launch.kind == LaunchEnvironment::Kind::process_a_worker
                           ? launch.ranks > 1
                           : launch.kind == LaunchEnvironment::Kind::process_a_node && launch.nodes > 1;
  if (!several) return rendezvous;
  if (const char* address = environment("NCCL_COMM_ID")) {
    rendezvous.kind = Rendezvous::Kind::address;
    rendezvous.address = address;
    return rendezvous;
  }
  if (const char* path = environment("FORETRAIN_RENDEZVOUS")) {
    rendezvous.kind = Rendezvous::Kind::file;
    rendezvous.path = path;
    return rendezvous;
  }
  const char *host = environment("MASTER_ADDR"), *port = environment("MASTER_PORT");
  if (host != nullptr && port != nullptr) {
    rendezvous.kind = Rendezvous::Kind::address;
    const int shift = launch.launcher == "torchrun" ? 1 : 0;
    rendezvous.address = fmt::format("{}:{}", host, std::atoi(port) + shift);
    return rendezvous;
  }
  throw Error(ErrorKind::input,
              "several processes need a way to meet: set NCCL_COMM_ID=host:port (of rank 0) or "
              "FORETRAIN_RENDEZVOUS=path (on a file system that all share)");
}

device::CommunicatorId meet(const Rendezvous& rendezvous, device::Backend& backend, bool first_process, int n,
                            double limit, const std::atomic<bool>& stop) {
  if (rendezvous.kind != Rendezvous::Kind::file) return backend.make_communicator_id();
  const std::string file = file_of(rendezvous, n);
  if (first_process) {
    if (std::filesystem::exists(file)) {
      throw Error(ErrorKind::failure,
                  file + " is there already, left by an earlier run: remove it or name another path");
    }
    const device::CommunicatorId id = backend.make_communicator_id();
    write_file(file, text_of(id));
    return id;
  }
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    std::ifstream in(file);
    std::string text;
    if (in && std::getline(in, text) && !text.empty()) return id_of(text, file);
    if (stop) throw Error(ErrorKind::failure, "stopped while waiting for rank 0");
    if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(limit)) {
      throw Error(ErrorKind::failure,
                  fmt::format("rank 0 did not come within {:.0f} s: there is no {}", limit, file));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void clean(const Rendezvous& rendezvous, bool first_process, int n) {
  if (rendezvous.kind != Rendezvous::Kind::file || !first_process) return;
  std::error_code ignored;
  std::filesystem::remove(file_of(rendezvous, n), ignored);
}

}  // namespace foretrain
