#include "app/rank_processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "sim/base/error.hpp"

extern char** environ;

namespace foretrain::app {
namespace {

// A process that lost its rank 0 ends within seconds.
constexpr double patience = 10;

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

// What all ranks would say is said once.
void be_quiet(std::vector<std::string>& arguments) {
  const auto is_loud = [](const std::string& argument) {
    return argument == "-v" || argument == "--verbose";
  };
  std::erase_if(arguments, is_loud);
  const auto is_quiet = [](const std::string& argument) { return argument == "-q" || argument == "--quiet"; };
  if (std::none_of(arguments.begin(), arguments.end(), is_quiet)) arguments.emplace_back("--quiet");
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

pid_t start(std::vector<std::string>& arguments) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int problem =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, pointers_to(arguments).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0)
    throw Error(ErrorKind::failure,
                fmt::format("cannot start a process for each worker: {}", std::strerror(problem)));
  return process;
}

}  // namespace

// Delegates, so that the destructor waits for those that were started where this throws.
RankProcesses::RankProcesses(int ranks) : RankProcesses() {
  meeting_ =
      (std::filesystem::temp_directory_path() / fmt::format("foretrain-ranks-{}", ::getpid())).string();
  std::error_code none;
  std::filesystem::remove(meeting_, none);
  ::setenv("FORETRAIN_RENDEZVOUS", meeting_.c_str(), 1);
  const std::string world = std::to_string(ranks);
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) ::setenv(name, world.c_str(), 1);
  std::vector<std::string> arguments = own_arguments();
  be_quiet(arguments);
  try {
    for (int rank = ranks - 1; rank >= 0; --rank) {
      for (const char* name : {"RANK", "LOCAL_RANK"}) ::setenv(name, std::to_string(rank).c_str(), 1);
      if (rank > 0) running_.push_back(start(arguments));
    }
  } catch (...) {
    end_all();  // rank 0, for which they wait, will not come
    throw;
  }
}

void RankProcesses::end_all() {
  for (const pid_t process : running_) ::kill(process, SIGKILL);
}

int RankProcesses::wait_for(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (!running_.empty()) {
    std::erase_if(running_, [&](pid_t process) {
      int status = 0;
      if (::waitpid(process, &status, WNOHANG) != process) return false;
      highest_ = std::max(highest_, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
      return true;
    });
    if (running_.empty()) break;
    if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return highest_;
}

int RankProcesses::wait() {
  const int status = wait_for(patience);
  if (status >= 0) return status;
  end_all();
  wait_for(patience);
  return std::max(1, highest_);
}

RankProcesses::~RankProcesses() {
  wait();
  std::error_code none;
  if (!meeting_.empty()) std::filesystem::remove(meeting_, none);
}

}  // namespace foretrain::app
