// Logs of nccl-tests of any generation -> the collectives of a profile.
#pragma once

#include "sim/import/importer.hpp"

namespace foretrain {

// Tables with and without the columns redop and root, #wrong or error, behind prefixes of mpirun and srun,
// with NCCL's own lines between; or the JSON that -J writes. What is measured twice becomes its median. A log
// without a collective between two ranks or more, with an average bus bandwidth of zero, of one rank many
// times, or of several nodes without options.network is refused with the reason.
Imported import_nccl_tests(std::string_view log, const ImportOptions& options);

}  // namespace foretrain
