// Event files as they are, and with the checksums mended that a changed byte breaks: else no change would
// reach what the records hold.
#include <cstring>

#include "sim/output/event_file.hpp"
#include "tests/fuzz/import.hpp"

namespace {

std::string with_checksums(std::string_view text) {
  std::string out(text);
  constexpr std::size_t length_bytes = 8, crc_bytes = 4, around = length_bytes + 2 * crc_bytes;
  std::size_t at = 0;
  while (out.size() - at >= around) {
    std::uint64_t length = 0;
    std::memcpy(&length, out.data() + at, length_bytes);
    if (length > out.size() - at - around) break;
    const std::size_t data = at + length_bytes + crc_bytes;
    const std::uint32_t of_length = foretrain::masked_crc({out.data() + at, length_bytes});
    const std::uint32_t of_data = foretrain::masked_crc({out.data() + data, length});
    std::memcpy(out.data() + at + length_bytes, &of_length, crc_bytes);
    std::memcpy(out.data() + data + length, &of_data, crc_bytes);
    at = data + length + crc_bytes;
  }
  return out;
}

}  // namespace

FORETRAIN_FUZZ(tensorboard) {
  const std::string mended = with_checksums(text);
  for (const std::string_view each : {text, std::string_view(mended)}) {
    foretrain::fuzz::import_both_ways("tensorboard", each, "steps.yaml");
    foretrain::fuzz::import_both_ways("tensorboard", each, "curve.csv");
  }
}
