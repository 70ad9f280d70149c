#include "app/vary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/output/json_writer.hpp"

namespace foretrain::app {
namespace {

constexpr std::size_t most_points = 1'000'000;

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("--vary {}: {}", text, why));
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  return parts;
}

// "10 Gbit/s" as 10 and " Gbit/s".
struct Quantity {
  double number = 0;
  std::string unit;
};

std::optional<Quantity> split_quantity(const std::string& text) {
  std::size_t length = text.find_first_not_of("0123456789.+-eE");
  // An 'e' that begins a unit is no exponent.
  length = std::min(length, text.size());
  while (length > 0 && (text[length - 1] == 'e' || text[length - 1] == 'E')) --length;
  const auto number = parse_number(text.substr(0, length));
  if (!std::holds_alternative<double>(number)) return std::nullopt;
  return Quantity{std::get<double>(number), text.substr(length)};
}

std::vector<std::string> expand_range(const std::string& whole, const std::string& text, std::size_t dots) {
  const std::string first_text = trimmed(text.substr(0, dots));
  std::string last_text = trimmed(text.substr(dots + 2));
  bool multiplies = false;
  double step = 1;
  if (const std::size_t sign = last_text.find_last_of("*+");
      sign != std::string::npos && sign > 0 && last_text[sign - 1] != 'e') {
    const auto parsed = parse_number(trimmed(last_text.substr(sign + 1)));
    if (!std::holds_alternative<double>(parsed)) refuse(whole, "a range ends in *FACTOR or +STEP, a number");
    multiplies = last_text[sign] == '*';
    step = std::get<double>(parsed);
    last_text = trimmed(last_text.substr(0, sign));
  }
  const auto first = split_quantity(first_text), last = split_quantity(last_text);
  if (!first || !last) refuse(whole, "a range goes from number to number, as in 2..64*2");
  const std::string unit = first->unit.empty() ? last->unit : first->unit;
  if (!first->unit.empty() && trimmed(first->unit) != trimmed(last->unit)) {
    refuse(whole, "both ends of a range have the same unit, as in 10 Gbit/s..100 Gbit/s*10");
  }
  if (last->number < first->number) refuse(whole, "a range goes upwards");
  if (multiplies ? !(step > 1 && first->number > 0) : !(step > 0)) {
    refuse(whole, "a range needs a factor above 1 and a start above 0, or a step above 0");
  }
  std::vector<std::string> values;
  // The end belongs to the range, whatever rounding adds up to on the way.
  const double end = last->number + 1e-9 * std::fabs(last->number);
  for (std::size_t i = 0;; ++i) {
    const auto count = static_cast<double>(i);
    const double value = multiplies ? first->number * std::pow(step, count) : first->number + step * count;
    if (!(value <= end)) break;
    if (values.size() == most_points) refuse(whole, "more than a million values");
    values.push_back(fmt::format("{:.12g}{}", value, unit));
  }
  return values;
}

}  // namespace

Axis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    refuse(text, "takes PATH=V1,V2,... as in cluster.nodes=1,2,4");
  }
  Axis axis{trimmed(text.substr(0, equals)), {}};
  for (const std::string& part : split_at_commas(text.substr(equals + 1))) {
    const std::string value = trimmed(part);
    if (value.empty()) refuse(text, "a value is missing between commas");
    const bool is_structure = value.find_first_of("[{\"'/") == 0;
    const std::size_t dots = is_structure ? std::string::npos : value.find("..");
    if (dots == std::string::npos || dots == 0) {
      axis.values.push_back(value);
    } else {
      for (std::string& each : expand_range(text, value, dots)) axis.values.push_back(std::move(each));
    }
  }
  return axis;
}

std::size_t grid_size(const std::vector<Axis>& axes) {
  std::size_t size = 1;
  for (const Axis& axis : axes) {
    if (axis.with_previous) continue;
    size *= axis.values.size();
    if (size > most_points) throw Error(ErrorKind::input, "sweep: the grid has more than a million points");
  }
  return size;
}

std::vector<std::string> values_at(const std::vector<Axis>& axes, std::size_t point) {
  std::vector<std::string> values(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    values[i] = axes[i].values[point % axes[i].values.size()];
    if (!axes[i].with_previous) point /= axes[i].values.size();
  }
  return values;
}

namespace {

std::optional<std::size_t> number_of(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const auto number = parse_number(text);
  const auto* value = std::get_if<double>(&number);
  constexpr double most = 1e6;
  if (value == nullptr || *value < 0 || *value > most || *value != std::floor(*value)) return std::nullopt;
  return static_cast<std::size_t>(*value);
}

// Of a Slurm array: tasks are numbered from MIN to MAX by STEP, or as a list says, which tells no part.
std::optional<Shard> part_of_array() {
  const auto task = number_of("SLURM_ARRAY_TASK_ID"), count = number_of("SLURM_ARRAY_TASK_COUNT");
  if (!task || !count || *count < 2) return std::nullopt;
  const std::size_t first = number_of("SLURM_ARRAY_TASK_MIN").value_or(0),
                    step = std::max<std::size_t>(1, number_of("SLURM_ARRAY_TASK_STEP").value_or(1)),
                    last = number_of("SLURM_ARRAY_TASK_MAX").value_or(first + (*count - 1) * step);
  const bool is_even =
      first <= *task && *task <= last && (*task - first) % step == 0 && (last - first) / step + 1 == *count;
  if (!is_even)
    throw Error(
        ErrorKind::input,
        fmt::format("sweep: task {} of this Slurm array of {} is of no even numbering from {} to {} by {}: "
                    "say its part by --shard i/n",
                    *task, *count, first, last, step));
  return Shard{(*task - first) / step, *count, true};
}

// Of the processes of mpirun or srun. In a batch script that no launcher has begun Slurm's numbers are the
// job's.
std::optional<Shard> part_of_launcher() {
  const bool is_script = std::getenv("SLURM_JOB_ID") != nullptr && std::getenv("SLURM_STEP_ID") == nullptr;
  for (const auto& [rank, size] : {std::pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    if (is_script && std::string_view(rank).starts_with("SLURM")) continue;
    const auto index = number_of(rank), of = number_of(size);
    if (index && of && *of > 1 && *index < *of) return Shard{*index, *of, true};
  }
  return std::nullopt;
}

}  // namespace

Shard read_shard(const std::string& text) {
  if (!text.empty()) {
    const std::size_t slash = text.find('/');
    const auto index = parse_number(text.substr(0, slash));
    const auto of = slash == std::string::npos ? std::variant<double, UnitError>(UnitError{})
                                               : parse_number(text.substr(slash + 1));
    const auto *i = std::get_if<double>(&index), *n = std::get_if<double>(&of);
    const bool is_part = i != nullptr && n != nullptr && *i >= 1 && *i <= *n && *n <= most_points &&
                         *i == std::floor(*i) && *n == std::floor(*n);
    if (!is_part)
      throw Error(ErrorKind::input, "--shard " + text + ": takes i/n, the i-th of n parts, as in 2/8");
    return {static_cast<std::size_t>(*i) - 1, static_cast<std::size_t>(*n), false};
  }
  const Shard task = part_of_array().value_or(Shard()), rank = part_of_launcher().value_or(Shard());
  const std::size_t of = task.of * rank.of;
  return {task.index * rank.of + rank.index, of, of > 1};
}

std::string part_name(const std::string& target, const Shard& shard) {
  if (!shard.is_automatic || target.empty() || target == "-" || target.starts_with("/dev/")) return target;
  const std::size_t folder = target.find_last_of('/');
  std::size_t dot = target.find('.', folder == std::string::npos ? 1 : folder + 2);
  if (dot == std::string::npos) dot = target.size();
  return fmt::format("{}.{}-of-{}{}", target.substr(0, dot), shard.index + 1, shard.of, target.substr(dot));
}

}  // namespace foretrain::app
