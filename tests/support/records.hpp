// Run records as tests read them.
#pragma once

#include <string>

#include "execute/run_record_json.hpp"
#include "sim/input/diagnostics.hpp"

namespace foretrain::test {

inline RunRecord read_record(const std::string& path) {
  Diagnostics diagnostics;
  const auto record = read_run_record(path, diagnostics);
  diagnostics.throw_errors();
  return *record;
}

}  // namespace foretrain::test
