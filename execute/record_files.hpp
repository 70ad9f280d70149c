// Finds and reads run records.
#pragma once

#include <string>
#include <vector>

#include "execute/validation.hpp"

namespace foretrain {

// Files, and all run records below folders in the order of their names; other files of ours in a folder
// (profiles, validations, results) are passed over. Throws Error(input) with all findings: a file that is no
// run record or damaged, a folder that holds none. A record that was read before, by whatever name, is
// no repeat of its run: it is left out, and `left_out` says so.
std::vector<FiledRecord> read_record_files(const std::vector<std::string>& paths,
                                           std::vector<std::string>* left_out = nullptr);

}  // namespace foretrain
