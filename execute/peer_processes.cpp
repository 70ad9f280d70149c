#include "execute/peer_processes.hpp"

#include <fmt/format.h>

#include <fstream>
#include <set>
#include <sstream>

#include "sim/base/host_identity.hpp"

namespace foretrain {
namespace {

// proc(5), after the name in parentheses: field 3 is the state, field 22 the start.
struct Stat {
  char letter = 'X';
  std::string start;
};

Stat stat_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  Stat stat;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return stat;
  std::istringstream fields(text.substr(name_end + 1));
  fields >> stat.letter;
  for (int field = 4; field <= 22; ++field) fields >> stat.start;
  return stat;
}

// Of one boot and one namespace: process numbers mean the same.
std::string view_of(const std::filesystem::path& proc) {
  std::error_code unknown;
  const std::string space = std::filesystem::read_symlink(proc / "self" / "ns" / "pid", unknown).string();
  return host_identity() + "/" + space;
}

}  // namespace

std::string own_process(const std::filesystem::path& proc) {
  std::error_code unknown;
  const std::string number = std::filesystem::read_symlink(proc / "self", unknown).string();
  return fmt::format("{} {} {}", view_of(proc), number, stat_of(proc / "self").start);
}

PeerProcesses::PeerProcesses(const std::vector<std::string>& of_ranks, const std::filesystem::path& proc)
    : proc_(proc) {
  const std::string here = view_of(proc);
  for (const std::string& text : of_ranks) {
    std::istringstream words(text);
    std::string view;
    Peer peer;
    words >> view >> peer.number >> peer.start;
    if (!words || view != here) peer = {};
    peers_.push_back(std::move(peer));
  }
}

char PeerProcesses::letter_of(const Peer& peer) const {
  const Stat stat = stat_of(proc_ / std::to_string(peer.number));
  return stat.start == peer.start ? stat.letter : 'X';
}

std::vector<int> PeerProcesses::numbers_of(const std::vector<int>& ranks) const {
  std::set<int> numbers;
  for (const int rank : ranks) numbers.insert(peers_.at(static_cast<std::size_t>(rank)).number);
  numbers.erase(0);
  return {numbers.begin(), numbers.end()};
}

std::vector<int> PeerProcesses::gone() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].number == 0) continue;
    const char letter = letter_of(peers_[rank]);
    if (letter == 'X' || letter == 'Z') ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::string PeerProcesses::state_of(int rank) const {
  if (static_cast<std::size_t>(rank) >= peers_.size()) return "";
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.number == 0) return "";
  const char letter = letter_of(peer);
  const char* state = letter == 'X' || letter == 'Z'   ? "has ended"
                      : letter == 'T' || letter == 't' ? "is stopped"
                                                       : "runs";
  return fmt::format("process {} {}", peer.number, state);
}

}  // namespace foretrain
