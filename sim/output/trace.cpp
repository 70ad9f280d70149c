#include "sim/output/trace.hpp"

#include <fmt/format.h>

#include <set>

#include "sim/output/slice_order.hpp"

namespace foretrain {
namespace {

std::int64_t nanoseconds(Time t) {
  return t.count() / 1000;
}

// The format counts in microseconds.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

int thread_of(Track track) {
  return static_cast<int>(track) + 1;
}

class TraceWriter {
 public:
  explicit TraceWriter(const TextSink& sink) : sink_(sink) {}

  void event(const std::string& members) {
    sink_(first_ ? "\n{" : ",\n{");
    first_ = false;
    sink_(members);
    sink_("}");
  }

  void metadata(int rank, int thread, const char* what, const std::string& argument) {
    event(
        fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}})", rank, thread, what, argument));
  }

  void slice(const Slice& slice) {
    const std::int64_t start = nanoseconds(slice.start), end = nanoseconds(slice.start + slice.duration);
    std::string members = fmt::format(
        R"("ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{})", slice.rank,
        thread_of(slice.track), microseconds(start), microseconds(end - start), json_string(slice.name),
        json_string(slice.category.empty() ? name_of(slice.track) : slice.category));
    if (!slice.arguments.empty()) {
      members += ",\"args\":{";
      for (const auto& argument : slice.arguments) {
        if (&argument != &slice.arguments.front()) members += ',';
        members += json_string(argument.first) + ':' + json_string(argument.second);
      }
      members += '}';
    }
    event(members);
  }

  void flow(const Flow& flow, std::size_t id) {
    event(fmt::format(R"("ph":"s","id":{},"pid":{},"tid":{},"ts":{},"name":"starts","cat":"flow")", id,
                      flow.from_rank, thread_of(flow.from_track), microseconds(nanoseconds(flow.from))));
    event(fmt::format(R"("ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"name":"starts","cat":"flow")",
                      id, flow.to_rank, thread_of(flow.to_track), microseconds(nanoseconds(flow.to))));
  }

 private:
  const TextSink& sink_;
  bool first_ = true;
};

void name_tracks(const Timeline& timeline, TraceWriter& writer) {
  std::set<std::pair<int, Track>> tracks;
  for (const Slice& slice : timeline.slices) tracks.emplace(slice.rank, slice.track);
  int last_rank = -1;
  for (const auto& [rank, track] : tracks) {
    if (rank != last_rank) {
      const auto known = static_cast<std::size_t>(rank) < timeline.rank_names.size();
      const std::string name = known ? timeline.rank_names[static_cast<std::size_t>(rank)] : "";
      writer.metadata(
          rank, 0, "process_name",
          "\"name\":" + json_string(fmt::format("rank {}{}{}", rank, name.empty() ? "" : ": ", name)));
      writer.metadata(rank, 0, "process_sort_index", fmt::format("\"sort_index\":{}", rank));
      last_rank = rank;
    }
    const int thread = thread_of(track);
    writer.metadata(rank, thread, "thread_name", "\"name\":" + json_string(name_of(track)));
    writer.metadata(rank, thread, "thread_sort_index", fmt::format("\"sort_index\":{}", thread));
  }
}

}  // namespace

void write_trace(const Timeline& timeline, const TextSink& sink) {
  sink("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":" + json_string(timeline.title) +
       ",\"version\":\"foretrain " FORETRAIN_VERSION "\"},\"traceEvents\":[");
  TraceWriter writer(sink);
  name_tracks(timeline, writer);
  for (const std::size_t i : slice_order(timeline)) writer.slice(timeline.slices[i]);
  for (std::size_t i = 0; i < timeline.flows.size(); ++i) writer.flow(timeline.flows[i], i + 1);
  sink("\n]}\n");
}

}  // namespace foretrain
