#include "sim/output/perfetto_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/wire.hpp"
#include "sim/output/slice_order.hpp"

namespace foretrain {
namespace {

// perfetto/trace/trace.proto, trace_packet.proto, track_event.proto, track_descriptor.proto.
enum Packet : std::uint32_t {
  packet = 1,
  timestamp = 8,
  sequence = 10,
  track_event = 11,
  sequence_flags = 13,
  track_descriptor = 60
};
enum Descriptor : std::uint32_t {
  uuid = 1,
  track_name = 2,
  process = 3,
  thread = 4,
  parent = 5,
  counter = 8
};
enum Event : std::uint32_t {
  annotations = 4,
  type = 9,
  track = 11,
  category = 22,
  event_name = 23,
  double_value = 44,
  flow = 47,
  end_of_flow = 48
};
enum EventType : std::uint64_t { slice_begin = 1, slice_end = 2, counter_value = 4 };

constexpr std::uint64_t our_sequence = 1, state_cleared = 1;
constexpr std::uint64_t counter_tracks = std::uint64_t{1} << 32;

std::uint64_t track_of(int rank, Track track) {
  return (static_cast<std::uint64_t>(rank) + 1) * 16 + static_cast<std::uint64_t>(track) + 1;
}
std::uint64_t process_of(int rank) {
  return (static_cast<std::uint64_t>(rank) + 1) * 16;
}

struct Instant {
  std::int64_t time = 0;  // nanoseconds
  int order = 0;          // at one time: ends first, of the inner slice before the outer; then beginnings
  std::string event;
};

class Writer {
 public:
  Writer(const Timeline& timeline, const Result& result, const TextSink& sink)
      : timeline_(timeline), result_(result), sink_(sink) {}

  void write() {
    describe_tracks();
    find_arrows();
    for (const std::size_t i : slice_order(timeline_)) add_slice(i);
    add_counters();
    std::stable_sort(instants_.begin(), instants_.end(), [](const Instant& a, const Instant& b) {
      return std::tie(a.time, a.order) < std::tie(b.time, b.order);
    });
    for (const Instant& each : instants_) {
      WireWriter one;
      one.varint(timestamp, static_cast<std::uint64_t>(each.time));
      one.varint(sequence, our_sequence);
      one.bytes(track_event, each.event);
      put(one);
    }
  }

 private:
  void put(const WireWriter& one) {
    WireWriter out;
    out.message(packet, one);
    sink_(out.text());
  }

  void describe(const WireWriter& descriptor) {
    WireWriter one;
    one.varint(sequence, our_sequence);
    if (is_first_) one.varint(sequence_flags, state_cleared);
    is_first_ = false;
    one.message(track_descriptor, descriptor);
    put(one);
  }

  void describe_tracks() {
    std::set<std::pair<int, Track>> tracks;
    for (const Slice& slice : timeline_.slices) tracks.emplace(slice.rank, slice.track);
    int last = -1;
    for (const auto& [rank, track] : tracks) {
      const std::uint64_t pid = static_cast<std::uint64_t>(rank) + 1;
      if (rank != last) {
        WireWriter process_part, descriptor;
        const auto known = static_cast<std::size_t>(rank) < timeline_.rank_names.size();
        process_part.varint(1, pid);
        process_part.bytes(
            6, fmt::format("rank {}{}", rank,
                           known ? ": " + timeline_.rank_names[static_cast<std::size_t>(rank)] : ""));
        descriptor.varint(uuid, process_of(rank));
        descriptor.message(process, process_part);
        describe(descriptor);
        last = rank;
      }
      WireWriter thread_part, descriptor;
      thread_part.varint(1, pid);
      thread_part.varint(2, pid * 16 + static_cast<std::uint64_t>(track) + 1);
      thread_part.bytes(5, name_of(track));
      descriptor.varint(uuid, track_of(rank, track));
      descriptor.varint(parent, process_of(rank));
      descriptor.message(thread, thread_part);
      describe(descriptor);
    }
    for (std::size_t l = 0; l < result_.links.size(); ++l) {
      WireWriter descriptor;
      descriptor.varint(uuid, counter_tracks + l);
      descriptor.bytes(track_name, result_.links[l].name + " (bytes per second)");
      descriptor.bytes(counter, "");
      describe(descriptor);
    }
  }

  // The n-th launch of a name starts the n-th work of that name; the n-th collective of a name is that of all
  // ranks.
  void find_arrows() {
    std::map<std::pair<int, std::string>, std::vector<std::size_t>> launches, works;
    std::map<std::string, std::map<int, std::vector<std::size_t>>> collectives;
    for (const std::size_t i : slice_order(timeline_)) {
      const Slice& slice = timeline_.slices[i];
      if (slice.category == "waiting") continue;
      (slice.track == Track::host ? launches : works)[{slice.rank, slice.name}].push_back(i);
      if (slice.track == Track::communication) collectives[slice.name][slice.rank].push_back(i);
    }
    std::uint64_t id = 0;
    const auto connect = [&](std::size_t from, std::size_t to) {
      starts_[from].push_back(++id);
      ends_[to].push_back(id);
    };
    for (const auto& [key, from] : launches) {
      auto& to = works[key];
      const auto by_start = [&](std::size_t a, std::size_t b) {
        return timeline_.slices[a].start < timeline_.slices[b].start;
      };
      std::stable_sort(to.begin(), to.end(), by_start);
      for (std::size_t n = 0; n < std::min(from.size(), to.size()); ++n) connect(from[n], to[n]);
    }
    for (const auto& [name, by_rank] : collectives) {
      if (by_rank.size() < 2) continue;
      for (auto each = by_rank.begin(); each != by_rank.end(); ++each) {
        const auto next = std::next(each) == by_rank.end() ? by_rank.begin() : std::next(each);
        for (std::size_t n = 0; n < std::min(each->second.size(), next->second.size()); ++n)
          connect(each->second[n], next->second[n]);
      }
    }
  }

  void add_slice(std::size_t index) {
    const Slice& slice = timeline_.slices[index];
    const std::int64_t begin = slice.start.count() / 1000,
                       end = (slice.start + slice.duration).count() / 1000;
    WireWriter first, last;
    first.varint(type, slice_begin);
    first.varint(track, track_of(slice.rank, slice.track));
    first.bytes(category, slice.category.empty() ? name_of(slice.track) : slice.category);
    first.bytes(event_name, slice.name);
    for (const auto& [name, value] : slice.arguments) {
      WireWriter annotation;
      annotation.bytes(10, name);  // DebugAnnotation.name
      annotation.bytes(6, value);  // DebugAnnotation.string_value
      first.message(annotations, annotation);
    }
    for (const std::uint64_t id : starts_[index]) first.fixed64(flow, id);
    for (const std::uint64_t id : ends_[index]) first.fixed64(end_of_flow, id);
    last.varint(type, slice_end);
    last.varint(track, track_of(slice.rank, slice.track));
    // Slices come in an order in which outer ones precede: their ends follow.
    instants_.push_back({begin, begin == end ? 1 : 2, first.text()});
    instants_.push_back({end, begin == end ? 1 : 0, last.text()});
  }

  void add_counters() {
    struct Part {
      std::int64_t begin, end;
      double bytes;
    };
    std::vector<Part> parts;
    double payload = 0;
    const int first_rank =
        timeline_.slices.empty()
            ? 0
            : std::min_element(timeline_.slices.begin(), timeline_.slices.end(),
                               [](const Slice& a, const Slice& b) { return a.rank < b.rank; })
                  ->rank;
    for (const Slice& slice : timeline_.slices) {
      if (slice.rank != first_rank || slice.track != Track::communication || slice.category == "waiting")
        continue;
      double bytes = 0;
      for (const auto& [name, value] : slice.arguments)
        if (name == "bytes") bytes = std::strtod(value.c_str(), nullptr);
      parts.push_back({slice.start.count() / 1000, (slice.start + slice.duration).count() / 1000, bytes});
      payload += bytes;
    }
    if (payload <= 0) return;
    for (std::size_t l = 0; l < result_.links.size(); ++l) {
      const double of_a_byte = result_.links[l].bytes_per_step / payload;
      for (const Part& part : parts) {
        if (part.end <= part.begin) continue;
        add_value(l, part.begin, of_a_byte * part.bytes / static_cast<double>(part.end - part.begin) * 1e9);
        add_value(l, part.end, 0);
      }
    }
  }

  void add_value(std::size_t link, std::int64_t time, double value) {
    WireWriter event;
    event.varint(type, counter_value);
    event.varint(track, counter_tracks + link);
    event.real64(double_value, value);
    instants_.push_back({time, value > 0 ? 2 : 0, event.text()});
  }

  const Timeline& timeline_;
  const Result& result_;
  const TextSink& sink_;
  bool is_first_ = true;
  std::map<std::size_t, std::vector<std::uint64_t>> starts_, ends_;
  std::vector<Instant> instants_;
};

}  // namespace

void write_perfetto_trace(const Timeline& timeline, const Result& result, const TextSink& sink) {
  Writer(timeline, result, sink).write();
}

}  // namespace foretrain
