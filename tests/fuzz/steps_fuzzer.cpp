#include "tests/fuzz/import.hpp"

FORETRAIN_FUZZ(steps) {
  foretrain::fuzz::import_both_ways("steps", text, "steps.yaml");
  foretrain::fuzz::import_both_ways("steps", text, "steps.json");
}
