// What README and docs/ say can be followed: links lead somewhere, commands are the program's, and those that
// need neither a GPU nor the reader's own files run.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/app/subprocess.hpp"

using namespace foretrain;
namespace fs = std::filesystem;

namespace {

const fs::path source = FORETRAIN_SOURCE_DIR;

std::vector<fs::path> pages() {
  std::vector<fs::path> all;
  for (const fs::path& folder : {source, source / "docs"}) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".md") all.push_back(entry.path());
  }
  for (const auto& entry : fs::recursive_directory_iterator(source / "validation"))
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

// As GitHub names a heading: lower case, spaces to hyphens, the rest of the signs gone.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) anchor += c;
    if (c >= 'A' && c <= 'Z') anchor += static_cast<char>(c - 'A' + 'a');
  }
  return anchor;
}

struct Page {
  std::set<std::string> anchors;
  std::vector<std::string> links;     // without those to the web
  std::vector<std::string> commands;  // lines of code blocks that call the program
};

Page read_page(const fs::path& path) {
  Page page;
  std::istringstream lines(test::read_file(path.string()));
  static const std::regex link("\\]\\(([^)\\s]+)\\)"), calls("(^|\\| *|/)foretrain [a-z]");
  bool in_code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_code = !in_code;
    } else if (in_code) {
      if (std::regex_search(line, calls)) page.commands.push_back(line);
    } else {
      if (line.starts_with('#')) page.anchors.insert(anchor_of(line.substr(line.find_first_not_of("# "))));
      for (std::sregex_iterator at(line.begin(), line.end(), link), end; at != end; ++at) {
        const std::string target = (*at)[1];
        if (target.find("://") == std::string::npos && !target.starts_with("mailto:"))
          page.links.push_back(target);
      }
    }
  }
  return page;
}

// The words of a shell's line from the program's name on, comments and quotes taken off.
std::vector<std::string> words_of(const std::string& line) {
  const std::size_t at = line.find("foretrain ");
  const test::Finished split = test::run_command({"bash", "-c", "printf '%s\\n' " + line.substr(at)});
  std::vector<std::string> words;
  std::istringstream lines(split.out);
  for (std::string word; std::getline(lines, word);) words.push_back(word);
  return words;
}

const std::string& help_of(const std::string& verb) {
  static std::map<std::string, std::string> known;
  const auto [found, is_new] = known.try_emplace(verb);
  if (is_new) {
    const test::Finished done = test::run_foretrain({verb, "--help"});
    if (done.status == 0) found->second = done.out;
  }
  return found->second;
}

}  // namespace

TEST_CASE("every relative link of README and docs leads to a file and a heading") {
  std::map<fs::path, Page> read;
  for (const fs::path& path : pages()) read[path] = read_page(path);
  CHECK(read.size() > 20);
  for (const auto& each : read) {
    const auto& path = each.first;
    const auto& page = each.second;
    for (const std::string& link : page.links) {
      CAPTURE(path.string());
      CAPTURE(link);
      const std::size_t hash = std::min(link.find('#'), link.size());
      const fs::path target =
          hash == 0 ? path : fs::weakly_canonical(path.parent_path() / link.substr(0, hash));
      CHECK(fs::exists(target));
      if (hash == link.size() || target.extension() != ".md") continue;
      if (!read.contains(target)) read[target] = read_page(target);
      CHECK(read[target].anchors.contains(link.substr(hash + 1)));
    }
  }
}

TEST_CASE("every command of README and docs has a verb and options that the program knows") {
  int commands = 0;
  for (const fs::path& path : pages()) {
    for (const std::string& line : read_page(path).commands) {
      CAPTURE(path.string());
      CAPTURE(line);
      const std::vector<std::string> words = words_of(line);
      REQUIRE(words.size() > 1);
      const std::string& help = help_of(words[1]);
      REQUIRE(!help.empty());
      for (const std::string& word : words) {
        if (word.starts_with("--"))
          CHECK_MESSAGE(help.find(word.substr(0, word.find('='))) != std::string::npos, word);
      }
      ++commands;
    }
  }
  CHECK(commands > 12);
}

TEST_CASE("the commands of README and docs that need nothing but what ships run as they stand") {
  const test::TemporaryFolder folder;
  for (const char* part : {"scenarios", "models", "topologies", "profiles", "validation"})
    fs::create_symlink(source / part, folder.path(part));
  fs::create_symlink(fs::path(FORETRAIN_PROGRAM).parent_path(), folder.path("build"));
  const std::set<std::string> predicting{"simulate",   "sweep", "compare", "plan",      "explain",
                                         "collective", "list",  "check",   "completion"};
  int ran = 0;
  for (const fs::path& path : pages()) {
    for (const std::string& line : read_page(path).commands) {
      const std::vector<std::string> words = words_of(line);
      if (words.size() < 2 || !predicting.contains(words[1])) continue;
      const bool needs_own_file = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        return word.ends_with(".yaml") && !fs::exists(source / word);
      });
      if (needs_own_file) continue;
      CAPTURE(path.string());
      CAPTURE(line);
      const test::Finished done =
          test::run_command({"bash", "-c", "cd '" + folder.path("") + "' && PATH=build:$PATH && " + line});
      CHECK_MESSAGE(done.status == 0, done.err);
      CHECK(!done.out.empty());
      ++ran;
    }
  }
  CHECK(ran > 7);
}
