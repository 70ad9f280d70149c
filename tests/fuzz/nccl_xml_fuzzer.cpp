#include "tests/fuzz/import.hpp"

FORETRAIN_FUZZ(nccl_xml) {
  foretrain::fuzz::import_both_ways("nccl-xml", text, "machine.yaml");
}
