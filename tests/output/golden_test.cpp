// Every number and every word of choice that is predicted for what ships, to the last digit: no prediction
// changes unseen. tools/renew-golden writes them anew; CHANGELOG.md says why they changed.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/input/catalog.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/output/fields.hpp"
#include "tests/app/subprocess.hpp"

using namespace foretrain;

namespace {

const std::filesystem::path source = FORETRAIN_SOURCE_DIR;

// A line a field, "job.phases.2.time_s = 5.25". Sentences, inputs and the points of curves are left out: they
// say again what other lines say.
class GoldenFields : public FieldVisitor {
 public:
  void begin_group(std::string_view name) override { enter(name); }
  void end_group() override { path_.pop_back(); }
  void begin_list(std::string_view name) override {
    enter(name);
    path_.back().index = 0;
  }
  void end_list() override { path_.pop_back(); }
  void number(std::string_view name, double value) override { add(name, fmt::format("{}", value)); }
  void integer(std::string_view name, std::int64_t value) override { add(name, std::to_string(value)); }
  void text(std::string_view name, std::string_view value) override {
    static constexpr std::string_view sentences[] = {"text", "version", "question", "cost", "assumption"};
    const bool is_sentence =
        std::find(std::begin(sentences), std::end(sentences), name) != std::end(sentences);
    if (!is_sentence && !(name.empty() && path_.back().name != "")) add(name, std::string(value));
  }
  void flag(std::string_view name, bool value) override { add(name, value ? "true" : "false"); }
  void none(std::string_view) override {}

  std::string lines;

 private:
  struct Part {
    std::string name;
    int index = -1;  // of a list: the next element
  };

  std::string next_name(std::string_view name) {
    if (!name.empty() || path_.empty() || path_.back().index < 0) return std::string(name);
    return std::to_string(path_.back().index++);
  }
  void enter(std::string_view name) { path_.push_back({next_name(name), -1}); }
  void add(std::string_view name, const std::string& value) {
    std::string whole;
    for (const Part& part : path_) {
      if (part.name == "inputs" || part.name == "progress" || part.name == "warnings" ||
          part.name == "answers")
        return;
      whole += part.name + '.';
    }
    lines += whole + next_name(name) + " = " + value + '\n';
  }

  std::vector<Part> path_;
};

std::string predicted(const std::filesystem::path& scenario) {
  GoldenFields fields;
  visit_fields(predict_job(read_scenario(scenario, Catalog({source}))), fields);
  return fields.lines;
}

// All-reduces over each shipped topology, by what NCCL would choose.
std::string predicted_collectives() {
  std::string all;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source / "topologies"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const test::Finished done = test::run_foretrain(
        {"collective", "all_reduce", "--topology", file.string(), "--bytes", "1KiB..1GiB*32", "--csv", "-"});
    REQUIRE_MESSAGE(done.status == 0, done.err);
    all += file.stem().string() + '\n' + done.out;
  }
  return all;
}

// The first line in which they differ.
std::string difference(const std::string& golden, const std::string& now) {
  std::istringstream before(golden), after(now);
  std::string a, b;
  while (true) {
    const bool has_a = static_cast<bool>(std::getline(before, a)),
               has_b = static_cast<bool>(std::getline(after, b));
    if (!has_a && !has_b) return "none";
    if (!has_a) a = "nothing";
    if (!has_b) b = "nothing";
    if (a != b) return fmt::format("'{}' before, '{}' now", a, b);
  }
}

void hold(const std::string& name, const std::string& now) {
  const std::filesystem::path file = source / "tests" / "golden" / (name + ".txt");
  if (std::getenv("FORETRAIN_RENEW_GOLDEN") != nullptr) {
    std::ofstream(file) << now;
    return;
  }
  const std::string golden = std::filesystem::exists(file) ? test::read_file(file.string()) : "";
  CHECK_MESSAGE(golden == now, name << " is predicted differently, first: " << difference(golden, now)
                                    << "\nIf that is meant: tools/renew-golden, and a line in CHANGELOG.md");
}

}  // namespace

TEST_CASE("golden: each shipped scenario is predicted to the last digit as before") {
  for (const auto& entry : std::filesystem::directory_iterator(source / "scenarios")) {
    if (entry.path().extension() == ".yaml") hold(entry.path().stem().string(), predicted(entry.path()));
  }
}

TEST_CASE("golden: collectives over each shipped topology take to the last digit what they took") {
  hold("collectives", predicted_collectives());
}

TEST_CASE("golden: no file is left of a scenario that has gone") {
  for (const auto& entry : std::filesystem::directory_iterator(source / "tests" / "golden")) {
    const std::string name = entry.path().stem().string();
    CHECK_MESSAGE((name == "collectives" || std::filesystem::exists(source / "scenarios" / (name + ".yaml"))),
                  entry.path().string());
  }
}
