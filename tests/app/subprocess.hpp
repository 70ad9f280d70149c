// Runs a program as a user does and keeps what it says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace foretrain::test {

struct Finished {
  int status = -1;  // exit status, or 128 + the signal that ended it
  std::string out, err;
  double seconds = 0;  // wall clock
};

struct RunOptions {
  std::string input;                     // its standard input
  std::vector<std::string> environment;  // "NAME=VALUE", beside the test's own
  bool close_output_early = false;       // its standard output is a pipe whose reader has gone
  int signal_after_ms = -1;              // then send `signal`
  std::string signal_once_there;         // a file; counted from when it is there, or from 30 s at the latest
  int signal = 2;                        // SIGINT
};

// The program built beside the tests.
Finished run_foretrain(const std::vector<std::string>& arguments, const RunOptions& options = {});
Finished run_command(const std::vector<std::string>& command, const RunOptions& options = {});

// An empty folder that is removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const;  // returns path(name)
  std::vector<std::string> files() const;                                        // sorted names

 private:
  std::filesystem::path folder_;
};

std::string read_file(const std::string& path);

}  // namespace foretrain::test
