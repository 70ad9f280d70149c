// What kind of file a text is, by its content.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"

namespace foretrain {

enum class FileKind {
  unknown,
  scenario,
  model,
  topology,
  step_times,  // a step-time profile in YAML
  profile,
  result,
  run_record,
  validation,
  collective,
  plan,
  comparison,
  workload  // what import kineto writes
};
// "scenario", "run record"
const char* name_of(FileKind kind);

struct KnownSchema {
  const char* schema;
  FileKind kind;
};
// The "schema" of each kind of JSON file.
std::span<const KnownSchema> json_schemas();

// By the name's ending, else by how the text begins.
bool looks_like_json(std::string_view text, const std::string& file);
// The value of the first "schema" member, which our writers put at the beginning; parsing a whole file twice
// would cost as much as checking it. Empty where there is none.
std::string schema_of(std::string_view text);

// Of a YAML file the kind most of whose keys it has.
FileKind kind_of(const Value& root);

// Says that a file of another kind of ours stands where `wanted` belongs, and what reads it; false where it
// may be of that kind, or of none. The text before it is parsed, and its tree.
bool refuse_other_kind(std::string_view text, const std::string& file, FileKind wanted,
                       Diagnostics& diagnostics);
bool refuse_other_kind(const Value& root, FileKind wanted, Diagnostics& diagnostics);

}  // namespace foretrain
