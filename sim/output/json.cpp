#include "sim/output/json.hpp"

#include "sim/output/fields.hpp"

namespace foretrain {
namespace {

class JsonFields : public FieldVisitor {
 public:
  explicit JsonFields(JsonWriter& writer) : writer_(writer) {}

  void begin_group(std::string_view name) override {
    name_member(name);
    writer_.begin_object();
  }
  void end_group() override { writer_.end_object(); }
  void begin_list(std::string_view name) override {
    name_member(name);
    writer_.begin_array();
  }
  void end_list() override { writer_.end_array(); }
  void number(std::string_view name, double value) override { put(name, value); }
  void integer(std::string_view name, std::int64_t value) override { put(name, value); }
  void text(std::string_view name, std::string_view value) override { put(name, value); }
  void flag(std::string_view name, bool value) override { put(name, value); }
  void none(std::string_view name) override {
    name_member(name);
    writer_.null();
  }

 private:
  void name_member(std::string_view name) {
    if (!name.empty()) writer_.key(name);
  }
  template <class T>
  void put(std::string_view name, const T& value) {
    name_member(name);
    writer_.value(value);
  }

  JsonWriter& writer_;
};

void write_object(const Result& result, JsonWriter& writer) {
  writer.begin_object();
  write_result_members(result, writer);
  writer.end_object();
}

}  // namespace

void write_result_members(const Result& result, JsonWriter& writer) {
  JsonFields fields(writer);
  visit_fields(result, fields);
}

void write_json(std::span<const Result> results, const TextSink& sink) {
  JsonWriter writer(sink);
  if (results.size() == 1) {
    write_object(results[0], writer);
    return;
  }
  writer.begin_array();
  for (const Result& result : results) write_object(result, writer);
  writer.end_array();
}

}  // namespace foretrain
