#include "sim/input/document.hpp"
#include "sim/input/topology_reader.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(topology) {
  using namespace foretrain;
  Diagnostics diagnostics;
  const auto root = parse_document(text, "topology.yaml", diagnostics);
  if (!root) return;
  Value no_keys;
  no_keys.kind = ValueKind::map;
  no_keys.file = root->file;
  read_topology_file(*root, "fuzz", no_keys, diagnostics);
}
