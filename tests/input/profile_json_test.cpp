#include "sim/input/profile_json.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/input/gunzip.hpp"
#include "tests/input/example_profile.hpp"

using namespace foretrain;
namespace fs = std::filesystem;

namespace {

std::string findings(const std::string& json) {
  Diagnostics diagnostics;
  const auto profile = parse_profile(json, "p.json", diagnostics);
  CHECK(profile.has_value() == diagnostics.ok());
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + "\n";
  return all;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

struct File {
  fs::path path;
  explicit File(const std::string& name)
      : path(fs::temp_directory_path() / ("foretrain_" + std::to_string(getpid()) + "_" + name)) {}
  ~File() { fs::remove(path); }
  std::string bytes() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

OverlapEntry waiting_overlap() {
  OverlapEntry entry;
  entry.model = "resnet50";
  entry.batch = 64;
  entry.ranks = 2;
  entry.step = entry.alone = {3e-3, 2.9e-3, 3.1e-3, 1e-4, 20};
  entry.one = {2e-3, 1.9e-3, 2.1e-3, 1e-4, 20};
  entry.interference_scale = 1;
  entry.collective_wait = 1e-4;
  return entry;
}

}  // namespace

TEST_CASE("a profile is the same after writing and reading") {
  Profile profile = example_profile();
  profile.overlaps = {waiting_overlap()};
  profile.operators[0].passes[0].device.median = 0.1 + 0.2;  // needs 17 digits
  profile.operators[0].passes[0].device.high = 1.0 / 3;
  const std::string json = profile_to_json(profile);
  Diagnostics diagnostics;
  const auto again = parse_profile(json, "p.json", diagnostics);
  REQUIRE(again);
  CHECK(profile_to_json(*again) == json);
  CHECK(again->operators[0].passes[0].device.median == 0.1 + 0.2);
  CHECK(again->operators[0].key == profile.operators[0].key);
  CHECK(again->collectives[0].time.repetitions == 20);
  CHECK(again->runs[0].machine.environment.at("NCCL_NVLS_ENABLE") == "0");
  CHECK(again->overlaps[0].one.median == 2e-3);
  CHECK(again->overlaps[0].collective_wait == 1e-4);
  CHECK(again->noise[0].tail_factor == 1);
  CHECK(again->runs[0].complete);
}

TEST_CASE("a line rate that an older profile lacks is that of the network's name") {
  Profile profile = example_profile();
  CollectiveEntry between;
  between.kind = "all_reduce";
  between.ranks = between.nodes = 2;
  between.network = "ethernet 1gbit tcp";
  between.algorithm = between.protocol = "auto";
  between.bytes = 1024;
  between.time = {1e-3, 1e-3, 1e-3, 0, 3};
  CollectiveEntry within = between;
  within.nodes = 1;
  profile.collectives = {between, within};
  Diagnostics diagnostics;
  const auto read = parse_profile(profile_to_json(profile), "p.json", diagnostics);
  REQUIRE(read);
  CHECK(read->collectives[0].line_rate == 125e6);
  CHECK(read->collectives[1].line_rate == 0);
}

TEST_CASE("compressed profiles are known by their content; equal profiles give equal bytes") {
  const Profile profile = example_profile();
  const File plain("a.json"), packed("a.json.gz");
  write_profile(profile, plain.path);
  write_profile(profile, packed.path);
  CHECK(is_gzip(packed.bytes()));
  CHECK(plain.bytes() == profile_to_json(profile));
  CHECK(gunzip(packed.bytes(), "x", 1 << 20) == plain.bytes());
  const std::string before = packed.bytes();
  write_profile(profile, packed.path);
  CHECK(packed.bytes() == before);
  Diagnostics diagnostics;
  CHECK(read_profile(plain.path, diagnostics).has_value());
  CHECK(read_profile(packed.path, diagnostics).has_value());
  CHECK(diagnostics.ok());
}

TEST_CASE("truncated and damaged compressed files are findings") {
  const File packed("b.json.gz");
  write_profile(example_profile(), packed.path);
  const std::string whole = packed.bytes();
  for (const std::size_t length : {whole.size() - 1, whole.size() - 8, whole.size() / 2, std::size_t{12}}) {
    std::ofstream(packed.path, std::ios::binary) << whole.substr(0, length);
    Diagnostics diagnostics;
    CHECK_FALSE(read_profile(packed.path, diagnostics));
    REQUIRE(diagnostics.error_count() == 1);
    CHECK(diagnostics.errors()[0].text() ==
          packed.path.string() + ": is truncated: the compressed data ends too early");
  }
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  CHECK_THROWS_WITH_AS(gunzip(damaged, "f.gz", 1 << 20), doctest::Contains("f.gz: is damaged"), Error);
  CHECK_THROWS_WITH_AS(gunzip(whole + "tail", "f.gz", 1 << 20), doctest::Contains("bytes follow"), Error);
  CHECK_THROWS_WITH_AS(gunzip(whole, "f.gz", 100), doctest::Contains("larger than 100 bytes"), Error);
  CHECK(gunzip(whole + whole, "f.gz", 1 << 20).size() == 2 * profile_to_json(example_profile()).size());
}

TEST_CASE("reading is strict and names file and JSON pointer") {
  const std::string json = profile_to_json(example_profile());
  CHECK(findings(json) == "");
  CHECK(findings(replaced(json, "\"batch\":64", "\"batch\":\"64\"")) ==
        "p.json: /operators/0/batch: is string where a whole number belongs\n");
  CHECK(contains(findings(replaced(json, "\"batch\":64", "\"batch\":0")),
                 "p.json: /operators/0: has a batch below 1"));
  CHECK(findings(replaced(json, "\"batch\":64,", "")) == "p.json: /operators/0: 'batch' is missing\n");
  CHECK(contains(findings(replaced(json, "\"precision\":\"bf16\"", "\"precision\":\"bf17\"")),
                 "/operators/0/precision: 'bf17' is unknown: allowed are fp32, tf32, bf16, fp16"));
  CHECK(findings(replaced(json, "\"launches\": ", "\"lunches\": ")) ==
        "p.json: /: has the unknown member 'lunches'\n");
  CHECK(contains(findings(replaced(json, "\"sigma\":0.01", "\"sigma\":1e999")),
                 "not valid JSON: the number '1e999' is out of range"));
  CHECK(
      contains(findings(replaced(json, "\"sigma\":0.01", "\"sigma\":-1")), "/noise/0: has a negative sigma"));
  CHECK(contains(findings(replaced(json, "\"passes\":[[[", "\"passes\":[[[7,")),
                 "/operators/0/passes/0/0: has 6 elements, too many"));
  CHECK(contains(findings(replaced(json, "\"bytes\":1048576", "\"bytes\":99999999999999999999")),
                 "/bytes: is number where a whole number belongs"));
  CHECK(contains(findings(replaced(json, "profile/1", "profile/2")),
                 "\"schema\" is \"foretrain/profile/2\" where \"foretrain/profile/1\" belongs"));
  Profile waiting = example_profile();
  for (const double wait : {-1e-4, 1e7}) {
    waiting.overlaps = {waiting_overlap()};
    waiting.overlaps[0].collective_wait = wait;
    CHECK(contains(findings(profile_to_json(waiting)),
                   "/overlaps/0: has a collective_wait_s below 0 or far beyond its step"));
  }
  CHECK(contains(findings("[]"), "is no profile"));
  CHECK(contains(findings("{\"schema\": \"foretrain/profile/1\", }"), "p.json:1:"));
}

TEST_CASE("several findings are reported at once") {
  std::string json = profile_to_json(example_profile());
  json = replaced(json, "\"sigma\":0.01", "\"sigma\":\"x\"");
  json = replaced(json, "\"batch\":64", "\"batch\":1.5");
  const std::string all = findings(json);
  CHECK(contains(all, "/operators/0/batch"));
  CHECK(contains(all, "/noise/0/sigma"));
}

TEST_CASE("read for one model, a profile has that model's operators and all else") {
  Profile profile = example_profile();
  REQUIRE(!profile.operators.empty());
  const OperatorEntry here = profile.operators.front();
  const OperatorUse use{here.context, here.precision};
  OperatorEntry other = here, precise = here, braces = here, quotes = here, alone = here;
  other.context = "other";
  precise.precision = here.precision == Precision::tf32 ? Precision::bf16 : Precision::tf32;
  braces.context = "other";
  braces.key = "a key {with} braces, [brackets";
  quotes.context = "other";
  quotes.key = "\"context\":\"" + here.context + "\" escaped";
  alone.context.clear();
  profile.operators = {other, braces, here, precise, quotes, other, alone, braces, here, other};
  const std::string json = profile_to_json(profile);
  std::string spread;  // as a tool for people writes it
  bool is_quoted = false;
  for (const char c : json) {
    is_quoted = is_quoted != (c == '"');
    spread += c;
    if (!is_quoted && (c == ',' || c == ':')) spread += "\n  ";
  }
  for (const std::string& text : {json, spread}) {
    Diagnostics diagnostics;
    const auto part = parse_profile(text, "p.json", diagnostics, use);
    REQUIRE(part);
    Profile expected = *part;
    std::erase_if(expected.operators, [&](const OperatorEntry& e) {
      return e.context != here.context || e.precision != here.precision;
    });
    CHECK(expected.operators.size() == 2);
    expected.operators = profile.operators;
    CHECK(profile_to_json(expected).size() >= json.size());
  }
  Diagnostics diagnostics;
  const auto part = parse_profile(json, "p.json", diagnostics, use);
  CHECK(part->operators.size() < profile.operators.size());
  const auto none = parse_profile(json, "p.json", diagnostics, OperatorUse{"not timed", here.precision});
  for (const OperatorEntry& entry : none->operators) CHECK(entry.context != here.context);
}

TEST_CASE("a truncated or damaged profile never crashes the reader") {
  const std::string json = profile_to_json(example_profile());
  for (std::size_t length = 0; length < json.size(); length += 7) {
    CHECK(findings(json.substr(0, length)) != "");
  }
  RandomStream random(3);
  const std::string letters = "[]{}:,\"0-e. tn";
  for (int round = 0; round < 500; ++round) {
    std::string damaged = json;
    for (int change = 0; change < 3; ++change) {
      damaged[random.next() % damaged.size()] = letters[random.next() % letters.size()];
    }
    findings(damaged);
  }
  CHECK(findings(std::string(100'000, '[')) != "");
}

TEST_CASE("a number that is not finite is not written") {
  Profile profile = example_profile();
  profile.noise[0].sigma = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(profile_to_json(profile), Error);
}
