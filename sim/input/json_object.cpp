#include "sim/input/json_object.hpp"

#include <fmt/format.h>

namespace foretrain {
namespace {

SourceLocation place_of_byte(std::string_view text, std::size_t byte, const std::string& file) {
  SourceLocation where{file, 1, 1};
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    where.column = text[i] == '\n' ? 1 : where.column + 1;
    where.line += text[i] == '\n';
  }
  return where;
}

// nlohmann's messages begin with "[json.exception.parse_error.101] parse error at line 1, column 9: ".
std::string reason_of(const nlohmann::json::exception& error) {
  const std::string what = error.what();
  if (const std::size_t colon = what.find(": "); colon != std::string::npos) return what.substr(colon + 2);
  const std::size_t bracket = what.find("] ");
  return bracket == std::string::npos ? what : what.substr(bracket + 2);
}

}  // namespace

std::optional<nlohmann::json> parse_json_object(std::string_view json, const std::string& file,
                                                const JsonKind& kind, Diagnostics& diagnostics) {
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(json);
  } catch (const nlohmann::json::parse_error& error) {
    diagnostics.error(place_of_byte(json, error.byte, file), "not valid JSON: " + reason_of(error));
    return std::nullopt;
  } catch (const nlohmann::json::out_of_range& error) {
    diagnostics.error({file}, "not valid JSON: " + reason_of(error));
    return std::nullopt;
  }
  const auto schema = root.is_object() ? root.find("schema") : root.end();
  if (!root.is_object() || schema == root.end() || *schema != kind.schema) {
    const std::string found = root.is_object() && schema != root.end() ? schema->dump() : "nothing";
    diagnostics.error({file}, fmt::format("is no {} that this program reads: \"schema\" is {} where "
                                          "\"{}\" belongs",
                                          kind.what, found, kind.schema));
    return std::nullopt;
  }
  return root;
}

namespace {

// Host names and commands need not be UTF-8: what is not becomes U+FFFD.
std::string dumped(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string json_by_lines(const nlohmann::ordered_json& whole) {
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [key, value] : whole.items()) {
    text += separator + dumped(key) + ": ";
    separator = ",\n";
    if (!value.is_array()) {
      text += dumped(value);
      continue;
    }
    text += "[";
    const char* between = "\n  ";
    for (const auto& item : value) {
      text += between + dumped(item);
      between = ",\n  ";
    }
    text += "\n]";
  }
  return text + "\n}\n";
}

}  // namespace foretrain
