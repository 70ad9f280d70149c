#include "tests/fuzz/import.hpp"

FORETRAIN_FUZZ(kineto) {
  foretrain::fuzz::import_both_ways("kineto", text, "job.json");
}
