// Max-min fair sharing of links by flows: no flow's rate can rise without lowering that of a flow which is
// not faster.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
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
// lowest level of its other links, and is infinite where the link is not full. A flow is open on the link of
// the lowest level on its way, its bottleneck, and that level is its rate; on its other links it is limited.
// Where all levels solve their equations, each flow has a full link on which none is faster: max-min fair
// (Bertsekas and Gallager, Data Networks, 6.5). A level depends on lower ones alone: found from the lowest
// up, most are found once a change. Flows of one bottleneck have one rate, so that a new level costs nothing
// a flow but the look whether another link has become its lowest.
class BandwidthSharing {
 public:
  explicit BandwidthSharing(std::span<const double> capacities);

  // Adds a flow over at least one link; its identity is reused once it is removed. Its bottleneck is known
  // after the next solve().
  int add(std::span<const int> route);
  void remove(int flow);
  // Capacity of a link from now on, above zero.
  void set_capacity(int link, double capacity);

  struct Changes {
    std::span<const int> levels;  // links whose level changed
    std::span<const int> flows;   // those that were added, or whose bottleneck changed
  };
  // Finds the levels after all that was added and removed. What changed since the last call may hold links
  // and flows that are again as they were; valid until the next call.
  Changes solve();

  double rate(int flow) const { return level_[static_cast<std::size_t>(bottleneck(flow))]; }
  int bottleneck(int flow) const { return flows_[static_cast<std::size_t>(flow)].bottleneck; }
  double level(int link) const { return level_[static_cast<std::size_t>(link)]; }
  int flows() const { return active_; }
  // Links that have found their level since construction: the work done.
  std::uint64_t levels_found() const { return levels_found_; }

 private:
  struct Flow {
    int bottleneck = -1;
    int first_slot = 0;
    int hops = 0;            // 0 once removed
    bool is_marked = false;  // stands in changed_flows_
  };
  struct Slot {  // a flow on a link
    int link = 0;
    int position = 0;  // in the link's list
  };
  struct Entry {
    int flow = 0;
    int slot = 0;
    int other = -1;  // the other link of a way of two
  };
  struct Link {
    double capacity = 0;
    double limited = 0;  // rates of the flows that are limited elsewhere
    double highest = 0;  // none of them is above it
    int summed = 0;      // levels found since `limited` was summed up
    int open = 0;        // flows whose bottleneck it is
    int long_ways = 0;   // flows over more or fewer than two links
    bool is_waiting = false;
    bool is_changed = false;  // stands in changed_links_
  };
  using Waiting = std::pair<double, int>;  // level before, link

  Link& at(int link) { return links_[static_cast<std::size_t>(link)]; }
  std::vector<Entry>& entries_at(int link) { return entries_[static_cast<std::size_t>(link)]; }
  Flow& flow_at(int flow) { return flows_[static_cast<std::size_t>(flow)]; }
  static bool is_overfull(const Link& link);
  int allocate_slots(int hops);
  void wait_for_level(int link);
  void limited_changed(int link, double difference, double rate);
  void set_level(int link, double level);
  void mark_flow(int flow);
  void swap_entries(int link, std::size_t a, std::size_t b);
  void open_entry(int link, std::size_t position);
  void close_entry(int link, std::size_t position);
  int next_waiting();
  double lowest_other(const Entry& entry, int* link = nullptr) const;
  double rate_elsewhere(const Entry& entry) const;
  std::pair<double, bool> find_level(int link);
  void sum_limited(int link);
  double lowest_of_open(int link) const;
  double raise_water(int link);
  void scatter(int link, double difference);
  void change_bottlenecks(int link, double level);
  void move_flow(int flow, int to, double rate_before, int solved);

  std::vector<double> level_;
  std::vector<Link> links_;
  std::vector<std::vector<Entry>> entries_;  // by link, the open ones first
  std::vector<Flow> flows_;
  std::vector<Slot> slots_;
  std::vector<int> free_flows_;
  std::vector<std::vector<int>> free_slots_;  // by number of hops
  // Links whose level is to be found: those of the changes, by level, and a heap of those marked on the way.
  std::vector<Waiting> first_, later_;
  std::size_t next_first_ = 0;
  bool is_solving_ = false;
  std::vector<int> changed_links_, changed_flows_, result_links_, result_flows_;
  std::vector<double> limits_;              // scratch
  std::vector<std::pair<int, int>> moves_;  // scratch: flow, new bottleneck
  int active_ = 0;
  std::uint64_t levels_found_ = 0;
};

}  // namespace foretrain
