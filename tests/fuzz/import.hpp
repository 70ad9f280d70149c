// What the fuzz targets of importers have in common.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "sim/import/importer.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace foretrain::fuzz {

inline Imported import_text(const Importer& importer, std::string_view text, const ImportOptions& options) {
  if (importer.import != nullptr) return importer.import(text, options);
  std::size_t at = 0;
  return importer.streamed(
      [&](std::span<char> buffer) {
        const std::size_t count = std::min(buffer.size(), text.size() - at);
        std::memcpy(buffer.data(), text.data() + at, count);
        at += count;
        return count;
      },
      options);
}

// Without options, and with all that the importer takes.
inline void import_both_ways(std::string_view name, std::string_view text, const std::string& target) {
  for (const Importer& importer : importers()) {
    if (importer.name != name || (importer.import == nullptr && importer.streamed == nullptr)) continue;
    ImportOptions options;
    options.file = "input";
    options.target = target;
    guarded([&] { check_readable(import_text(importer, text, options), options); });
    options.gradient_bytes = 1e8;
    options.collective = CollectiveKind::all_gather;
    options.network = "100 Gbit/s rdma";
    options.step = 0.01;
    options.batch = 32;
    options.precision = Precision::bf16;
    options.strict = true;
    guarded([&] { check_readable(import_text(importer, text, options), options); });
  }
}

}  // namespace foretrain::fuzz
