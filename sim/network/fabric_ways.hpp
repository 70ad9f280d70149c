// Shortest ways between the switches of a network. What lies around a switch is searched once and met halfway
// by what lies around another, so that a fabric of thousands of switches costs little for each pair.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/network/way_graph.hpp"

namespace foretrain {

// Keeps a reference to the graph.
class FabricWays {
 public:
  explicit FabricWays(const WayGraph& graph);

  // Length between two switches of the network, -1 where there is no way over switches alone.
  int distance(int from, int to);

  // Appends the links of a shortest way. Of equally short ones that by `flow_hash`, or the first.
  void append_way(int from, int to, std::uint64_t flow_hash, bool first, std::vector<int>& way);

  // Searches all that a switch leads to, so that distances from it are looked up.
  void settle(int from);

  // A link that shortest ways between two switches may take, and the part of all flow hashes whose ways do.
  struct Chance {
    int link = 0;
    double part = 0;
  };
  // Of all links that append_way() may take, in the order of the ways; empty where both are the same or there
  // is no way.
  void append_chances(int from, int to, bool first, std::vector<Chance>& chances);

  // The first switch with the same neighbours, or itself.
  int twin_of(int vertex) const;
  // Links from a switch to other switches (or to it from them), in an order that its twins' have too.
  std::vector<int> ports(int vertex, bool leaving) const;

  // Bytes that a switch's ball of everything takes, in each direction.
  std::size_t bytes_of_ball() const {
    return vertex_.size() * (sizeof(std::uint16_t) + sizeof(std::int32_t));
  }
  // Bytes that the balls around all switches may come to; with more, ways are better searched one by one.
  bool is_small() const;

 private:
  // Everything up to a radius around a switch, away from it or towards it.
  struct Ball {
    int radius = -1;                      // settled up to here
    bool is_settled = false;              // to the end
    std::vector<std::uint16_t> distance;  // by place among the switches; those on the rim are labelled
    std::vector<std::vector<std::int32_t>> rings;  // places by distance; some stand in a farther ring too
    bool is_whole() const { return radius + 1 >= static_cast<int>(rings.size()); }
  };

  // The ball around a switch seen as that of its twin: both have changed places.
  struct View {
    Ball* ball = nullptr;
    int own = 0, twin = 0;
    int place(int place) const { return place == own ? twin : place == twin ? own : place; }
    std::uint16_t distance(int place) const;
  };

  void find_twins();
  View view(int switch_place, bool forward);
  void grow(Ball& ball, bool forward, int radius) const;
  // Both balls, so large that they meet; the length, or -1.
  int meet(const View& from, const View& to) const;
  int meeting(const View& from, const View& to, int length, std::uint64_t flow_hash, bool first) const;

  const WayGraph& graph_;
  std::vector<std::int32_t> place_;  // of a vertex among the switches, -1: none
  std::vector<std::int32_t> vertex_;
  std::vector<std::int32_t> twin_;  // the first switch with the same neighbours (leaves of a pod), or itself
  std::vector<Ball> forward_, backward_;
  std::unordered_map<std::uint64_t, int> distances_;
  // Links by which a vertex of a way is reached from the end that a view is of (or leads to it).
  void find_fitting(const View& view, int place, bool back);
  // Of the places in the middle of all shortest ways.
  void find_meetings(const View& from, const View& to, int length, bool first);

  std::vector<const WayLink*> fitting_;   // of one choice
  std::vector<int> meetings_;             // of one pair
  std::vector<double> part_;              // of ways over a place; zero between calls
  std::vector<std::vector<int>> levels_;  // places by distance; empty between calls
};

}  // namespace foretrain
