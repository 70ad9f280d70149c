#include "sim/input/job_reader.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(curve) {
  foretrain::Diagnostics diagnostics;
  foretrain::parse_curve(text, "curve.csv", diagnostics);
}
