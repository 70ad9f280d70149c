// What shells complete is what --help says, verb by verb.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "tests/app/subprocess.hpp"

using namespace foretrain;

namespace {

std::string output_of(const std::vector<std::string>& arguments) {
  const test::Finished done = test::run_foretrain(arguments);
  REQUIRE_MESSAGE(done.status == 0, done.err);
  return done.out;
}

// The verbs as the program's help lists them.
std::vector<std::string> helped_verbs() {
  std::vector<std::string> verbs;
  std::istringstream lines(output_of({"--help"}));
  for (std::string line; std::getline(lines, line);) {
    const bool is_verb = line.size() > 4 && line.starts_with("  ") && line[2] >= 'a' && line[2] <= 'z';
    if (is_verb) verbs.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return verbs;
}

// "-q", "--json" at the beginning of the help's lines.
std::set<std::string> helped_options(const std::string& verb) {
  std::set<std::string> options;
  std::istringstream lines(output_of({verb, "--help"}));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word && word.starts_with('-');) {
      const bool goes_on = word.ends_with(',');
      if (goes_on) word.pop_back();
      options.insert(word);
      if (!goes_on) break;
    }
  }
  return options;
}

// What bash offers after these words, the last of which is begun.
std::set<std::string> completed(const std::string& script, const std::vector<std::string>& words) {
  std::string command = "PATH=" + std::filesystem::path(FORETRAIN_PROGRAM).parent_path().string() +
                        ":$PATH; source '" + script + "'; COMP_WORDS=(";
  for (const std::string& word : words) command += "'" + word + "' ";
  command += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
             "; _foretrain; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const test::Finished done = test::run_command({"bash", "-c", command});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(done.err == "");
  std::set<std::string> offered;
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) offered.insert(line);
  return offered;
}

}  // namespace

TEST_CASE("bash completes the verbs, options and names that help and list show") {
  const test::TemporaryFolder folder;
  const std::string script = folder.write("completion", output_of({"completion", "bash"}));
  const std::vector<std::string> verbs = helped_verbs();
  CHECK(verbs.size() >= 14);
  std::set<std::string> first(verbs.begin(), verbs.end());
  first.insert("help");
  CHECK(completed(script, {"foretrain", "[a-z]*"}).empty());
  first.insert({"--help", "--version"});
  CHECK(completed(script, {"foretrain", ""}) == first);
  for (const std::string& verb : verbs) {
    CAPTURE(verb);
    CHECK(completed(script, {"foretrain", verb, "-"}) == helped_options(verb));
  }
  CHECK(completed(script, {"foretrain", "simulate", "--prof"}) == std::set<std::string>{"--profile"});
  CHECK(completed(script, {"foretrain", "simulate", "--profile", "h1"}) == std::set<std::string>{"h100"});
  CHECK(completed(script, {"foretrain", "import", "topo"}) == std::set<std::string>{"topo-m"});
}

TEST_CASE("zsh has every option of every verb") {
  const std::string script = output_of({"completion", "zsh"});
  CHECK(script.starts_with("#compdef foretrain\n"));
  for (const std::string& verb : helped_verbs()) {
    CAPTURE(verb);
    const std::size_t begin = script.find("\n    " + verb + ")\n"), end = script.find(";;", begin);
    REQUIRE(begin != std::string::npos);
    const std::string part = script.substr(begin, end - begin);
    for (const std::string& option : helped_options(verb))
      CHECK_MESSAGE(part.find("'*" + option + "[") != std::string::npos, option);
  }
  if (test::run_command({"sh", "-c", "command -v zsh"}).status != 0) return;
  const test::TemporaryFolder folder;
  CHECK(test::run_command({"zsh", "-n", folder.write("_foretrain", script)}).status == 0);
}

TEST_CASE("the manual page has every verb and option, and roff finds no fault in it") {
  const std::string page = output_of({"completion", "man"});
  for (const std::string& verb : helped_verbs()) {
    CHECK(page.find(".SS \"foretrain " + verb + ' ') != std::string::npos);
    for (std::string option : helped_options(verb)) {
      for (std::size_t at = 0; (at = option.find('-', at)) != std::string::npos; at += 2)
        option.insert(at, "\\");
      CHECK_MESSAGE(page.find(".B \"" + option + '"') != std::string::npos, option);
    }
  }
  if (test::run_command({"sh", "-c", "command -v groff"}).status != 0) return;
  const test::TemporaryFolder folder;
  const test::Finished done =
      test::run_command({"groff", "-man", "-Tutf8", "-ww", folder.write("foretrain.1", page)});
  CHECK(done.status == 0);
  CHECK(done.err == "");
  CHECK(done.out.find("see a training run before you run it") != std::string::npos);
}

TEST_CASE("a kind of completion that is not known is bad usage") {
  const test::Finished done = test::run_foretrain({"completion", "bsh"});
  CHECK(done.status == 2);
  CHECK(done.err.find("did you mean 'bash'?") != std::string::npos);
}
