// Flows of bytes over the links of a network in time: each waits for the latency of its way, then moves at
// its max-min fair share until it is through. Alone, or beside the event engine by next() and advance_to().
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/sharing.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

class FlowEngine {
 public:
  // A link carries its payload rate; both directions of a half-duplex link are one, the first.
  explicit FlowEngine(const Topology& topology);
  // Links by their payload rates in bytes per second.
  explicit FlowEngine(std::span<const double> capacities);

  // Registers a way once, for any number of flows: its links, each once, and the latency of the whole.
  int add_route(std::span<const int> links, Time latency);

  // Starts a flow at now(). `tag` comes back when it is through.
  void start(int route, double bytes, std::uint64_t tag);
  // Capacity of a link from now on, bytes per second.
  void set_capacity(int link, double capacity);

  Time now() const { return now_; }
  bool idle() const {
    return sharing_.flows() == 0 && delayed_.empty() && waiting_.empty() && through_.empty();
  }
  // When the next flow starts to move or is through; Time::max() when idle.
  Time next();
  // Goes to a time that is not before now() and not after next(), and appends the tags of the flows through
  // by then, in the order in which they started.
  void advance_to(Time time, std::vector<std::uint64_t>& through);
  // Goes on until at least one flow is through; false when there is none.
  bool advance(std::vector<std::uint64_t>& through);

  // Bytes of all flows started so far by link.
  std::vector<double> bytes_by_link() const;
  std::uint64_t started() const { return sequence_; }
  std::uint64_t levels_found() const { return sharing_.levels_found(); }

 private:
  struct Route {
    std::size_t first = 0;
    int hops = 0;
    Time latency;
    double bytes = 0;  // of all its flows
  };
  struct Delayed {  // waits for its latency
    Time time;
    std::uint64_t sequence = 0;
    int route = 0;
    double bytes = 0;
    std::uint64_t tag = 0;
  };
  struct Moving {
    double at = 0;  // bytes; once it moves, the volume of its bottleneck at which it is through
    std::uint64_t sequence = 0;
    std::uint64_t tag = 0;
    int bottleneck = -1;
    int place = -1;  // in the bottleneck's heap
  };
  // Flows of one bottleneck move alike: each has moved `volume` bytes while it was theirs, and they are
  // through in the order of the volumes at which they are.
  struct Bottleneck {
    double volume = 0;  // as of `since`, at `rate`
    double rate = 0;    // as of the last update
    Time since;
    Time finish = Time::max();  // of its first flow
    int place = -1;             // in heap_
    bool is_touched = false;
    std::vector<std::pair<double, int>> flows;  // heap by Moving::at
  };
  struct HeapItem {
    Time finish;
    int link = 0;
  };

  void move(const Delayed& flow);
  void update();
  void bring_to_now(Bottleneck& link);
  void touch(int link);
  Time first_finish(const Bottleneck& link) const;
  void insert(Bottleneck& link, int flow);
  void erase(Bottleneck& link, int flow);
  void place_in_heap(int link, Time finish);

  BandwidthSharing sharing_;
  std::unordered_map<int, int> shared_;  // the second direction of a half-duplex link: the first
  std::vector<int> links_;               // of all routes
  std::vector<Route> routes_;
  std::vector<Moving> moving_;                                    // by the sharing's identity
  std::vector<Bottleneck> bottlenecks_;                           // by link
  std::vector<HeapItem> heap_;                                    // bottlenecks by finish
  std::vector<int> touched_;                                      // scratch
  std::deque<Delayed> waiting_;                                   // by time: those that came in order
  std::vector<Delayed> delayed_;                                  // a heap of the others
  std::vector<std::pair<std::uint64_t, std::uint64_t>> through_;  // (sequence, tag) through at now_
  Time now_;
  std::uint64_t sequence_ = 0;
  bool is_current_ = true;  // rates are those of the flows that move
};

}  // namespace foretrain
