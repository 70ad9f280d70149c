// `nvidia-smi topo -m` as terminals show it -> a topology.
#pragma once

#include "sim/import/importer.hpp"

namespace foretrain {

// Colour codes, tabs or blanks, columns and rows of NICs by any name, affinity columns, legends, lines that a
// terminal has wrapped, also within a word. NVLinks become direct links, or a switch where a GPU would need
// more of them than it has; PIX, PXB, PHB, NODE and SYS become PCIe switches, host bridges and sockets. The
// matrix tells no speeds: NVLinks at 25 GB/s each, PCIe by the generation that goes with them; a note says
// so. With options.network the NICs join any number of such nodes. Throws Error(input) with the row that is
// broken.
Imported import_topology_matrix(std::string_view text, const ImportOptions& options);

}  // namespace foretrain
