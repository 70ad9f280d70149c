// TensorBoard's event files: scalars over steps, in records with checksums (TFRecord).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

struct ScalarEvent {
  double wall_time = 0;  // seconds since 1970
  std::int64_t step = 0;
  std::string tag;
  double value = 0;
};

struct EventFile {
  std::vector<ScalarEvent> events;
  int others = 0;       // records that hold no scalar: graphs, images, histograms
  int damaged = 0;      // records whose checksum or content is wrong
  bool is_cut = false;  // ends within a record: still being written, or killed
};

// Throws Error(input), with `file`, where the bytes are no records at all.
EventFile read_event_file(std::string_view bytes, const std::string& file);

// The whole file.
std::string event_file_text(const std::vector<ScalarEvent>& events);

// As FOLDER/SCENARIO/KIND/events.out.tfevents.0.foretrain, a run of its own to TensorBoard; KIND is predicted
// or measured. Throws Error where the folder cannot be made.
void write_event_file(const std::string& folder, const std::string& scenario, const std::string& kind,
                      const std::vector<ScalarEvent>& events);

// Masked CRC-32C as TFRecord has it.
std::uint32_t masked_crc(std::string_view bytes);

}  // namespace foretrain
