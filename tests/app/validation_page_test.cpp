// docs/validation-table.md holds what `validate` says of every campaign under validation/; tools/renew-golden
// writes it anew.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/app/subprocess.hpp"

using namespace foretrain;
using nlohmann::json;

namespace {

const std::filesystem::path source = FORETRAIN_SOURCE_DIR;

const char* const heading =
    "# All campaigns, row by row summed up\n"
    "\n"
    "Made by `tools/renew-golden` from what `foretrain validate FOLDER` says of each; a test holds it "
    "against the records. How they were\n"
    "measured, and why they miss: [validation.md](validation.md). `before` is the prediction stored before a "
    "row was measured, `now` what this\n"
    "version says of the same row from the same profile; rows that repeat themselves worse than to 2 % "
    "(`noisy`) count in neither. The\n"
    "campaigns under `earlier` found faults that were mended since.\n"
    "\n"
    "| campaign | rows | noisy | before: mean error | worst | signed mean | in the 90 % interval | now: mean "
    "error | worst | in the interval |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n";

// A figure of a summary, "-" where it has no rows.
std::string percent(const json& summary, const char* key, const char* format = "{:.2f} %") {
  if (summary.value("rows", 0) == 0 || !summary[key].is_number()) return "-";
  const double value = 100 * summary[key].get<double>();
  return fmt::format(fmt::runtime(format), value);
}

std::string line_of(const std::string& campaign) {
  const test::Finished done =
      test::run_foretrain({"validate", (source / "validation" / campaign).string(), "--json", "-", "-q"});
  REQUIRE_MESSAGE(done.status == 0, campaign << ": " << done.err);
  const json result = json::parse(done.out);
  const json& before = result["summary"];
  const json& now = result["now"]["summary"];
  const std::size_t rows = result["rows"].size(), counted = before.value("rows", std::size_t{0});
  const auto figures = [](const json& of) {
    return percent(of, "mean_abs_error") + " | " + percent(of, "max_abs_error") + " | ";
  };
  return fmt::format("| {} | {} | {} | {}{} | {} | {}{} |\n", campaign, rows, rows - counted, figures(before),
                     percent(before, "mean_error", "{:+.2f} %"), percent(before, "coverage", "{:.0f} %"),
                     figures(now), percent(now, "coverage", "{:.0f} %"));
}

std::vector<std::string> campaigns() {
  std::vector<std::string> found;
  for (const char* group : {"live-gpu", "live-cpu", "earlier"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source / "validation" / group)) {
      if (entry.is_directory()) found.push_back(std::string(group) + "/" + entry.path().filename().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

TEST_CASE("golden: the table of all campaigns is what validate says of their records") {
  std::string page = heading;
  for (const std::string& campaign : campaigns()) page += line_of(campaign);
  const std::filesystem::path file = source / "docs" / "validation-table.md";
  if (std::getenv("FORETRAIN_RENEW_GOLDEN") != nullptr) {
    std::ofstream(file) << page;
    return;
  }
  CHECK_MESSAGE(test::read_file(file.string()) == page,
                "docs/validation-table.md is not what validate says now. If that is meant: "
                "tools/renew-golden, and a line in "
                "CHANGELOG.md");
}
