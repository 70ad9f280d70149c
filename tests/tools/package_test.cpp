// What `cmake --install` leaves is a whole program and a library that another project finds.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/app/subprocess.hpp"

using namespace foretrain;
namespace fs = std::filesystem;

TEST_CASE("an installed program finds its data, and find_package finds the simulator") {
  if (test::run_command({"sh", "-c", "command -v cmake"}).status != 0) return;
  const test::TemporaryFolder folder;
  const std::string prefix = folder.path("prefix");
  const std::string build = fs::path(FORETRAIN_PROGRAM).parent_path().string();
  for (const char* component : {"program", "data", "dev"}) {
    const test::Finished installed =
        test::run_command({"cmake", "--install", build, "--prefix", prefix, "--component", component});
    REQUIRE_MESSAGE(installed.status == 0, installed.err);
  }
  for (const char* file :
       {"bin/foretrain", "share/foretrain/scenarios/second-node.yaml", "share/man/man1/foretrain.1",
        "share/bash-completion/completions/foretrain", "share/zsh/vendor-completions/_foretrain"})
    CHECK_MESSAGE(fs::exists(fs::path(prefix) / file), file);

  const std::string scenario = prefix + "/share/foretrain/scenarios/second-node.yaml";
  const test::Finished version = test::run_command({prefix + "/bin/foretrain", "--version"});
  CHECK(version.out.find("build: ") != std::string::npos);
  CHECK(version.out.find("data: " + fs::canonical(prefix).string() + "/share/foretrain\n") !=
        std::string::npos);
  const test::Finished predicted =
      test::run_command({prefix + "/bin/foretrain", "simulate", scenario, "--csv", "-"});
  REQUIRE_MESSAGE(predicted.status == 0, predicted.err);

  const std::string own = folder.path("consumer");
  const std::string source = std::string(FORETRAIN_SOURCE_DIR) + "/tests/package";
  const test::Finished configured =
      test::run_command({"cmake", "-S", source, "-B", own, "-DCMAKE_PREFIX_PATH=" + prefix});
  REQUIRE_MESSAGE(configured.status == 0, configured.err);
  const test::Finished made = test::run_command({"cmake", "--build", own});
  REQUIRE_MESSAGE(made.status == 0, made.out);
  const test::Finished step = test::run_command({own + "/consumer", prefix + "/share/foretrain", scenario});
  REQUIRE_MESSAGE(step.status == 0, step.err);
  const std::string seconds = step.out.substr(0, step.out.find('\n'));
  CHECK(std::stod(seconds) > 0);
  // The same prediction to the digit.
  const test::Finished json =
      test::run_command({prefix + "/bin/foretrain", "simulate", scenario, "--json", "-"});
  const std::size_t at = json.out.find("\"time_s\": ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(json.out.substr(at + 10)) == std::stod(seconds));
}
