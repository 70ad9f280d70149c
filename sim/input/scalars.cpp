#include "sim/input/scalars.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace foretrain {
namespace {

bool has_leading_zero(std::string_view digits) {
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  return digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
}

UnitError leading_zero(std::string_view text) {
  return {fmt::format(
      "'{}' has a leading zero, which some readers take for an octal number: write it without", text)};
}

// "12.5 word" -> 12.5 and "word".
std::optional<std::pair<double, std::string_view>> split(std::string_view text) {
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || !(number >= -1e300 && number <= 1e300)) return std::nullopt;
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return std::pair(number, rest);
}

std::optional<double> base_value(const std::string& text) {
  if (const auto rate = parse_rate(text); std::holds_alternative<Rate>(rate)) {
    return std::get<Rate>(rate).bytes_per_second();
  }
  if (const auto bytes = parse_bytes(text); std::holds_alternative<Bytes>(bytes)) {
    return static_cast<double>(std::get<Bytes>(bytes).count());
  }
  if (const auto time = parse_job_time(text); std::holds_alternative<JobTime>(time)) {
    return std::get<JobTime>(time).in_seconds();
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::int64_t, UnitError> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc::result_out_of_range) return UnitError{fmt::format("'{}' is too large", text)};
  if (code != std::errc() || end != text.data() + text.size()) {
    return UnitError{fmt::format("'{}' is not a whole number", text)};
  }
  if (has_leading_zero(text)) return leading_zero(text);
  return number;
}

std::variant<bool, UnitError> parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  static constexpr std::array<std::pair<std::string_view, bool>, 22> others{
      {{"yes", true},  {"Yes", true},  {"YES", true},    {"no", false},    {"No", false},  {"NO", false},
       {"on", true},   {"On", true},   {"ON", true},     {"off", false},   {"Off", false}, {"OFF", false},
       {"True", true}, {"TRUE", true}, {"False", false}, {"FALSE", false}, {"y", true},    {"n", false},
       {"1", true},    {"0", false},   {"Y", true},      {"N", false}}};
  std::string hint;
  for (const auto& [word, value] : others) {
    if (word == text) hint = fmt::format("; did you mean '{}'?", value);
  }
  return UnitError{fmt::format("'{}' is not true or false{}", text, hint)};
}

std::variant<double, UnitError> parse_plain_number(std::string_view text) {
  auto number = parse_number(text);
  if (std::holds_alternative<double>(number) && has_leading_zero(text)) return leading_zero(text);
  return number;
}

std::variant<Interval, UnitError> parse_interval(std::string_view text) {
  const auto parts = split(text);
  if (!parts) {
    return UnitError{
        fmt::format("'{}' is no interval: write it as in '1 epoch', '500 updates' or '10 min'", text)};
  }
  const auto [number, unit] = *parts;
  if (unit.empty()) return UnitError{fmt::format("'{}' has no unit: write it as in '{} epoch'", text, text)};
  if (number < 0) return UnitError{fmt::format("'{}' is negative: an interval is zero or more", text)};
  if (unit == "epoch" || unit == "epochs") return Interval{Interval::Unit::epochs, number};
  if (unit == "update" || unit == "updates" || unit == "step" || unit == "steps") {
    if (number != std::floor(number)) return UnitError{fmt::format("'{}' is no whole number", text)};
    return Interval{Interval::Unit::updates, number};
  }
  if (const auto time = parse_job_time(text); const auto* read = std::get_if<JobTime>(&time)) {
    return Interval{Interval::Unit::time, read->in_seconds()};
  }
  return UnitError{fmt::format(
      "'{}' has the unknown unit '{}': allowed are epoch, update and times, as in '10 min'", text, unit)};
}

std::variant<double, UnitError> parse_power(std::string_view text) {
  const auto parts = split(text);
  const std::string_view unit = parts ? parts->second : std::string_view();
  if (unit != "W" && unit != "kW") {
    return UnitError{fmt::format("'{}' is not a power: write it as in '700 W'", text)};
  }
  if (parts->first < 0) return UnitError{fmt::format("'{}' is negative: a power is zero or more", text)};
  return parts->first * (unit == "kW" ? 1e3 : 1);
}

std::variant<double, UnitError> parse_gpu_hours(std::string_view text) {
  const auto parts = split(text);
  if (!parts || (parts->second != "gpu-hours" && parts->second != "gpu-hour")) {
    return UnitError{fmt::format("'{}' is no number of GPU-hours: write it as in '50 gpu-hours'", text)};
  }
  if (parts->first < 0) return UnitError{fmt::format("'{}' is negative", text)};
  return parts->first;
}

std::variant<Price, UnitError> parse_price(std::string_view text) {
  static constexpr std::string_view per_hour = "/gpu-hour";
  const auto parts = split(text);
  const std::string_view unit = parts ? parts->second : std::string_view();
  if (!parts || !unit.ends_with(per_hour) || unit.size() != 3 + per_hour.size()) {
    return UnitError{fmt::format("'{}' is not a price: write it as in '2.50 USD/gpu-hour'", text)};
  }
  const std::string currency(unit.substr(0, 3));
  for (const char c : currency) {
    if (c < 'A' || c > 'Z') {
      return UnitError{fmt::format(
          "'{}' has the unknown currency '{}': three capital letters, as in USD or EUR", text, currency)};
    }
  }
  if (parts->first < 0) return UnitError{fmt::format("'{}' is negative: a price is zero or more", text)};
  return Price{parts->first, currency, {}};
}

std::string meant_quantity(std::string_view text, double low, double high) {
  const auto parts = split(text);
  if (!parts) return {};
  const std::string_view number =
      text.substr(0, static_cast<std::size_t>(parts->second.data() - text.data()));
  const std::string_view unit = parts->second;
  auto fits = [&](const std::string& candidate) {
    const auto value = base_value(candidate);
    return value && *value >= low && *value <= high;
  };
  auto with = [&](std::string_view other) {
    std::string candidate(number);
    if (!candidate.ends_with(' ')) candidate += ' ';
    return candidate + std::string(other);
  };
  static constexpr std::array<std::array<std::string_view, 6>, 5> ladders{{
      {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", ""},
      {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", ""},
      {"B", "kB", "MB", "GB", "TB", "PB"},
      {"B", "KiB", "MiB", "GiB", "TiB", "PiB"},
      {"ps", "ns", "us", "ms", "s", ""},
  }};
  for (std::size_t swap = 0; swap < 2; ++swap) {
    for (std::size_t step = 0; step < ladders[swap].size(); ++step) {
      if (ladders[swap][step] != unit || unit.empty()) continue;
      const std::string candidate = with(ladders[1 - swap][step]);
      if (fits(candidate)) return candidate;
    }
  }
  for (const auto& ladder : ladders) {
    for (std::size_t step = 0; step < ladder.size(); ++step) {
      if (ladder[step] != unit || unit.empty()) continue;
      if (step > 0 && fits(with(ladder[step - 1]))) return with(ladder[step - 1]);
      if (step + 1 < ladder.size() && !ladder[step + 1].empty() && fits(with(ladder[step + 1]))) {
        return with(ladder[step + 1]);
      }
    }
  }
  return {};
}

}  // namespace foretrain
