#include "tests/fuzz/import.hpp"

FORETRAIN_FUZZ(topo_m) {
  foretrain::fuzz::import_both_ways("topo-m", text, "machine.yaml");
}
