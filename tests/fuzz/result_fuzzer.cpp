// Results, as report and compare read them and as check does.
#include "sim/input/result_check.hpp"
#include "sim/output/result_reader.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(result) {
  foretrain::Diagnostics diagnostics;
  foretrain::check_result(text, "result.json", diagnostics);
  foretrain::read_results(text, "result.json");
}
