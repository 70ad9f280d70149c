// NCCL's dumps of a machine (NCCL_TOPO_DUMP_FILE), and RCCL's -> a topology.
#pragma once

#include "sim/import/importer.hpp"

namespace foretrain {

// Sockets, PCIe switches, GPUs with NVLink or xGMI, NICs and their speeds. Read with what real files lack or
// have: no cpu above pci, no numaid, no link_speed or one that a sleeping device has (2.5 GT/s), nvlinks
// whose target is not in the file, adapters without a speed, speeds in Mbit/s, in Gbit/s (below 1,000) or in
// bit/s. What was assumed is noted. Needs pugixml. Throws Error(input) with the offset where it is no XML, or
// has no GPU.
Imported import_nccl_topology(std::string_view xml, const ImportOptions& options);

}  // namespace foretrain
