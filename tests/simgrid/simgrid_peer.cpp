#include <fmt/format.h>

#include <simgrid/s4u.hpp>
#include <unordered_set>

#include "sim/base/error.hpp"
#include "tests/simgrid/peer.hpp"

namespace foretrain {
namespace {

namespace s4u = simgrid::s4u;

// A platform of the topology's links with the ways that are asked for.
class Platform {
 public:
  Platform(const Topology& topology, PeerUpdate update)
      : topology_(topology), routes_(topology), engine_(&count_, arguments_) {
    for (const char* setting :
         {"network/model:CM02", "network/weight-S:0", "network/latency-factor:1",
          "network/bandwidth-factor:1", "network/crosstraffic:0", "network/TCP-gamma:1e18",
          "network/loopback-lat:0", "contexts/stack-size:64"}) {
      s4u::Engine::set_config(setting);
    }
    s4u::Engine::set_config(update == PeerUpdate::full ? "network/optim:Full" : "network/optim:Lazy");
    zone_ = s4u::create_full_zone("zone");
    for (std::size_t rank = 0; rank < topology.workers.size(); ++rank) {
      hosts_.push_back(zone_->create_host(fmt::format("host{}", rank), 1e9));
    }
    for (const Link& link : topology.links) {
      links_.push_back(zone_->create_link(name_of(topology, link), link.payload_rate())
                           ->set_latency(link.latency.in_seconds()));
    }
  }

  void add_way(int from, int to) {
    const auto key = (static_cast<std::uint64_t>(from) << 32) | static_cast<std::uint64_t>(to);
    if (!known_.insert(key).second) return;
    std::vector<s4u::LinkInRoute> way;
    for (int link : routes_.between(topology_.workers[static_cast<std::size_t>(from)],
                                    topology_.workers[static_cast<std::size_t>(to)])) {
      way.emplace_back(links_[static_cast<std::size_t>(link)]);
    }
    zone_->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr, way, false);
  }

  s4u::Host* host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

  void run() { engine_.run(); }
  void seal() { zone_->seal(); }

 private:
  const Topology& topology_;
  Routes routes_;
  int count_ = 2;
  char name_[10] = "foretrain", quiet_[24] = "--log=root.thres:error";
  char* arguments_[3] = {name_, quiet_, nullptr};
  s4u::Engine engine_;
  s4u::NetZone* zone_ = nullptr;
  std::vector<s4u::Host*> hosts_;
  std::vector<s4u::Link*> links_;
  std::unordered_set<std::uint64_t> known_;
};

}  // namespace

std::vector<double> simgrid_times(const Topology& topology, std::span<const PeerFlow> flows,
                                  PeerUpdate update) {
  Platform platform(topology, update);
  for (const PeerFlow& flow : flows) platform.add_way(flow.from, flow.to);
  platform.seal();
  std::vector<double> ends(flows.size());
  s4u::Actor::create("all", platform.host(0), [&] {
    std::vector<s4u::CommPtr> all;
    for (const PeerFlow& flow : flows) {
      all.push_back(s4u::Comm::sendto_async(platform.host(flow.from), platform.host(flow.to),
                                            static_cast<std::uint64_t>(flow.bytes)));
    }
    for (std::size_t f = 0; f < all.size(); ++f) {
      all[f]->wait();
      ends[f] = all[f]->get_finish_time();
    }
  });
  platform.run();
  return ends;
}

double simgrid_ring(const Topology& topology, double bytes, PeerUpdate update) {
  Platform platform(topology, update);
  const int n = static_cast<int>(topology.workers.size());
  for (int rank = 0; rank < n; ++rank) platform.add_way(rank, (rank + 1) % n);
  platform.seal();
  std::vector<s4u::Mailbox*> boxes;
  for (int rank = 0; rank < n; ++rank) boxes.push_back(s4u::Mailbox::by_name(fmt::format("{}", rank)));
  for (int rank = 0; rank < n; ++rank) {
    s4u::Actor::create("rank", platform.host(rank), [&boxes, rank, n, bytes] {
      static int chunk;
      for (int step = 0; step < 2 * (n - 1); ++step) {
        const auto sent = boxes[static_cast<std::size_t>((rank + 1) % n)]->put_async(
            &chunk, static_cast<std::uint64_t>(bytes / n));
        boxes[static_cast<std::size_t>(rank)]->get<int>();
        sent->wait();
      }
    });
  }
  platform.run();
  return s4u::Engine::get_clock();
}

}  // namespace foretrain
