#include "sim/network/collective_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/network/stepwise.hpp"

namespace foretrain {
namespace {

constexpr std::size_t most_sizes = 1'000;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Bytes parse_size(std::string_view text) {
  const auto parsed = parse_bytes(trimmed(text));
  if (const auto* problem = std::get_if<UnitError>(&parsed))
    throw Error(ErrorKind::input, "bytes: " + problem->what);
  return std::get<Bytes>(parsed);
}

double parse_factor(std::string_view text) {
  const auto parsed = parse_number(trimmed(text));
  const auto* factor = std::get_if<double>(&parsed);
  if (factor == nullptr || !(*factor > 1)) {
    throw Error(ErrorKind::input, fmt::format("bytes: '*{}' is no factor above 1", text));
  }
  return *factor;
}

std::vector<Bytes> parse_range(std::string_view text, std::size_t dots) {
  const std::string_view rest = text.substr(dots + 2);
  const std::size_t star = rest.find('*');
  const Bytes first = parse_size(text.substr(0, dots)), last = parse_size(rest.substr(0, star));
  const double factor = star == std::string_view::npos ? 2 : parse_factor(rest.substr(star + 1));
  if (first.count() < 1 || last < first) {
    throw Error(ErrorKind::input,
                fmt::format("bytes: '{}' is no range from a size above 0 to a larger one", text));
  }
  std::vector<Bytes> sizes;
  // A step below a byte must still move on.
  for (double size = static_cast<double>(first.count());
       size <= static_cast<double>(last.count()) * (1 + 1e-12); size = std::max(size * factor, size + 1)) {
    sizes.emplace_back(std::llround(size));
    if (sizes.size() > most_sizes) {
      throw Error(ErrorKind::input, "bytes: more than 1,000 sizes: take a larger factor");
    }
  }
  return sizes;
}

CollectiveRow row_of(const CollectiveRequest& request, Bytes bytes, double seconds, int ranks) {
  CollectiveRow row;
  row.bytes = bytes;
  row.seconds = seconds;
  if (seconds > 0) row.algorithm_bandwidth = static_cast<double>(bytes.count()) / seconds;
  row.bus_bandwidth = row.algorithm_bandwidth * bus_factor(request.kind, ranks);
  return row;
}

}  // namespace

std::vector<Bytes> parse_sizes(std::string_view text) {
  std::vector<Bytes> sizes;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::size_t dots = part.find("..");
    if (dots != std::string_view::npos) {
      for (Bytes size : parse_range(part, dots)) sizes.push_back(size);
    } else {
      sizes.push_back(parse_size(part));
    }
    if (sizes.size() > most_sizes) throw Error(ErrorKind::input, "bytes: more than 1,000 sizes");
    if (comma == std::string_view::npos) return sizes;
    text.remove_prefix(comma + 1);
  }
}

CollectiveTable collective_table(const Topology& topology, const Profile* profile,
                                 const CollectiveRequest& request) {
  if (request.choice.algorithm && !has_algorithm(request.kind, *request.choice.algorithm)) {
    throw Error(ErrorKind::input,
                fmt::format("{} has no algorithm '{}'; it has {}", name_of(request.kind),
                            name_of(*request.choice.algorithm), algorithm_names(request.kind)));
  }
  CollectiveTable table;
  table.kind = request.kind;
  table.topology = topology.name;
  table.ranks = static_cast<int>(topology.workers.size());
  table.nodes = topology.nodes;
  table.stepwise = request.stepwise;
  std::vector<int> ranks(topology.workers.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (request.stepwise) {
    Routes routes(topology);
    const RankGroup group = rank_group(topology, ranks);
    const CollectiveAlgorithm algorithm = request.choice.algorithm.value_or(default_algorithm(request.kind));
    StepwiseOptions options;
    options.rings = rings_of(topology, group);
    for (Bytes bytes : request.sizes) {
      const auto result = replay_stepwise(topology, routes, request.kind, algorithm, group, bytes, options);
      CollectiveRow row = row_of(request, bytes, result.time.in_seconds(), table.ranks);
      row.algorithm = name_of(algorithm);
      table.rows.push_back(row);
    }
    return table;
  }
  const CollectiveModel model(topology, profile);
  for (Bytes bytes : request.sizes) {
    const CollectiveCost cost = model.cost(request.kind, bytes, Precision::fp32, ranks, request.choice);
    CollectiveRow row = row_of(request, bytes, cost.time.in_seconds(), table.ranks);
    row.algorithm = cost.algorithm;
    row.protocol = cost.protocol;
    row.origin = cost.origin;
    row.relative_uncertainty = cost.relative_uncertainty;
    row.extrapolated = cost.extrapolated;
    row.range = cost.range;
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace foretrain
