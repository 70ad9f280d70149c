// What tests of importers have in common.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/import/importer.hpp"

namespace foretrain::test {

// Null where this build has no importer of that name.
inline const Importer* importer_named(std::string_view name) {
  for (const Importer& each : importers())
    if (each.name == name && (each.import != nullptr || each.streamed != nullptr)) return &each;
  return nullptr;
}

// The message of the error of input that `import` throws; empty where it throws none.
template <typename Import>
std::string refusal_of(Import import) {
  try {
    import();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

inline bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace foretrain::test
