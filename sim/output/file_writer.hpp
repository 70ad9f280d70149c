// Where results go: a file, a pipe or standard output.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sim/base/error.hpp"

namespace foretrain {

// The reader of a pipe has gone: no failure of ours, the program ends quietly.
class ClosedPipe : public Error {
 public:
  explicit ClosedPipe(const std::string& target)
      : Error(ErrorKind::failure, target + ": its reader has closed the pipe") {}
};

class GzipStream;

// Writes one target. A regular file is written aside, in the same folder, and renamed by commit(): readers
// see the old content or the whole new one, and without commit() nothing has changed. A target that exists
// and is no regular file (/dev/null, a pipe) is written in place; a symbolic link is followed; "-" is
// standard output. Content of a target whose name ends in ".gz" is compressed; equal content gives equal
// bytes.
//
// Throws Error: of kind input where the name cannot be a file (no such folder, a folder), of kind failure
// where the system refuses; ClosedPipe where nobody reads.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view text);
  // `durable`: what was written is on the disk before the file takes its name.
  void commit(bool durable = false);

 private:
  void open(const std::string& path);
  void store(std::string_view bytes);
  void flush();
  void discard() noexcept;

  std::string shown_;  // as messages name it
  std::string target_, aside_;
  int descriptor_ = -1;
  bool owns_descriptor_ = false;
  int slot_ = -1;
  std::string buffer_;
  std::unique_ptr<GzipStream> gzip_;
};

// The whole of a small file at once.
void write_file(const std::string& path, std::string_view text);

// Removes what unfinished writers have put aside. Safe in a signal handler.
void remove_unfinished_files() noexcept;

}  // namespace foretrain
