// Times of one collective at one placement against its size, as calibration measured them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/training/profile.hpp"

namespace foretrain {

class MeasuredCurve {
 public:
  struct Point {
    double bytes = 0, seconds = 0;
    double relative_uncertainty = 0;  // 90 % half width of the median
    std::string algorithm, protocol;  // empty where not known
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

  // Time at a size within the range. Between two points of one algorithm and protocol: linear in the size,
  // which is exact for latency + bytes / bandwidth. Between points of different ones: the line through the
  // two nearest points of the one that `choice` names ("RING LL"), or the lower of both lines.
  using Choice = std::function<std::string(double bytes)>;
  Reading at(double bytes, const Choice& choice) const;

 private:
  double line(std::size_t first, std::size_t second, double bytes) const;
  std::vector<Point> points_;  // by size
};

// Algorithm and protocol as one upper-case word pair, "RING LL".
std::string choice_label(const std::string& algorithm, const std::string& protocol);

}  // namespace foretrain
