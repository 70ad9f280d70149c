#include "sim/import/nccl_tests_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/import/lines.hpp"

namespace foretrain {
namespace {

// "2026-01-31T12:00:00.123Z", as collectors of logs put it before a line.
bool is_timestamp(std::string_view word) {
  constexpr std::string_view pattern = "dddd-dd-ddTdd:dd:dd";
  if (word.size() < pattern.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool is_digit = word[i] >= '0' && word[i] <= '9';
    if (pattern[i] == 'd' ? !is_digit : word[i] != pattern[i]) return false;
  }
  return true;
}

// What a launcher puts before each line: "[1,0]<stdout>:", "[1,0]<stdout> ", "0: " of srun -l, "node-3: ",
// "[node-3] ". Only what is followed by a line of nccl-tests is taken for a prefix.
std::string_view without_prefix(std::string_view line) {
  line = trimmed(line);
  if (const std::string_view word = line.substr(0, line.find_first_of(" \t")); is_timestamp(word))
    line = trimmed(line.substr(word.size()));
  if (line.starts_with('[')) {
    const std::size_t end = line.find(']');
    if (end == std::string_view::npos) return line;
    std::string_view rest = line.substr(end + 1);
    if (rest.starts_with('<')) {
      const std::size_t close = rest.find('>');
      if (close == std::string_view::npos) return line;
      rest.remove_prefix(close + 1);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    return trimmed(rest);
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || line.starts_with('#')) return line;
  const std::string_view name = line.substr(0, colon);
  const bool is_name = name.find_first_of(" \t") == std::string_view::npos;
  if (!is_name || colon + 1 >= line.size() || line[colon + 1] != ' ') return line;
  return trimmed(line.substr(colon + 1));
}

// A blank or the end follows, as after a whole word.
std::optional<std::string_view> word_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> words = words_of(line.substr(at + key.size()));
  if (words.empty()) return std::nullopt;
  return words.front();
}

// 2^53 at most; -1 where it is none.
constexpr std::int64_t no_number = -1;
std::int64_t whole_number(std::string_view text) {
  double value = 0;
  constexpr double most = 9e15;
  if (!read_number(text, value) || value != std::floor(value) || value < 0 || value > most) return no_number;
  return static_cast<std::int64_t>(value);
}

constexpr std::string_view elements[] = {
    "int8",  "char",    "uint8",  "int32",   "int",      "uint32",   "int64",    "uint64", "half",  "float16",
    "float", "float32", "double", "float64", "bfloat16", "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"};
constexpr std::string_view operations[] = {"sum", "prod", "max", "min", "avg", "mulsum", "none"};

bool is_element(std::string_view word) {
  return std::find(std::begin(elements), std::end(elements), word) != std::end(elements);
}

class Reader {
 public:
  NcclTestsLog read(std::string_view text) {
    for (const std::string_view raw : lines_of(text)) {
      const std::string plain = without_escapes(raw);
      const std::string_view line = without_prefix(plain);
      if (line.empty()) continue;
      if (line.find("NCCL INFO") != std::string_view::npos ||
          line.find("NCCL WARN") != std::string_view::npos) {
        ++log_.foreign_lines;
        read_nccl_line(line);
      } else if (line.starts_with('#')) {
        read_comment(line);
      } else {
        read_row(line);
      }
    }
    return std::move(log_);
  }

 private:
  void read_nccl_line(std::string_view line) {
    // AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}
    if (const std::size_t at = line.find(" Bytes -> Algo "); at != std::string_view::npos) {
      const std::vector<std::string_view> before = words_of(line.substr(0, at));
      const std::int64_t bytes = before.empty() ? no_number : whole_number(before.back());
      const auto algorithm = word_after(line, "-> Algo "), protocol = word_after(line, " proto ");
      if (bytes >= 0 && algorithm && protocol)
        log_.choices[bytes] = {std::string(*algorithm), std::string(*protocol)};
    }
    if (const auto version = word_after(line, "NCCL version "))
      log_.version = std::string(version->substr(0, version->find('+')));
    for (const char* transport : {"IB", "Socket"})
      if (line.find(fmt::format("Using network {}", transport)) != std::string_view::npos ||
          line.find(fmt::format("NET/{} : Using", transport)) != std::string_view::npos)
        log_.transport = transport;
    // NCCL_ALGO set by environment to Ring
    if (const std::size_t at = line.find(" set by environment to "); at != std::string_view::npos) {
      const std::vector<std::string_view> before = words_of(line.substr(0, at));
      const auto value = word_after(line, " set by environment to ");
      if (!before.empty() && before.back().starts_with("NCCL_") && value) {
        std::string_view plain = *value;
        if (plain.ends_with('.')) plain.remove_suffix(1);
        log_.environment[std::string(before.back())] = std::string(plain);
      }
    }
  }

  void read_comment(std::string_view line) {
    const std::vector<std::string_view> words = words_of(line.substr(1));
    if (words.empty()) return;
    if (words[0] == "Rank") return read_rank(line, words);
    if (words[0] == "size" || words[0] == "bytes") return read_head(words);
    if (line.find("Collective test starting:") != std::string_view::npos)
      log_.test = std::string(words.back());
    if (line.find("nThread") != std::string_view::npos) {
      // "warmup iters: 5 iters: 20 agg iters: 1"
      constexpr std::string_view warmup = "warmup iters:";
      const std::size_t at = line.find(warmup);
      const auto count =
          word_after(at == std::string_view::npos ? line : line.substr(at + warmup.size()), " iters: ");
      if (count)
        log_.iterations = static_cast<int>(std::clamp<std::int64_t>(whole_number(*count), 0, 1'000'000));
    }
    if (const auto code = word_after(line, "nccl-library="))
      if (const std::int64_t number = whole_number(*code); number > 0)
        log_.version = nccl_version_text(number);
    if (line.find("Avg bus bandwidth") != std::string_view::npos) {
      double value = 0;
      if (read_number(words.back(), value)) log_.average = value;
    }
    if (line.find("Blocking Enabled") != std::string_view::npos) log_.is_blocking = true;
    if (line.find("CPU time") != std::string_view::npos) log_.host_times = true;
  }

  //  Rank  0 Group  0 Pid  12345 on   hostname device  0 [0x07] NVIDIA A100-SXM4-40GB
  void read_rank(std::string_view line, const std::vector<std::string_view>& words) {
    const std::int64_t rank = words.size() > 1 ? whole_number(words[1]) : no_number;
    constexpr std::int64_t most_ranks = 1'000'000;
    if (rank < 0 || rank > most_ranks) return;
    if (rank == 0) ++log_.first_ranks;
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on != words.end() && on + 1 != words.end())
      log_.host_of_rank[static_cast<int>(rank)] = std::string(*(on + 1));
    if (const std::size_t bracket = line.find(']'); bracket != std::string_view::npos)
      log_.gpu = std::string(trimmed(line.substr(bracket + 1)));
  }

  void read_head(const std::vector<std::string_view>& words) {
    has_root_ = false;
    for (const std::string_view word : words) has_root_ = has_root_ || word == "root";
    has_head_ = true;
  }

  // size count type [redop] [root] and twice time algbw busbw wrong; of what is only in place once.
  void read_row(std::string_view line) {
    const std::vector<std::string_view> words = words_of(line);
    const std::int64_t bytes = whole_number(words[0]);
    const bool begins_as_row =
        words.size() > 3 && bytes >= 0 && whole_number(words[1]) >= 0 && is_element(words[2]);
    if (!begins_as_row) {
      ++log_.foreign_lines;
      const auto perf = std::find_if(words.begin(), words.end(),
                                     [](std::string_view word) { return word.ends_with("_perf"); });
      if (perf != words.end() && log_.test.empty())
        log_.test = std::string(perf->substr(perf->find_last_of('/') + 1));
      return;
    }
    NcclTestsRow row;
    row.bytes = bytes;
    row.element = std::string(words[2]);
    std::size_t at = 3;
    const bool names_operation =
        std::find(std::begin(operations), std::end(operations), words[at]) != std::end(operations);
    if (names_operation) row.operation = std::string(words[at++]);
    // Without a head: a root makes the rest one more than the eight columns.
    const bool has_root = has_head_ ? has_root_ : (words.size() - at) % 4 == 1;
    if (has_root && at < words.size()) {
      double root = 0;
      if (!read_number(words[at], root)) return broken();
      row.has_root = root >= 0;
      ++at;
    }
    std::optional<double>* const times[] = {&row.out_of_place, &row.in_place};
    int group = 0;
    for (; group < 2 && at + 4 <= words.size(); ++group, at += 4) {
      double time = 0, bus = 0, wrong = 0;
      const bool has_time = read_number(words[at], time);
      if (!has_time && words[at] != "N/A") return broken();
      if (has_time && time >= 0) *times[group] = time * 1e-6;
      if (read_number(words[at + 2], bus)) {
        row.bus_bandwidth = std::max(row.bus_bandwidth.value_or(0), bus * 1e9);
      } else if (words[at + 2] != "N/A") {
        return broken();
      }
      if (read_number(words[at + 3], wrong)) row.wrong = std::max(row.wrong, wrong);
    }
    if (group == 0 ||
        (group == 1 && at < words.size() && words[at].find_first_of("-:") == std::string_view::npos))
      return broken();
    if (group == 1) std::swap(row.in_place, row.out_of_place);
    log_.rows.push_back(std::move(row));
  }

  void broken() { ++log_.broken_rows; }

  NcclTestsLog log_;
  bool has_head_ = false, has_root_ = false;
};

}  // namespace

std::string nccl_version_text(std::int64_t code) {
  // Up to 2.8 three digits of minor and patch, since 2.9 four.
  constexpr std::int64_t first_long = 10000;
  if (code < first_long) return fmt::format("{}.{}.{}", code / 1000, code / 100 % 10, code % 100);
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

NcclTestsLog read_nccl_tests_log(std::string_view text) {
  return Reader().read(text);
}

}  // namespace foretrain
