#include "tests/app/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace foretrain::test {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
};

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

}  // namespace

Finished run_command(const std::vector<std::string>& command, const RunOptions& options) {
  Pipe in, out, err;
  if (options.close_output_early) close_end(out.read_end);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  // No signal may find the child before it is the command, with this program's handlers.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) throw std::runtime_error("no fork");
  if (child == 0) {
    ::dup2(in.read_end, STDIN_FILENO);
    ::dup2(out.write_end, STDOUT_FILENO);
    ::dup2(err.write_end, STDERR_FILENO);
    for (const std::string& variable : options.environment) {
      const std::size_t equals = variable.find('=');
      ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    // Those that doctest catches, and those that end a pipe.
    for (const int handled : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGILL, SIGFPE, SIGSEGV, SIGABRT})
      std::signal(handled, SIG_DFL);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  close_end(in.read_end);
  close_end(out.write_end);
  close_end(err.write_end);
  std::thread feeder([&] {
    std::size_t at = 0;
    while (at < options.input.size()) {
      const ssize_t n = ::write(in.write_end, options.input.data() + at, options.input.size() - at);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    close_end(in.write_end);
  });
  std::thread interrupter;
  if (options.signal_after_ms >= 0) {
    interrupter = std::thread([&] {
      constexpr int patience_ms = 30000;
      for (int ms = 0; ms < patience_ms && !options.signal_once_there.empty() &&
                       !std::filesystem::exists(options.signal_once_there);
           ms += 5)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::this_thread::sleep_for(std::chrono::milliseconds(options.signal_after_ms));
      ::kill(child, options.signal);
    });
  }
  Finished finished;
  while (out.read_end >= 0 || err.read_end >= 0) {
    pollfd waiting[2] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0) break;
    char bytes[4096];
    for (int i = 0; i < 2; ++i) {
      int& descriptor = i == 0 ? out.read_end : err.read_end;
      if (descriptor < 0 || waiting[i].revents == 0) continue;
      const ssize_t n = ::read(descriptor, bytes, sizeof bytes);
      if (n > 0) {
        (i == 0 ? finished.out : finished.err).append(bytes, static_cast<std::size_t>(n));
      } else {
        close_end(descriptor);
      }
    }
  }
  int state = 0;
  if (interrupter.joinable()) interrupter.join();
  while (::waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  feeder.join();
  finished.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  finished.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  return finished;
}

Finished run_foretrain(const std::vector<std::string>& arguments, const RunOptions& options) {
  std::vector<std::string> command{FORETRAIN_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_command(command, options);
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "foretrain-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& content) const {
  std::filesystem::create_directories((folder_ / name).parent_path());
  std::ofstream(folder_ / name, std::ios::binary) << content;
  return path(name);
}

std::vector<std::string> TemporaryFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace foretrain::test
