// Where the data that ships is found.
#pragma once

#include <filesystem>
#include <vector>

namespace foretrain::app {

// Folders that hold models/, topologies/, profiles/, scenarios/ and validation/, the first to be searched
// first: those of the environment variable FORETRAIN_DATA (separated by ':'), then what was installed beside
// the program, then the tree that the program was built in. Only folders that exist, each once.
std::vector<std::filesystem::path> data_directories();

}  // namespace foretrain::app
