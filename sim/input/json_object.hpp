// Whole JSON files of ours: an object with a "schema" member.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "sim/input/diagnostics.hpp"

namespace foretrain {

struct JsonKind {
  const char* what;    // "profile", as messages call it
  const char* schema;  // "foretrain/profile/1"
};

// None, and a finding with line and column, where the text is no JSON or has another schema.
std::optional<nlohmann::json> parse_json_object(std::string_view json, const std::string& file,
                                                const JsonKind& kind, Diagnostics& diagnostics);

// A member a line, and of its arrays an entry a line.
std::string json_by_lines(const nlohmann::ordered_json& whole);

}  // namespace foretrain
