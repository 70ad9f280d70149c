#include "execute/checkpoint.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "sim/base/random.hpp"
#include "tests/app/subprocess.hpp"

using namespace foretrain;

namespace {

std::vector<std::byte> made_bytes(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random.next());
  return bytes;
}

}  // namespace

TEST_CASE("a checkpoint reads back; another run's or a damaged one does not") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("c");
  CHECK_FALSE(read_checkpoint(path, "a: run\n"));
  const TrainingState state{42, {{7, 1.5}, {9, 1.25}}, made_bytes(1000, 1), made_bytes(77, 2)};
  const std::int64_t bytes = write_checkpoint(path, "a: run\n", state);
  CHECK(bytes == static_cast<std::int64_t>(std::filesystem::file_size(path)));
  CHECK(folder.files() == std::vector<std::string>{"c"});
  CHECK(read_checkpoint(path, "a: run\n") == state);
  CHECK_THROWS_WITH_AS(read_checkpoint(path, "a: another\n"),
                       doctest::Contains("is a checkpoint of another run: a is 'run' there, 'another' here"),
                       Error);

  const std::string whole = test::read_file(path);
  for (std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{40}, whole.size() - 1}) {
    folder.write("c", whole.substr(0, size));
    CHECK_THROWS_WITH_AS(read_checkpoint(path, "a: run\n"), doctest::Contains("is no whole checkpoint"),
                         Error);
  }
  for (std::size_t at :
       {std::size_t{3}, std::size_t{23}, std::size_t{45}, whole.size() - 5}) {  // 23: updates
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    folder.write("c", changed);
    CHECK_THROWS_AS(read_checkpoint(path, "a: run\n"), Error);
  }
}

TEST_CASE("a checkpoint that cannot be written leaves the one before as it was") {
  const TrainingState state{1, {}, made_bytes(100, 1), {}};
  CHECK_THROWS_WITH_AS(write_checkpoint("/dev/full", "a: run\n", state), doctest::Contains("No space left"),
                       Error);
  const test::TemporaryFolder folder;
  CHECK_THROWS_AS(write_checkpoint(folder.path("missing/c"), "a: run\n", state), Error);
}
