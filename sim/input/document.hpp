// A YAML file as a tree of our own, each part with its place in the file. Scalars stay text, so that `yes` is
// no boolean and `010` is no octal number; anchors, aliases, tags and second documents are refused.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/input/diagnostics.hpp"

namespace foretrain {

enum class ValueKind { null, scalar, sequence, map };
// "nothing", "a single value", "a list", "a map of keys"
const char* name_of(ValueKind kind);

struct Member;

struct Value {
  ValueKind kind = ValueKind::null;
  std::string text;             // of a scalar
  bool quoted = false;          // the scalar stood in quotes or as a block: text, never a number
  std::vector<Value> items;     // of a sequence
  std::vector<Member> members;  // of a map, in the order of the file, each key once

  std::shared_ptr<const std::string> file;
  int line = 0, column = 0;  // from 1; 0 where it stands in no file (--set)

  SourceLocation where() const { return {file ? *file : std::string(), line, column}; }
  bool is_null() const { return kind == ValueKind::null; }
  bool is_scalar() const { return kind == ValueKind::scalar; }
  bool is_sequence() const { return kind == ValueKind::sequence; }
  bool is_map() const { return kind == ValueKind::map; }
  // The member of a map, null where there is none (or where this is no map).
  const Member* find_member(std::string_view key) const;
  const Value* find(std::string_view key) const;
};

struct Member {
  std::string key;
  SourceLocation where;  // of the key
  Value value;
};

struct DocumentLimits {
  std::size_t bytes = std::size_t{16} << 20;
  int depth = 64;
  std::size_t nodes = 400'000;
};

// Reads one document. What is wrong goes to `diagnostics`; nothing is returned where the text is no YAML at
// all or breaks a limit. `file` is the name that messages show.
std::optional<Value> parse_document(std::string_view text, const std::string& file, Diagnostics& diagnostics,
                                    const DocumentLimits& limits = {});

// The bytes of a file, at most `limit` of them. Throws Error(input) that names the file where it cannot be
// read, is a folder or is larger.
std::string read_file_limited(const std::filesystem::path& path, std::size_t limit = DocumentLimits().bytes);

// Where a path is that `file` names: beside it. What no file names (--set, standard input) is the caller's.
std::filesystem::path path_beside(const std::string& file, const std::filesystem::path& path);

// read_file_limited and parse_document; a file that cannot be read is a finding as well.
std::optional<Value> read_document(const std::filesystem::path& path, Diagnostics& diagnostics,
                                   const DocumentLimits& limits = {});

// The text of the first comment line before any content ("# Does a second node pay?"), else empty.
std::string first_comment(std::string_view text);

// Replaces or adds the value at a dotted path ("cluster.network.bandwidth", list items by number:
// "job.schedule.0.batch"). The text is read as YAML; null takes a key away. Findings carry `name` in place of
// a file.
void set_value(Value& root, const std::string& path, const std::string& text, const std::string& name,
               Diagnostics& diagnostics);

}  // namespace foretrain
