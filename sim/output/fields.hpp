// A result as a tree of named fields: the one list of them, from which JSON and CSV are both written.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/output/result.hpp"

namespace foretrain {

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void begin_group(std::string_view name) = 0;  // members follow
  virtual void end_group() = 0;
  virtual void begin_list(std::string_view name) = 0;  // elements follow, with an empty name
  virtual void end_list() = 0;
  virtual void number(std::string_view name, double value) = 0;
  virtual void integer(std::string_view name, std::int64_t value) = 0;
  virtual void text(std::string_view name, std::string_view value) = 0;
  virtual void flag(std::string_view name, bool value) = 0;
  virtual void none(std::string_view name) = 0;  // not known, or not asked for
};

// The members of the result object in the order of the documentation.
void visit_fields(const Result& result, FieldVisitor& visitor);

}  // namespace foretrain
