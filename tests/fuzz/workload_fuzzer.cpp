#include "sim/input/workload_json.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(workload) {
  foretrain::Diagnostics diagnostics;
  foretrain::parse_workload(text, "workload.json", diagnostics);
}
