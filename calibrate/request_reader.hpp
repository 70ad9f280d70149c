// Lists on the command line of calibrate.
#pragma once

#include <string>

#include "calibrate/calibrate.hpp"

namespace foretrain::calibrate {

// "32,64,128" and "bf16,tf32" into the request, each sorted out once. Throws Error (input) with all findings:
// what is no batch or precision, what is given twice, and a batch missing beside a model or given without
// one.
void read_request(const std::string& batches, const std::string& precisions, bool collectives_alone,
                  Request& request);

}  // namespace foretrain::calibrate
