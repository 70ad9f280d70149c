#include "calibrate/collectives.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include "calibrate/statistics.hpp"

namespace foretrain::calibrate {
namespace {

using device::Communicator;
using device::ElementType;
using device::Event;
using device::StreamKind;

constexpr double never = 1e30;
constexpr int rounds_in_turn = 4;  // of reductions and broadcasts
// Long enough for the streams of a network to reach their rate: one call after a pause has the switches'
// buffers to itself and is no bucket of many.
constexpr double chain_between_nodes = 0.1, chain_within_node = 1.5e-3;

// All of a rank's sizes share this state.
struct Curve {
  Session& session;
  RankGroup& group;
  Communicator* communicator;
  device::Buffer buffer;
  const CollectiveCurve& curve;
  const Placement& placement;
  const CollectiveOptions& options;
  EventPool events;
  double seconds_a_size = 0.1;

  void call(std::int64_t bytes) const { communicator->enqueue(curve.kind, buffer, bytes, curve.element); }
};

// What NCCL logs after "Algo": "RING proto SIMPLE channel{Lo..Hi}={0..1}"; without the word proto as well.
void read_choice(const std::string& text, CollectiveEntry& entry) {
  std::istringstream words(text);
  std::string algorithm, protocol, channels;
  words >> algorithm >> protocol;
  if (protocol == "proto") words >> protocol;
  words >> channels;
  int low = 0, high = 0;
  if (std::sscanf(channels.c_str(), "channel{Lo..Hi}={%d..%d}", &low, &high) == 2 && high >= low)
    entry.channels = high - low + 1;
  const auto lower = [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return word;
  };
  entry.chosen_algorithm = lower(algorithm);
  const std::string protocol_lower = lower(protocol);
  entry.chosen_protocol = protocol_lower == "simple"  ? "Simple"
                          : protocol_lower == "ll128" ? "LL128"
                          : protocol_lower == "ll"    ? "LL"
                                                      : protocol;
}

// A chain of calls behind one that brings the ranks together and is not timed; the time of a call, the
// slowest rank's. What `call` issues makes connections where it is the `first`, and must not wait for a gate
// then.
template <typename Call>
double time_calls(Session& session, RankGroup& group, bool takes_part, EventPool& events, const Call& call,
                  int length, bool first) {
  double seconds = 0;
  Event from, to;
  group.barrier();
  if (takes_part) {
    events.reset();
    from = events.take();
    to = events.take();
    if (!first) session.worker.close_gate(StreamKind::communication);
    call();
    session.worker.record(from, StreamKind::communication);
    for (int i = 0; i < length; ++i) call();
    session.worker.record(to, StreamKind::communication);
  }
  if (!first) group.barrier();
  if (takes_part) {
    if (!first) session.worker.open_gate();
    await(session, to);
    seconds = session.worker.seconds_between(from, to) / length;
  }
  return group.greatest(seconds);
}

// One call on idle devices with all ranks ready, as a gradient bucket makes it: the communication stream
// waits for an event of the compute stream, and that wait counts. Each rank's interval begins when its own
// gate opens; the last to open waits for none, so the least of the ranks' intervals is the call's own time.
double time_isolated(Curve& c, std::int64_t bytes) {
  device::Worker& worker = c.session.worker;
  double seconds = never;
  Event from, to;
  if (c.communicator) {
    c.events.reset();
    from = c.events.take();
    to = c.events.take();
    worker.close_gate(StreamKind::compute);
    worker.record(from, StreamKind::compute);
    worker.wait(StreamKind::communication, from);
    c.call(bytes);
    worker.record(to, StreamKind::communication);
  }
  c.group.barrier();
  if (c.communicator) {
    worker.open_gate();
    await(c.session, to);
    seconds = worker.seconds_between(from, to);
  }
  return c.group.least(seconds);
}

// A broadcast or a reduction ends on each rank at another time, and calls of one kind in a row run ahead of
// the slowest. In turn each waits for the one before to have gone all the way, as weights and gradients do to
// and from a server: half of a round, of which every rank sees the same.
bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}

double time_half_round(Curve& c, std::int64_t bytes, int rounds, bool first) {
  const auto round = [&] {
    for (const auto kind : {CollectiveKind::reduce, CollectiveKind::broadcast})
      c.communicator->enqueue(kind, c.buffer, bytes, c.curve.element);
  };
  return time_calls(c.session, c.group, c.communicator != nullptr, c.events, round, rounds, first) / 2;
}

// Of these the times of a job's own messages matter: its buckets, and its weights to and from a server.
bool carries_buckets(const CollectiveCurve& curve) {
  const bool is_used = curve.kind == CollectiveKind::all_reduce || curve.kind == CollectiveKind::reduce ||
                       curve.kind == CollectiveKind::broadcast;
  return is_used && curve.element == ElementType::fp32 && curve.setting.algorithm == "auto";
}

CollectiveEntry measure_size(Curve& c, std::int64_t bytes) {
  CollectiveEntry entry;
  entry.kind = name_of(c.curve.kind);
  entry.ranks = c.placement.ranks;
  entry.nodes = c.placement.nodes;
  entry.network = c.placement.network;
  entry.line_rate = c.placement.line_rate;
  entry.algorithm = c.curve.setting.algorithm;
  entry.protocol = c.curve.setting.protocol;
  entry.element = name_of(c.curve.element);
  entry.bytes = bytes;

  // All decisions rest on values that every rank has.
  const double estimate = std::max(
      time_chain(c.session, c.group, c.communicator, c.events, c.buffer, c.curve, bytes, 1, true), 1e-7);
  const double wanted =
      c.placement.nodes > 1 && carries_buckets(c.curve) ? chain_between_nodes : chain_within_node;
  const int length = static_cast<int>(std::clamp(wanted / estimate, 1.0, 40.0));
  const StopRule rule{.relative_error = c.options.relative_error,
                      .least = 7,
                      .most = 60,
                      .seconds = c.seconds_a_size,
                      .least_in_time = 3};
  std::vector<double> chain, host, isolated;
  // Of wall clock, meeting included: on a busy host that is most of it.
  const auto spent_since = [&](double start) { return c.group.greatest(c.session.clock.now() - start); };
  double start = c.session.clock.now(), spent = 0;
  while (!rule.done(chain, spent)) {
    chain.push_back(
        time_chain(c.session, c.group, c.communicator, c.events, c.buffer, c.curve, bytes, length));
    spent = spent_since(start);
  }
  start = c.session.clock.now();
  spent = 0;
  if (has_root(c.curve.kind)) time_half_round(c, bytes, 1, true);  // connections
  while (!rule.done(isolated, spent)) {
    isolated.push_back(has_root(c.curve.kind) ? time_half_round(c, bytes, rounds_in_turn, false)
                                              : time_isolated(c, bytes));
    spent = spent_since(start);
  }
  double host_seconds = 0;
  if (c.communicator) {
    const double reading = reading_cost(c.session.clock);
    c.session.worker.synchronize();
    for (int repetition = 0; repetition < 3; ++repetition) {
      const double before = c.session.clock.now();
      c.call(bytes);
      host.push_back(std::max(0.0, c.session.clock.now() - before - reading));
    }
    c.session.worker.synchronize();
    c.communicator->check();
    host_seconds = summarize(host).median;
    if (c.group.rank() == 0) read_choice(c.communicator->choice(), entry);
  }
  entry.host = c.group.greatest(host_seconds);
  entry.time = summarize(std::move(chain));
  entry.isolated = summarize(std::move(isolated));
  return entry;
}

// Exponent with which time grows with size between two sizes.
double growth(const CollectiveEntry& small, const CollectiveEntry& large) {
  return std::log(large.time.median / small.time.median) /
         std::log(static_cast<double>(large.bytes) / static_cast<double>(small.bytes));
}

// Whether the library changed its choice between entries i and i + 1 (ascending sizes). Where it names none,
// the times tell: for one choice they grow as a + b bytes, so the exponent never falls from one pair to the
// next.
bool switches(const std::vector<CollectiveEntry>& entries, std::size_t i) {
  const CollectiveEntry &small = entries[i], &large = entries[i + 1];
  if (!small.chosen_algorithm.empty() || !large.chosen_algorithm.empty())
    return small.chosen_algorithm != large.chosen_algorithm || small.chosen_protocol != large.chosen_protocol;
  if (growth(small, large) > 1.3) return true;
  return i > 0 && growth(small, large) < growth(entries[i - 1], small) - 0.2;
}

std::int64_t unit_of(int ranks) {
  return 16 * static_cast<std::int64_t>(ranks);
}

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

const char* name_of(ElementType element) {
  switch (element) {
    case ElementType::fp32:
      return "fp32";
    case ElementType::bf16:
      return "bf16";
    case ElementType::fp16:
      return "fp16";
    case ElementType::fp64:
      return "fp64";
  }
  return "";
}

std::int64_t element_size(ElementType element) {
  switch (element) {
    case ElementType::fp32:
      return 4;
    case ElementType::bf16:
    case ElementType::fp16:
      return 2;
    case ElementType::fp64:
      return 8;
  }
  return 0;
}

std::vector<CollectiveCurve> collective_curves(bool forced, bool bf16) {
  using Kind = CollectiveKind;
  std::vector<CollectiveCurve> curves;
  for (const Kind kind : {Kind::all_reduce, Kind::broadcast, Kind::reduce})
    curves.push_back({kind, ElementType::fp32, {}});
  if (bf16) curves.push_back({Kind::all_reduce, ElementType::bf16, {}});
  for (const Kind kind : {Kind::reduce_scatter, Kind::all_gather, Kind::all_to_all, Kind::send_recv})
    curves.push_back({kind, ElementType::fp32, {}});
  if (bf16)
    for (const Kind kind : {Kind::reduce_scatter, Kind::all_gather})
      curves.push_back({kind, ElementType::bf16, {}});
  if (forced)
    for (const char* algorithm : {"ring", "tree"})
      for (const char* protocol : {"Simple", "LL", "LL128"})
        curves.push_back({Kind::all_reduce, ElementType::fp32, {algorithm, protocol}});
  return curves;
}

std::vector<std::int64_t> collective_sizes(std::int64_t least, std::int64_t most, int ranks) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = least; bytes <= most; bytes *= 2) {
    const std::int64_t rounded = round_up(bytes, unit_of(ranks));
    if (sizes.empty() || sizes.back() != rounded) sizes.push_back(rounded);
  }
  return sizes;
}

SettingGuard::SettingGuard(const CollectiveSetting& setting) {
  // The user's own choice stands: it is what his jobs run with.
  if (setting.algorithm != "auto") {
    set_algorithm_ = true;
    setenv("NCCL_ALGO", setting.algorithm.c_str(), 1);
  }
  if (setting.protocol != "auto") {
    set_protocol_ = true;
    setenv("NCCL_PROTO", setting.protocol.c_str(), 1);
  }
}

SettingGuard::~SettingGuard() {
  if (set_algorithm_) unsetenv("NCCL_ALGO");
  if (set_protocol_) unsetenv("NCCL_PROTO");
}

double time_chain(Session& session, RankGroup& group, Communicator* communicator, EventPool& events,
                  device::Buffer buffer, const CollectiveCurve& curve, std::int64_t bytes, int length,
                  bool first) {
  const auto call = [&] { communicator->enqueue(curve.kind, buffer, bytes, curve.element); };
  return time_calls(session, group, communicator != nullptr, events, call, length, first);
}

std::vector<CollectiveEntry> measure_curve(Session& session, RankGroup& group, Communicator* communicator,
                                           device::Buffer buffer, const CollectiveCurve& curve,
                                           const Placement& placement, const CollectiveOptions& options,
                                           double deadline, int& left_out) {
  Curve state{session, group, communicator, buffer, curve, placement, options, EventPool(session.worker)};
  std::vector<CollectiveEntry> entries;
  std::vector<std::int64_t> sizes =
      collective_sizes(options.least_bytes, options.most_bytes, placement.ranks);
  const std::size_t doubling = sizes.size();
  if (carries_buckets(curve)) sizes.insert(sizes.end(), options.more_bytes.begin(), options.more_bytes.end());
  std::set<std::int64_t> measured;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // The first rank that has run out of time, or whose user has had enough, ends it for all.
    const bool late = session.clock.now() > deadline;
    const double end = group.greatest(session.stopped() ? 2 : late ? 1 : 0);
    if (end >= 2) throw Interrupted();
    if (end >= 1) {
      left_out += static_cast<int>(sizes.size() - i);
      break;
    }
    // On slow links the largest sizes would take all the time there is; two that lie on one line tell the
    // rest.
    const std::int64_t bytes = round_up(sizes[i], unit_of(placement.ranks));
    const double expected = entries.empty() || (placement.nodes < 2 && !options.skips_long)
                                ? 0
                                : entries.back().time.median * static_cast<double>(bytes) /
                                      static_cast<double>(entries.back().bytes);
    const double most = i < doubling ? options.seconds / 100 : options.seconds / 20;
    if (group.all_gather(expected > most ? 1 : 0).front() > 0) {
      if (i < doubling) i = doubling - 1;
      continue;
    }
    if (!measured.insert(bytes).second || bytes > options.most_bytes) continue;
    entries.push_back(measure_size(state, bytes));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  if (curve.setting.algorithm != "auto") return entries;

  // What rank 0's library names decides for all.
  const auto switches_for_all = [&](std::size_t i) {
    return group.all_gather(switches(entries, i) ? 1 : 0).front() > 0;
  };
  const std::int64_t unit = unit_of(placement.ranks);
  for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
    if (!switches_for_all(i)) continue;
    std::size_t low = i, added = 0;
    for (int bisection = 0; bisection < options.refinements; ++bisection) {
      const double middle = std::sqrt(static_cast<double>(entries[low].bytes)) *
                            std::sqrt(static_cast<double>(entries[low + 1].bytes));
      const std::int64_t bytes = round_up(static_cast<std::int64_t>(middle), unit);
      if (bytes <= entries[low].bytes || bytes >= entries[low + 1].bytes) break;
      entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(low) + 1, measure_size(state, bytes));
      ++added;
      if (!switches_for_all(low)) ++low;
    }
    i += added;
  }
  return entries;
}

}  // namespace foretrain::calibrate
