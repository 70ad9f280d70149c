#include "sim/input/document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <charconv>
#include <cstdio>
#include <sstream>
#include <unordered_map>

#include "sim/base/utf8.hpp"

namespace foretrain {
namespace {

// Ends a walk at once: the finding stands in the diagnostics.
struct Refused {};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const std::string> file, Diagnostics& diagnostics, const DocumentLimits& limits)
      : file_(std::move(file)), diagnostics_(diagnostics), limits_(limits) {}

  Value take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started_) refuse(mark, "a second document begins here: a file holds one");
    started_ = true;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "", anchor);
    Value value = make(mark, ValueKind::null);
    // An empty value has its mark on whatever comes next.
    if (!open_.empty() && open_.back().value.is_map() && open_.back().has_key) {
      value.line = open_.back().key_where.line;
      value.column = open_.back().key_where.column;
    }
    add(mark, std::move(value));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not allowed: write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    check(mark, tag, anchor);
    Value value = make(mark, ValueKind::scalar);
    value.text = text;
    value.quoted = tag == "!";
    add(mark, std::move(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, ValueKind::sequence);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, ValueKind::map);
  }
  void OnMapEnd() override { end(); }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    refuse(mark, fmt::format("anchors (&{}) are not allowed: write the value out where it is needed", name));
  }

 private:
  struct Open {
    Value value;
    std::string key;
    SourceLocation key_where;
    bool has_key = false;
    bool drop = false;                           // the value of a key that stood before
    std::unordered_map<std::string, int> lines;  // of the keys so far
  };

  SourceLocation place(const YAML::Mark& mark) const { return {*file_, mark.line + 1, mark.column + 1}; }

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string what) {
    diagnostics_.error(place(mark), std::move(what));
    throw Refused{};
  }

  Value make(const YAML::Mark& mark, ValueKind kind) const {
    Value value;
    value.kind = kind;
    value.file = file_;
    value.line = mark.line + 1;
    value.column = mark.column + 1;
    return value;
  }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (++nodes_ > limits_.nodes) {
      refuse(mark, fmt::format("more than {} values: the file is too large", limits_.nodes));
    }
    if (anchor != YAML::NullAnchor) refuse(mark, "anchors (&name) are not allowed: write the value out");
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, fmt::format("tags ({}) are not allowed: the key says what kind of value it takes", tag));
    }
  }

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ValueKind kind) {
    check(mark, tag, anchor);
    if (static_cast<int>(open_.size()) >= limits_.depth) {
      refuse(mark, fmt::format("nested deeper than {} levels", limits_.depth));
    }
    if (!open_.empty() && open_.back().value.is_map() && !open_.back().has_key) {
      refuse(mark, fmt::format("{} cannot be a key: a key is a word", name_of(kind)));
    }
    open_.emplace_back().value = make(mark, kind);
  }

  void end() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    store(std::move(value));
  }

  void add(const YAML::Mark& mark, Value value) {
    if (!open_.empty() && open_.back().value.is_map() && !open_.back().has_key) {
      take_key(mark, value);
    } else {
      store(std::move(value));
    }
  }

  void take_key(const YAML::Mark& mark, Value& value) {
    Open& map = open_.back();
    if (value.is_null()) refuse(mark, "a key is missing before ':'");
    map.has_key = true;
    map.drop = false;
    map.key_where = place(mark);
    map.key = std::move(value.text);
    const auto [before, is_new] = map.lines.try_emplace(map.key, map.key_where.line);
    if (!is_new) {
      map.drop = true;
      diagnostics_.error(
          map.key_where,
          fmt::format("the key '{}' is a duplicate: it stands in line {} already", map.key, before->second));
    }
  }

  void store(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.value.is_sequence()) {
      parent.value.items.push_back(std::move(value));
      return;
    }
    if (!parent.drop) {
      parent.value.members.push_back({std::move(parent.key), std::move(parent.key_where), std::move(value)});
    }
    parent.has_key = false;
  }

  std::shared_ptr<const std::string> file_;
  Diagnostics& diagnostics_;
  DocumentLimits limits_;
  std::vector<Open> open_;
  Value root_;
  std::size_t nodes_ = 0;
  bool started_ = false;
};

// Offset of the first byte that is no UTF-8 or a control character that YAML does not know, else npos.
std::size_t find_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') return i;
    if (byte == 0x7f) return i;
    const std::size_t length = utf8_sequence(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

SourceLocation place_of(std::string_view text, std::size_t offset, const std::string& file) {
  int line = 1, column = 1;
  for (std::size_t i = 0; i < offset; ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return {file, line, column};
}

// Where more brackets are open, those in quotes counted too, than any document needs: the parser looks ahead
// over all of them before it tells of the first.
std::size_t find_too_many_open(std::string_view text) {
  constexpr int far_too_many = 1000;
  int open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++open;
    if ((text[i] == ']' || text[i] == '}') && open > 0) --open;
    if (open > far_too_many) return i;
  }
  return std::string_view::npos;
}

}  // namespace

const char* name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::null:
      return "nothing";
    case ValueKind::scalar:
      return "a single value";
    case ValueKind::sequence:
      return "a list";
    case ValueKind::map:
      return "a map of keys";
  }
  return "";
}

const Member* Value::find_member(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

const Value* Value::find(std::string_view key) const {
  const Member* member = find_member(key);
  return member == nullptr ? nullptr : &member->value;
}

std::optional<Value> parse_document(std::string_view text, const std::string& file, Diagnostics& diagnostics,
                                    const DocumentLimits& limits) {
  if (text.size() > limits.bytes) {
    diagnostics.error({file}, fmt::format("has {} bytes: at most {} are read", text.size(), limits.bytes));
    return std::nullopt;
  }
  if (const std::size_t bad = find_bad_byte(text); bad != std::string_view::npos) {
    diagnostics.error(place_of(text, bad, file), fmt::format("the byte 0x{:02x} is no text in UTF-8",
                                                             static_cast<unsigned char>(text[bad])));
    return std::nullopt;
  }
  if (const std::size_t open = find_too_many_open(text); open != std::string_view::npos) {
    diagnostics.error(place_of(text, open, file), fmt::format("nested deeper than {} levels", limits.depth));
    return std::nullopt;
  }
  TreeBuilder builder(std::make_shared<const std::string>(file), diagnostics, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      diagnostics.error({file}, "is empty");
      return std::nullopt;
    }
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused&) {
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    SourceLocation where{file};
    if (!error.mark.is_null()) where = {file, error.mark.line + 1, error.mark.column + 1};
    diagnostics.error(std::move(where), "not valid YAML: " + error.msg);
    return std::nullopt;
  }
  return builder.take_root();
}

std::string read_file_limited(const std::filesystem::path& path, std::size_t limit) {
  const std::string name = path.string();
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) throw Error({{{name}, "there is no such file"}});
  if (std::filesystem::is_directory(status)) throw Error({{{name}, "is a folder, not a file"}});
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(name.c_str(), "rb"), &std::fclose);
  if (!stream) throw Error({{{name}, "cannot be opened for reading"}});
  std::string text;
  if (const std::uintmax_t size = std::filesystem::file_size(path, code); !code && size <= limit)
    text.reserve(size);
  char block[1 << 16];
  while (const std::size_t got = std::fread(block, 1, sizeof block, stream.get())) {
    if (text.size() + got > limit) throw Error({{{name}, fmt::format("is larger than {} bytes", limit)}});
    text.append(block, got);
  }
  if (std::ferror(stream.get())) throw Error({{{name}, "cannot be read"}});
  return text;
}

std::filesystem::path path_beside(const std::string& file, const std::filesystem::path& path) {
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return std::filesystem::is_directory(folder, code) ? folder / path : path;
}

std::optional<Value> read_document(const std::filesystem::path& path, Diagnostics& diagnostics,
                                   const DocumentLimits& limits) {
  std::string text;
  try {
    text = read_file_limited(path, limits.bytes);
  } catch (const Error& error) {
    diagnostics.add(error);
    return std::nullopt;
  }
  return parse_document(text, path.string(), diagnostics, limits);
}

std::string first_comment(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.front() != '#') return {};
    while (!line.empty() && (line.front() == '#' || line.front() == ' ')) line.remove_prefix(1);
    if (!line.empty()) return std::string(line);
  }
  return {};
}

void set_value(Value& root, const std::string& path, const std::string& text, const std::string& name,
               Diagnostics& diagnostics) {
  const auto file = std::make_shared<const std::string>(name);
  Diagnostics inner;
  std::optional<Value> parsed = parse_document(text, name, inner);
  if (!inner.ok() || !parsed) {
    for (const Diagnostic& finding : inner.errors()) diagnostics.error({name}, finding.what);
    return;
  }
  // Every part of the value stands on the command line, at no line of a file.
  std::vector<Value*> rest{&*parsed};
  while (!rest.empty()) {
    Value& value = *rest.back();
    rest.pop_back();
    value.line = value.column = 0;
    for (Value& item : value.items) rest.push_back(&item);
    for (Member& member : value.members) {
      member.where = {name};
      rest.push_back(&member.value);
    }
  }
  Value* at = &root;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, dot - begin);
    if (key.empty()) {
      diagnostics.error({name}, "the path has an empty part: write it as in cluster.network.bandwidth");
      return;
    }
    if (at->is_sequence()) {
      std::size_t index = 0;
      const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (code != std::errc() || end != key.data() + key.size() || index >= at->items.size()) {
        diagnostics.error({name}, fmt::format("'{}' is no item of a list of {}: items count from 0", key,
                                              at->items.size()));
        return;
      }
      at = &at->items[index];
    } else {
      if (!at->is_map()) {
        // A scalar or nothing gives way to a map: `--set strategy.kind=ddp` where strategy was a word.
        const bool replaced = at->is_scalar();
        if (replaced) at->text.clear();
        at->kind = ValueKind::map;
        at->file = file;
        at->line = at->column = 0;
      }
      Member* member = nullptr;
      for (Member& candidate : at->members) {
        if (candidate.key == key) member = &candidate;
      }
      if (member == nullptr) {
        Value value;
        value.file = file;
        at->members.push_back({key, {name}, std::move(value)});
        member = &at->members.back();
      }
      if (dot == path.size()) {
        member->where = {name};
        if (parsed->is_null()) {
          at->members.erase(at->members.begin() + (member - at->members.data()));
          return;
        }
      }
      at = &member->value;
    }
    if (dot == path.size()) break;
    begin = dot + 1;
  }
  *at = std::move(*parsed);
}

}  // namespace foretrain
