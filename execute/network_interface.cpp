#include "execute/network_interface.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/spelling.hpp"

namespace foretrain {
namespace {

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code unknown;
  for (std::filesystem::directory_iterator at(folder, unknown), end; !unknown && at != end;
       at.increment(unknown)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void check_network_interface(const Environment& environment, int rank,
                             const std::filesystem::path& interfaces) {
  const char* value = environment("NCCL_SOCKET_IFNAME");
  if (value == nullptr || *value == '\0') return;
  std::string text = value;
  const bool excludes = text.front() == '^';
  if (excludes) text.erase(0, 1);
  const bool exact = !text.empty() && text.front() == '=';
  if (exact) text.erase(0, 1);
  std::vector<std::string> wanted;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) wanted.push_back(word.substr(0, word.find(':')));
  const std::vector<std::string> there = names_in(interfaces);
  if (there.empty()) return;  // the system does not tell
  const bool any = std::any_of(there.begin(), there.end(), [&](const std::string& name) {
    const bool named = std::any_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
      return exact ? name == word : name.starts_with(word);
    });
    return named != excludes;
  });
  if (any) return;
  throw Error(ErrorKind::input,
              fmt::format("rank {}: NCCL_SOCKET_IFNAME={} fits no network interface of this machine; there "
                          "are {}{}",
                          rank, value, fmt::join(there, ", "),
                          wanted.size() == 1 && !excludes ? did_you_mean(wanted[0], there) : ""));
}

}  // namespace foretrain
