#include "app/data_directories.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>

namespace foretrain::app {
namespace {

namespace fs = std::filesystem;

bool holds_data(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "models", ignored) || fs::is_directory(folder / "topologies", ignored) ||
         fs::is_directory(folder / "scenarios", ignored) || fs::is_directory(folder / "profiles", ignored);
}

void add(std::vector<fs::path>& found, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (!error && std::find(found.begin(), found.end(), real) == found.end()) found.push_back(real);
}

}  // namespace

std::vector<fs::path> data_directories() {
  std::vector<fs::path> found;
  if (const char* variable = std::getenv("FORETRAIN_DATA")) {
    std::string rest = variable;
    while (!rest.empty()) {
      const std::size_t colon = rest.find(':');
      if (colon != 0) add(found, rest.substr(0, colon));
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path folder = program.parent_path();
    for (const fs::path& near : {folder / "../share/foretrain", folder / ".."}) {
      if (holds_data(near)) add(found, near);
    }
  }
  for (const char* built_in : {FORETRAIN_INSTALL_DATA, FORETRAIN_SOURCE_DATA}) {
    if (holds_data(built_in)) add(found, built_in);
  }
  return found;
}

}  // namespace foretrain::app
