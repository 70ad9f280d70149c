#include "execute/run_record_json.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(run_record) {
  foretrain::Diagnostics diagnostics;
  foretrain::parse_run_record(text, "run.json", diagnostics);
}
