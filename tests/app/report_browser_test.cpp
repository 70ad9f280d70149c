// The report in a browser, where one is installed: nothing on its console, nothing cut at three widths, light
// on paper.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::read_file;
using foretrain::test::run_command;
using foretrain::test::run_foretrain;
using foretrain::test::TemporaryFolder;

namespace {

std::string browser() {
  for (const char* name : {"chromium", "google-chrome", "chromium-browser"}) {
    for (const char* folder : {"/usr/bin/", "/usr/local/bin/"}) {
      if (std::filesystem::exists(std::string(folder) + name)) return std::string(folder) + name;
    }
  }
  return "";
}

Finished browse(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{"timeout",
                                   "120",
                                   browser(),
                                   "--headless=new",
                                   "--no-sandbox",
                                   "--disable-gpu",
                                   "--user-data-dir=" + folder.path("browser"),
                                   "--allow-file-access-from-files",
                                   "--enable-logging=stderr"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_command(command);
}

std::string page_of_a_long_name(const TemporaryFolder& folder) {
  const std::string text = read_file(FORETRAIN_SOURCE_DIR "/scenarios/second-node.yaml");
  const std::string scenario = folder.write(
      "a-very-long-scenario-name-of-somebody-who-writes-everything-into-the-name-of-the-file.yaml", text);
  const std::string page = folder.path("page.html");
  REQUIRE(run_foretrain({"simulate", scenario, "--report", page, "-q"}).status == 0);
  return page;
}

}  // namespace

TEST_CASE("a browser lays the report out at three widths: nothing is cut, overlaps or lacks a name") {
  if (browser().empty()) {
    MESSAGE("no Chromium is installed: the report is not laid out");
    return;
  }
  const TemporaryFolder folder;
  const std::string page = page_of_a_long_name(folder);
  const Finished done =
      browse(folder, {"--virtual-time-budget=10000", "--dump-dom",
                      "file://" FORETRAIN_SOURCE_DIR "/tests/app/report_layout.html?page=file://" + page});
  const std::size_t begin = done.out.find("<pre"), end = done.out.find("</pre>");
  REQUIRE(end != std::string::npos);
  CAPTURE(done.out.substr(begin, end - begin));
  CHECK(done.out.find("laid out: 0 found") != std::string::npos);
  // Messages of any kind, not errors alone.
  CHECK(done.err.find("CONSOLE") == std::string::npos);
}

TEST_CASE("the report prints") {
  if (browser().empty()) return;
  const TemporaryFolder folder;
  const std::string page = page_of_a_long_name(folder);
  const std::string paper = folder.path("page.pdf");
  const Finished done =
      browse(folder, {"--print-to-pdf=" + paper, "--no-pdf-header-footer", "file://" + page});
  CHECK(done.status == 0);
  CHECK(done.err.find("CONSOLE") == std::string::npos);
  CHECK(read_file(paper).starts_with("%PDF"));
}

TEST_CASE("a long sweep is laid out without what is cut, and prints its first rows on a few sheets") {
  if (browser().empty()) return;
  const TemporaryFolder folder;
  const std::string page = folder.path("page.html"), paper = folder.path("page.pdf");
  REQUIRE(run_foretrain({"sweep", FORETRAIN_SOURCE_DIR "/scenarios/resnet50-08-gpus.yaml", "--vary",
                         "batch.per_worker=16..65+1", "--vary", "strategy.bucket=5 MiB,10 MiB,25 MiB,50 MiB",
                         "--report", page, "-q"})
              .status == 0);
  const Finished laid_out =
      browse(folder, {"--virtual-time-budget=10000", "--dump-dom",
                      "file://" FORETRAIN_SOURCE_DIR "/tests/app/report_layout.html?page=file://" + page});
  CHECK(laid_out.out.find("laid out: 0 found") != std::string::npos);
  CHECK(browse(folder, {"--print-to-pdf=" + paper, "--no-pdf-header-footer", "file://" + page}).status == 0);
  const std::string text = read_file(paper);
  int sheets = 0;
  for (std::size_t at = text.find("/Type /Page\n"); at != std::string::npos;
       at = text.find("/Type /Page\n", at + 1))
    ++sheets;
  CHECK(sheets > 2);
  CHECK(sheets < 20);
}
