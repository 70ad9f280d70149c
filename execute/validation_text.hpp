// A validation as JSON (foretrain/validation/1), CSV and table.
#pragma once

#include <string>

#include "execute/validation.hpp"
#include "sim/output/json_writer.hpp"
#include "sim/output/text_layout.hpp"

namespace foretrain {

void write_validation_json(const Validation& validation, const TextSink& sink);

// A line a row, under the names that the rows have in JSON.
void write_validation_csv(const Validation& validation, const TextSink& sink);

struct ValidationTableOptions {
  TextStyle style;
  bool notes = false;   // of each row
  std::string profile;  // that the predictions of today rest on, where it is not each record's own
};
std::string validation_table(const Validation& validation, const ValidationTableOptions& options);

}  // namespace foretrain
