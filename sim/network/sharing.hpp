// Max-min fair sharing of links by flows: no flow's rate can rise without lowering that of a flow which is
// not faster.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretrain {

// Rates of flows over links, from nothing: progressive filling, level by level. capacities in bytes per
// second; routes hold link indices, each at most once a route. A flow without links has an infinite rate.
std::vector<double> max_min_rates(std::span<const double> capacities,
                                  const std::vector<std::vector<int>>& routes);

// Keeps the fair rates while flows come and go. A change works its way outwards: a link whose flows or their
// limits elsewhere changed finds its water level anew, and only what that moves is touched.
//
// The level w(l) of a link solves sum over its flows of min(limit, w) = capacity, where a flow's limit is the
// lowest level of its other links, and is infinite where the link is not full. A flow's rate is the lowest
// level on its way. Where all levels solve their equations, each flow has a full link on which none is
// faster: max-min fair (Bertsekas and Gallager, Data Networks, 6.5). The order in which levels are found does
// not matter: the lowest is right once found, then the next.
class BandwidthSharing {
 public:
  explicit BandwidthSharing(std::span<const double> capacities);

  // Adds a flow; its identity is reused once it is removed. The rate is known after the next solve().
  int add(std::span<const int> route);
  void remove(int flow);
  // Capacity of a link from now on, above zero.
  void set_capacity(int link, double capacity);

  // Finds the rates after all that was added and removed. Returns the flows whose rate changed; valid until
  // the next call.
  std::span<const int> solve();

  double rate(int flow) const { return flows_[static_cast<std::size_t>(flow)].rate; }
  int flows() const { return active_; }
  // Links that have found their level since construction: the work done.
  std::uint64_t levels_found() const { return levels_found_; }

 private:
  struct Flow {
    double rate = 0;    // as of the last solve()
    double lowest = 0;  // level on the way, and the next higher of another link
    double second = 0;
    int lowest_hop = -1;  // index on the way of the lowest
    int first_slot = 0;
    int hops = 0;
    bool is_marked = false;  // stands in changed_
  };
  struct Slot {  // a flow on a link
    int link = 0;
    int position = 0;  // in the link's list
  };
  struct Entry {
    int flow = 0;
    int hop = 0;
  };

  int allocate_slots(int hops);
  void mark_link(int link);
  double find_level(int link);
  void apply_level(int link, double level);
  void find_lowest(Flow& flow) const;

  std::vector<double> capacity_, level_;
  std::vector<std::vector<Entry>> on_link_;
  std::vector<Flow> flows_;
  std::vector<Slot> slots_;
  std::vector<int> free_flows_;
  std::vector<std::vector<int>> free_slots_;  // by number of hops
  std::vector<int> waiting_;                  // links whose level is to be found, first in first out
  std::size_t next_waiting_ = 0;
  std::vector<char> is_waiting_;
  std::vector<int> changed_, result_;
  std::vector<double> limits_;  // scratch
  int active_ = 0;
  std::uint64_t levels_found_ = 0;
};

}  // namespace foretrain
