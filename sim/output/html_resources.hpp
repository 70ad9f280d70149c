// What limits results, and what they use: the page's verdict, network, links and memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/output/result.hpp"

namespace foretrain {

// A page of a thousand results shows those that a person can look through: of charts and details.
inline constexpr std::size_t most_shown_results = 40;
// "The first 40 of 1,000."; empty where all are shown.
std::string left_out(std::size_t shown, std::size_t all);

// Inputs that say how large a run is; results that differ in nothing else are one line of a chart.
bool is_scale(const std::string& path);
// Which lines a chart with room for some of all shows: evenly from the first to the last.
std::vector<std::size_t> chosen_lines(std::size_t room, std::size_t all);
// "6 of 100 lines."; empty where all are shown.
std::string left_out_lines(std::size_t room, std::size_t all);

// What limits, first of all on the page: of one result its sentence; of several how many each limit holds
// for, with the sentence of the one that loses most.
std::string html_verdict(std::span<const Result> results);

// The step over the network's bandwidth, where results differ in it; else empty.
std::string html_bandwidths(std::span<const Result> results);

// How busy the busiest class of links is in each result; empty where nothing is sent.
std::string html_links(std::span<const Result> results);

// Kernel launches of a step and what its host takes for them, results that are alike once; empty where they
// are not known.
std::string html_launches(std::span<const Result> results);

// What fills a GPU's memory at the peak, results that are alike once; empty where it is not known.
std::string html_memory(std::span<const Result> results);

}  // namespace foretrain
