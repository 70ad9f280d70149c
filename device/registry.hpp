// Finds and opens backends: modules libforetrain_<name>.so beside the program, in the library folder it was
// installed with, or in a folder named by FORETRAIN_MODULES. A module stays open until the program ends.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "device/backend.hpp"

namespace foretrain::device {

// Folders in which modules are looked for, in order.
std::vector<std::filesystem::path> module_folders();

// Opens libforetrain_<name>.so. Error (unavailable) where there is no such module, where a library that it
// needs is missing, or where it was built for another interface.
Backend& open_backend(const std::string& name);

// What `--device` means: the named backend, or with an empty name cuda where a GPU answers, else cpu. Error
// (unavailable) where none has a device.
Backend& choose_backend(const std::string& device);

}  // namespace foretrain::device
