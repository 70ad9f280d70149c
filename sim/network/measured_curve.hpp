// Times of one collective at one placement against its size, as calibration measured them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/training/profile.hpp"

namespace foretrain {

class MeasuredCurve {
 public:
  // Below, latency, the switch of protocols and a token bucket's burst bend the time.
  static constexpr double streamed_bytes = 1e6;

  struct Point {
    double bytes = 0, seconds = 0;
    double relative_uncertainty = 0;  // 90 % half width of the median
    std::string algorithm, protocol;  // empty where not known
    bool is_doubtful = false;  // its own repetitions do not agree: its neighbours say more of the others
  };
  struct Reading {
    double seconds = 0;
    double relative_uncertainty = 0;
    std::string algorithm, protocol;  // of the nearest point of the same choice
  };

  // Entries of the same kind, ranks, nodes, network and requested algorithm; several of one size (more runs)
  // are averaged by their medians.
  explicit MeasuredCurve(const std::vector<const CollectiveEntry*>& entries);

  bool empty() const { return points_.empty(); }
  const std::vector<Point>& points() const { return points_; }
  double smallest() const { return points_.front().bytes; }
  double largest() const { return points_.back().bytes; }
  bool contains(double bytes) const { return !empty() && bytes >= smallest() && bytes <= largest(); }

  // Time at a size within the range, between the nearest points on either side that were carried out as
  // `choice` says for this size ("RING LL"); points whose choice was not recorded are taken as `choice` has
  // them. The time is convex in the size (latency + bytes / bandwidth, or the larger of two such lines): it
  // lies below the chord of the two points and above the lines through their neighbours. With points on one
  // side only: the line through the two nearest, beyond them no more than `model` grows; with a single one,
  // that grown as `model` grows. Without any: between the nearest of whatever choice, with the doubt of that.
  // `choice` is asked with algorithm and protocol where they were recorded, else with empty ones.
  using Choice =
      std::function<std::string(double bytes, const std::string& algorithm, const std::string& protocol)>;
  using Model = std::function<double(double bytes)>;  // seconds
  Reading at(double bytes, const Choice& choice, const Model& model = {}) const;

 private:
  // From other sizes alone, those in doubt left out.
  Reading among_others(double bytes, const Choice& choice, const Model& model) const;
  Reading between(const std::vector<Point>& points, std::size_t upper, double bytes) const;
  std::vector<Point> points_;  // by size
};

// Algorithm and protocol as one upper-case word pair, "RING LL".
std::string choice_label(const std::string& algorithm, const std::string& protocol);

}  // namespace foretrain
