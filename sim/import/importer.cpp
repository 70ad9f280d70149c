#include "sim/import/importer.hpp"

#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "sim/import/kineto.hpp"
#include "sim/import/nccl_tests.hpp"
#include "sim/import/nccl_topology.hpp"
#include "sim/import/onnx.hpp"
#include "sim/import/steps.hpp"
#include "sim/import/tensorboard.hpp"
#include "sim/import/topology_matrix.hpp"
#include "sim/input/check.hpp"
#include "sim/input/job_reader.hpp"

namespace foretrain {

std::span<const Importer> importers() {
  static const std::vector<Importer> table = {
      {.name = "kineto",
       .reads = "a trace of PyTorch's profiler",
       .writes = "a workload",
       .options = {"step", "batch", "precision", "network", "strict"},
#ifdef FORETRAIN_RAPIDJSON
       .streamed = &import_kineto,
#endif
       .missing = "RapidJSON (Debian: rapidjson-dev)"},
      {.name = "nccl-tests",
       .reads = "logs of nccl-tests, or what -J writes",
       .writes = "a profile of collectives",
       .options = {"collective", "network"},
       .import = &import_nccl_tests},
      {.name = "nccl-xml",
       .reads = "NCCL's topology dump",
       .writes = "a topology",
       .options = {"network"},
#ifdef FORETRAIN_PUGIXML
       .import = &import_nccl_topology,
#endif
       .missing = "pugixml (Debian: libpugixml-dev)"},
      {.name = "onnx",
       .reads = "a model of ONNX",
       .writes = "a model",
       .options = {},
       .import = &import_onnx},
      {.name = "steps",
       .reads = "a CSV of batch and seconds",
       .writes = "a step-time profile",
       .options = {"gradients"},
       .import = &import_steps},
      {.name = "tensorboard",
       .reads = "an event file of TensorBoard",
       .writes = "a step-time profile, or a curve where OUT ends in .csv",
       .options = {"batch", "gradients", "tag"},
       .import = &import_tensorboard},
      {.name = "topo-m",
       .reads = "what nvidia-smi topo -m prints",
       .writes = "a topology",
       .options = {"network"},
       .import = &import_topology_matrix},
  };
  return table;
}

void check_readable(const Imported& made, const ImportOptions& options) {
  Diagnostics diagnostics;
  if (options.target.ends_with(".csv")) {
    parse_curve(made.content, options.target, diagnostics);
  } else {
    check_text(made.content, options.target, Catalog(), diagnostics);
  }
  if (diagnostics.ok()) return;
  throw Error(ErrorKind::input, fmt::format("{}: what it says makes no file that can be read: {}",
                                            options.file, diagnostics.errors().front().what));
}

}  // namespace foretrain
