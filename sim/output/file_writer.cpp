#include "sim/output/file_writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "sim/output/gzip_stream.hpp"

namespace foretrain {
namespace {

constexpr std::size_t buffer_size = 1 << 16;

// Names of the files put aside, in memory that a signal handler may read.
struct Aside {
  std::atomic<int> state{0};  // 0 free, 1 being filled, 2 in use
  std::array<char, PATH_MAX> path{};
};
std::array<Aside, 16> asides;

int remember(const std::string& path) {
  for (std::size_t i = 0; i < asides.size(); ++i) {
    int free = 0;
    if (path.size() + 1 > asides[i].path.size() || !asides[i].state.compare_exchange_strong(free, 1))
      continue;
    std::memcpy(asides[i].path.data(), path.c_str(), path.size() + 1);
    asides[i].state.store(2);
    return static_cast<int>(i);
  }
  return -1;
}

void forget(int slot) {
  if (slot >= 0) asides[static_cast<std::size_t>(slot)].state.store(0);
}

[[noreturn]] void refuse(const std::string& path, const char* action, int code) {
  const bool bad_name =
      code == ENOENT || code == ENOTDIR || code == EISDIR || code == ELOOP || code == ENAMETOOLONG;
  throw Error(bad_name ? ErrorKind::input : ErrorKind::failure,
              path + ": cannot " + action + ": " + std::generic_category().message(code));
}

// The file that a chain of symbolic links ends at, whether it exists or not.
std::string follow_links(const std::string& path) {
  constexpr int most_links = 40;  // as Linux itself
  std::filesystem::path at = path;
  for (int link = 0; link < most_links; ++link) {
    std::error_code error;
    const std::filesystem::path next = std::filesystem::read_symlink(at, error);
    if (error) return at.string();
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  refuse(path, "write", ELOOP);
}

}  // namespace

FileWriter::FileWriter(const std::string& path) : shown_(path == "-" ? "standard output" : path) {
  try {
    open(path);
    if (path.ends_with(".gz")) {
      gzip_ = std::make_unique<GzipStream>([this](std::string_view bytes) { store(bytes); });
    }
  } catch (...) {
    discard();
    throw;
  }
}

void FileWriter::open(const std::string& path) {
  if (path == "-") {
    descriptor_ = STDOUT_FILENO;
    return;
  }
  if (path.empty()) throw Error(ErrorKind::input, "the name of the file to write is empty");
  owns_descriptor_ = true;
  struct stat found {};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) refuse(path, "write", errno);
  if (exists && S_ISDIR(found.st_mode)) refuse(path, "write", EISDIR);
  if (exists && !S_ISREG(found.st_mode)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) refuse(path, "write", errno);
    return;
  }
  // A file that the user has made read-only stays as it is, although a rename could replace it.
  if (exists && ::access(path.c_str(), W_OK) != 0) refuse(path, "write", errno);
  target_ = follow_links(path);
  const std::filesystem::path target(target_);
  aside_ = (target.parent_path() / ("." + target.filename().string() + ".XXXXXX")).string();
  descriptor_ = ::mkostemp(aside_.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    const int code = errno;
    aside_.clear();
    refuse(path, "write", code);
  }
  slot_ = remember(aside_);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor_, exists ? found.st_mode & 07777 : 0666 & ~mask);
}

FileWriter::~FileWriter() {
  discard();
}

void FileWriter::discard() noexcept {
  if (owns_descriptor_ && descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!aside_.empty()) ::unlink(aside_.c_str());
  aside_.clear();
  forget(slot_);
  slot_ = -1;
}

void FileWriter::write(std::string_view text) {
  if (gzip_) {
    gzip_->write(text);
  } else {
    store(text);
  }
}

void FileWriter::store(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= buffer_size) flush();
}

void FileWriter::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) throw ClosedPipe(shown_);
    if (written < 0) refuse(shown_, "write", errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void FileWriter::commit(bool durable) {
  if (gzip_) gzip_->finish();
  flush();
  if (!owns_descriptor_) return;
  if (durable && !aside_.empty() && ::fsync(descriptor_) != 0) refuse(shown_, "write", errno);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) refuse(shown_, "write", errno);
  if (aside_.empty()) return;
  if (::rename(aside_.c_str(), target_.c_str()) != 0) refuse(shown_, "write", errno);
  aside_.clear();
  forget(slot_);
  slot_ = -1;
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(text);
  writer.commit();
}

void remove_unfinished_files() noexcept {
  for (const Aside& aside : asides) {
    if (aside.state.load() == 2) ::unlink(aside.path.data());
  }
}

}  // namespace foretrain
