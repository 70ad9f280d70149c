#include "sim/output/file_writer.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "tests/app/subprocess.hpp"

using foretrain::Error;
using foretrain::ErrorKind;
using foretrain::FileWriter;
using foretrain::write_file;
using foretrain::test::read_file;
using foretrain::test::TemporaryFolder;
using Names = std::vector<std::string>;

TEST_CASE("a file appears whole or not at all") {
  const TemporaryFolder folder;
  const std::string target = folder.write("result.json", "old");
  {
    FileWriter writer(target);
    writer.write(std::string(200'000, 'x'));
    CHECK(read_file(target) == "old");
  }
  CHECK(read_file(target) == "old");
  CHECK(folder.files() == Names{"result.json"});
  {
    FileWriter writer(target);
    writer.write("ne");
    writer.write("w");
    writer.commit();
  }
  CHECK(read_file(target) == "new");
  CHECK(folder.files() == Names{"result.json"});
}

TEST_CASE("permissions of a file that is replaced are kept, of a new one as usual") {
  const TemporaryFolder folder;
  const std::string old = folder.write("old", "");
  REQUIRE(::chmod(old.c_str(), 0640) == 0);
  write_file(old, "x");
  struct stat found {};
  REQUIRE(::stat(old.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0640);

  const mode_t mask = ::umask(0027);
  write_file(folder.path("new"), "x");
  ::umask(mask);
  REQUIRE(::stat(folder.path("new").c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0640);
}

TEST_CASE("symbolic links are followed and stay") {
  const TemporaryFolder folder;
  folder.write("deep/target", "old");
  std::filesystem::create_symlink("deep/target", folder.path("link"));
  std::filesystem::create_symlink("deep/missing", folder.path("dangling"));
  write_file(folder.path("link"), "new");
  write_file(folder.path("dangling"), "made");
  CHECK(std::filesystem::is_symlink(folder.path("link")));
  CHECK(std::filesystem::is_symlink(folder.path("dangling")));
  CHECK(read_file(folder.path("deep/target")) == "new");
  CHECK(read_file(folder.path("deep/missing")) == "made");
}

TEST_CASE("devices and pipes are written in place") {
  write_file("/dev/null", "x");
  CHECK(std::filesystem::is_character_file("/dev/null"));

  const TemporaryFolder folder;
  const std::string fifo = folder.path("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_file(fifo, "through");
  char bytes[16];
  CHECK(::read(reader, bytes, sizeof bytes) == 7);
  ::close(reader);
  CHECK(folder.files() == Names{"fifo"});
}

TEST_CASE("what cannot be written says why, with the kind that becomes the exit status") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "");
  auto kind = [](const std::string& path) {
    try {
      write_file(path, "x");
    } catch (const Error& refused) {
      CHECK(std::string(refused.what()).starts_with(path.empty() ? "the name" : path));
      return refused.kind();
    }
    return ErrorKind::bound;
  };
  CHECK(kind("") == ErrorKind::input);
  CHECK(kind(folder.path("missing/x")) == ErrorKind::input);
  CHECK(kind(file + "/x") == ErrorKind::input);
  CHECK(kind(folder.path("")) == ErrorKind::input);
  CHECK(kind("/dev/full") == ErrorKind::failure);
  std::filesystem::create_symlink("b", folder.path("a"));
  std::filesystem::create_symlink("a", folder.path("b"));
  CHECK(kind(folder.path("a")) == ErrorKind::input);
}

TEST_CASE("a name in .gz is compressed, twice to the same bytes") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919) + '\n';
  write_file(folder.path("a.gz"), text);
  write_file(folder.path("b.gz"), text);
  CHECK(read_file(folder.path("a.gz")) == read_file(folder.path("b.gz")));
  CHECK(read_file(folder.path("a.gz")).size() < text.size());
  gzFile compressed = gzopen(folder.path("a.gz").c_str(), "rb");
  std::string back(text.size() + 1, '\0');
  CHECK(gzread(compressed, back.data(), static_cast<unsigned>(back.size())) == static_cast<int>(text.size()));
  gzclose(compressed);
  back.resize(text.size());
  CHECK(back == text);
}
