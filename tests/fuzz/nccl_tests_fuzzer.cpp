#include "tests/fuzz/import.hpp"

FORETRAIN_FUZZ(nccl_tests) {
  foretrain::fuzz::import_both_ways("nccl-tests", text, "fabric.json");
}
