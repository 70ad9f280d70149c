#include "sim/output/html_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "sim/base/parse_units.hpp"
#include "sim/output/svg_chart.hpp"

namespace foretrain {
namespace {

constexpr std::size_t most_ranks = 4;
constexpr double unseen = 5e-4;  // of the step

struct Kind {
  const char* category;
  int colour;
  const char* name;
};
constexpr std::array kinds{Kind{"forward", 0, "forward"},
                           Kind{"backward", 1, "backward"},
                           Kind{"optimizer", 2, "optimizer"},
                           Kind{"communication", 3, "communication"},
                           Kind{"waiting", 4, "waiting for other ranks"},
                           Kind{"launch", 5, "launching"},
                           Kind{"input", 6, "input"}};

std::size_t kind_of(const std::string& category) {
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return category == kind.category; });
  return found == kinds.end() ? 3 : static_cast<std::size_t>(found - kinds.begin());
}

std::vector<int> shown_ranks(const Timeline& timeline) {
  std::set<int> all;
  for (const Slice& slice : timeline.slices) all.insert(slice.rank);
  std::vector<int> ranks(all.begin(), all.end());
  if (ranks.size() > most_ranks) {
    ranks[most_ranks - 1] = ranks.back();
    ranks.resize(most_ranks);
  }
  return ranks;
}

std::string name_of_rank(const Timeline& timeline, int rank) {
  const auto i = static_cast<std::size_t>(rank);
  return i < timeline.rank_names.size() ? fmt::format("rank {}: {}", rank, timeline.rank_names[i])
                                        : fmt::format("rank {}", rank);
}

// Slices of one kind that follow each other without a visible gap are one.
std::vector<SpanChart::Piece> pieces_of(const std::vector<const Slice*>& slices, double zero, double whole) {
  std::vector<SpanChart::Piece> out;
  for (const Slice* slice : slices) {
    const std::size_t kind = kind_of(slice->category);
    const double begin = slice->start.in_seconds() - zero, end = begin + slice->duration.in_seconds();
    if (!out.empty() && out.back().colour == kinds[kind].colour && begin - out.back().end <= unseen * whole) {
      out.back().end = std::max(out.back().end, end);
    } else {
      out.push_back({begin, end, kinds[kind].colour, ""});
    }
  }
  for (auto& piece : out) {
    const auto* kind = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const Kind& each) { return each.colour == piece.colour; });
    piece.hint = fmt::format("{}: {} from {} on", kind->name, format_time(piece.end - piece.begin),
                             format_time(piece.begin));
  }
  return out;
}

}  // namespace

std::string html_timeline(const Timeline& timeline) {
  const std::vector<int> ranks = shown_ranks(timeline);
  if (ranks.empty()) return "";
  std::map<std::pair<int, Track>, std::vector<const Slice*>> tracks;
  std::map<int, std::array<double, kinds.size()>> sums;
  std::array<bool, kinds.size()> occurs{};
  // From the first work on a device on; a host that is steps ahead has launched it long before.
  double begin = 1e300, end = 0;
  for (const Slice& slice : timeline.slices) {
    if (slice.track == Track::host) continue;
    begin = std::min(begin, slice.start.in_seconds());
    end = std::max(end, slice.start.in_seconds() + slice.duration.in_seconds());
  }
  const double whole = end - begin;
  for (const Slice& slice : timeline.slices) {
    const double after = slice.start.in_seconds() - begin;
    if (std::find(ranks.begin(), ranks.end(), slice.rank) == ranks.end() || after < 0) continue;
    tracks[{slice.rank, slice.track}].push_back(&slice);
    const std::size_t kind = kind_of(slice.category);
    sums[slice.rank][kind] += slice.duration.in_seconds();
    occurs[kind] = occurs[kind] || sums[slice.rank][kind] > unseen * whole;
  }
  SpanChart chart;
  chart.title = "What the ranks do when";
  for (auto& [key, slices] : tracks) {
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice* a, const Slice* b) { return a->start < b->start; });
    chart.rows.push_back({fmt::format("{}, {}", name_of_rank(timeline, key.first), name_of(key.second)),
                          pieces_of(slices, begin, whole)});
  }
  std::vector<std::pair<std::string, std::string>> legend;
  std::string head, rows;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (!occurs[k]) continue;
    legend.emplace_back(fmt::format("b{}", kinds[k].colour), kinds[k].name);
    head += fmt::format("<th class=\"n\">{}</th>", kinds[k].name);
  }
  for (const int rank : ranks) {
    rows += "<tr><td>" + escaped_html(name_of_rank(timeline, rank)) + "</td>";
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (occurs[k]) rows += "<td class=\"n\">" + format_time(sums[rank][k]) + "</td>";
    }
    rows += "</tr>\n";
  }
  return "<h2>What the ranks do when</h2>\n" + legend_of(legend) + svg_of(chart) +
         numbers_table(chart.title, "<th>rank</th>" + head, rows) +
         "<p class=\"note\">One step in the middle of many. Launches are shown where they fall into it: a "
         "host "
         "that is ahead has made them before.</p>\n";
}

}  // namespace foretrain
