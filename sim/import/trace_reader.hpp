// A trace in Chrome's format (PyTorch's profiler, Kineto), event by event, as a stream of any length.
// Tolerant: an event that is damaged is repaired or dropped and counted, and reading goes on with the next.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "sim/import/importer.hpp"

namespace foretrain {

// Views are valid until the next event.
struct TraceEvent {
  std::string_view phase, category, name;
  std::uint64_t process = 0, thread = 0;  // numbers, or hashes of names
  double start = 0, duration = 0;         // microseconds
  bool has_start = false, has_duration = false, is_string_id = false;
  std::int64_t correlation = -1, external_id = -1, stream = -1, device = -1;
  double bytes = 0;
  // Of recorded shapes the first two that are flat lists of numbers.
  static constexpr int most_dimensions = 6;
  std::array<std::array<std::int64_t, most_dimensions>, 2> shapes{};
  std::array<int, 2> ranks{};            // dimensions of each; -1: not such a list
  int shape_count = 0;                   // 0: no shapes were recorded
  std::string_view collective, element;  // "allreduce", "Float"
  double elements = 0, group_size = 0;
};

struct TraceHead {
  std::string gpu, nccl;
  double memory_bytes = 0;
  int gpus = 0;
  int rank = -1, world_size = 0;  // -1 and 0 where the trace does not say
  bool has_shapes = false;
};

struct TraceDamage {
  std::int64_t bad_utf8 = 0, control_characters = 0, repaired_quotes = 0, dropped = 0, string_ids = 0;
  bool is_cut = false;  // the file ends within its list of events
  std::string compression;
};

// Calls `take` for each event. With `strict` the first damage throws Error(input) with its byte offset in the
// (decompressed) text; `file` names it in messages.
struct TraceReading {
  TraceHead head;
  TraceDamage damage;
  std::int64_t events = 0, bytes = 0;
};
TraceReading read_trace(const ByteSource& bytes, const std::string& file, bool strict,
                        const std::function<void(const TraceEvent&)>& take);

}  // namespace foretrain
