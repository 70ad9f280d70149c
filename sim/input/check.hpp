// `foretrain check`: finds out what kind of file it is given and validates it as the verbs would.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sim/input/catalog.hpp"
#include "sim/input/diagnostics.hpp"
#include "sim/input/file_kind.hpp"

namespace foretrain {

struct Scenario;

// A file that was checked: its kind by its content, and what it holds in a few words.
struct CheckedFile {
  FileKind kind = FileKind::unknown;
  std::string summary;  // "ddp on 8 workers, 64 samples each"; empty where there was an error
  std::shared_ptr<const Scenario> scenario;  // of a scenario that was read without an error
};

// All that is wrong goes to `diagnostics`, hints to its warnings.
CheckedFile check_text(std::string_view text, const std::string& file, const Catalog& catalog,
                       Diagnostics& diagnostics);

// The same for a file, compressed or not; one that cannot be read is a finding.
CheckedFile check_file(const std::filesystem::path& path, const Catalog& catalog, Diagnostics& diagnostics);

}  // namespace foretrain
