// The processes of a run's ranks, as far as they can be seen from here: those of this machine (and of this
// container). Tells at once that a rank was killed, where the communication library would wait for it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace foretrain {

// This process among all that this machine ever ran: its view of processes, its number, when it started.
std::string own_process(const std::filesystem::path& proc = "/proc");

class PeerProcesses {
 public:
  PeerProcesses() = default;
  // What own_process() gave on every rank, in rank order.
  PeerProcesses(const std::vector<std::string>& of_ranks, const std::filesystem::path& proc = "/proc");

  // Of those ranks, their processes as far as they are seen from here, each once.
  std::vector<int> numbers_of(const std::vector<int>& ranks) const;
  // Ranks whose process has ended. Those on other machines are never among them.
  std::vector<int> gone() const;
  // "process 4711 has ended", "process 4711 is stopped", "process 4711 runs"; empty for other machines.
  std::string state_of(int rank) const;

 private:
  struct Peer {
    int number = 0;  // 0: not seen from here
    std::string start;
  };
  char letter_of(const Peer& peer) const;  // of proc(5); 'X' where it is gone

  std::filesystem::path proc_;
  std::vector<Peer> peers_;
};

}  // namespace foretrain
