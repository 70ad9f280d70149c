// Any file at all, as check takes it: kinds by content, workloads and step times.
#include "sim/input/check.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(check) {
  foretrain::Diagnostics diagnostics;
  foretrain::check_text(text, "unknown", foretrain::fuzz::catalog(), diagnostics);
}
