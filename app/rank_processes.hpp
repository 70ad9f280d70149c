// A process for each worker of a node, as torchrun starts them. This one is rank 0.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace foretrain::app {

class RankProcesses {
 public:
  RankProcesses() = default;  // none but this one
  // Starts ranks 1 to `ranks` - 1 with this process's arguments, and sets the variables by which all know
  // their rank and find each other. Throws Error (failure) where a process cannot be started.
  explicit RankProcesses(int ranks);
  ~RankProcesses();  // those that do not end by themselves are ended
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // Until all have ended: the highest exit status.
  int wait();

 private:
  int wait_for(double seconds);  // a status, or -1 where some still run
  void end_all();

  std::vector<pid_t> running_;
  int highest_ = 0;
  std::string meeting_;
};

}  // namespace foretrain::app
