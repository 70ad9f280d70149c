#include "sim/base/parse_units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace foretrain {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array time_units{Unit{"ps", 1e-12}, Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                Unit{"s", 1.0},    Unit{"min", 60},  Unit{"h", 3600},  Unit{"d", 86400}};
constexpr std::array byte_units{Unit{"B", 1},
                                Unit{"kB", 1e3},
                                Unit{"MB", 1e6},
                                Unit{"GB", 1e9},
                                Unit{"TB", 1e12},
                                Unit{"PB", 1e15},
                                Unit{"EB", 1e18},
                                Unit{"KiB", 1024.0},
                                Unit{"MiB", 1048576.0},
                                Unit{"GiB", 1073741824.0},
                                Unit{"TiB", 1099511627776.0},
                                Unit{"PiB", 1125899906842624.0}};
constexpr std::array rate_units{Unit{"bit/s", 1.0 / 8},      Unit{"kbit/s", 1e3 / 8},
                                Unit{"Mbit/s", 1e6 / 8},     Unit{"Gbit/s", 1e9 / 8},
                                Unit{"Tbit/s", 1e12 / 8},    Unit{"B/s", 1},
                                Unit{"kB/s", 1e3},           Unit{"MB/s", 1e6},
                                Unit{"GB/s", 1e9},           Unit{"TB/s", 1e12},
                                Unit{"KiB/s", 1024.0},       Unit{"MiB/s", 1048576.0},
                                Unit{"GiB/s", 1073741824.0}, Unit{"TiB/s", 1099511627776.0}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::string names(std::span<const Unit> units) {
  std::string all;
  for (const Unit& unit : units) all += (all.empty() ? "" : ", ") + std::string(unit.name);
  return all;
}

// Bits and bytes differ by the case of one letter: "Gb/s" and "Gbps" are Gbit/s, "GBps" is GB/s, and "gb/s"
// may be either.
std::string guess_rate(std::string_view unit, std::span<const Unit> units) {
  if (unit.size() != 4 || !(unit.ends_with("/s") || unit.ends_with("ps"))) return {};
  const std::string prefix = lower(unit.substr(0, 1)) == "k" ? "k" : upper(unit.substr(0, 1));
  const std::string bits = prefix + "bit/s", bytes = prefix + "B/s";
  const bool is_rate =
      std::any_of(units.begin(), units.end(), [&](const Unit& each) { return each.name == bits; });
  if (!is_rate || lower(unit.substr(1, 1)) != "b") return {};
  if (unit[1] == 'B') return bytes;
  const bool is_open = unit.ends_with("/s") && prefix != "k" && unit[0] != prefix[0];
  return is_open ? fmt::format("{}' or '{}", bits, bytes) : bits;
}

// The unit somebody may have meant: "Gbps" -> Gbit/s, "gb" -> GB, "sec" -> s.
std::string guess(std::string_view unit, std::span<const Unit> units) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 16> spellings{{
      {"gbit", "Gbit/s"},
      {"mbit", "Mbit/s"},
      {"gb", "GB"},
      {"mb", "MB"},
      {"kb", "kB"},
      {"k", "kB"},
      {"m", "MB"},
      {"g", "GB"},
      {"sec", "s"},
      {"second", "s"},
      {"seconds", "s"},
      {"msec", "ms"},
      {"usec", "us"},
      {"hour", "h"},
      {"hours", "h"},
      {"days", "d"},
  }};
  if (std::string rate = guess_rate(unit, units); !rate.empty()) return rate;
  const std::string wanted = lower(unit);
  auto known = [&](std::string_view name) {
    for (const Unit& candidate : units) {
      if (candidate.name == name) return true;
    }
    return false;
  };
  for (const Unit& candidate : units) {
    if (lower(candidate.name) == wanted) return std::string(candidate.name);
  }
  for (const auto& [spelling, name] : spellings) {
    if (spelling == wanted && known(name)) return std::string(name);
  }
  return {};
}

struct Parsed {
  double value = 0;
  UnitError error;
  bool ok = false;
};

Parsed parse(std::string_view text, std::span<const Unit> units, std::string_view quantity,
             std::string_view example) {
  Parsed out;
  const std::string_view whole = trim(text);
  double number = 0;
  const auto [end, code] = std::from_chars(whole.data(), whole.data() + whole.size(), number);
  if (code == std::errc::result_out_of_range) {
    out.error.what = fmt::format("'{}' is out of range", whole);
    return out;
  }
  if (code != std::errc() || !std::isfinite(number)) {
    out.error.what =
        fmt::format("'{}' is not a {}: write a number and a unit, as in '{}'", whole, quantity, example);
    return out;
  }
  const std::string_view unit = trim(whole.substr(static_cast<std::size_t>(end - whole.data())));
  if (unit.empty()) {
    out.error.what = fmt::format("'{}' has no unit: a {} needs one of {}, as in '{}'", whole, quantity,
                                 names(units), example);
    return out;
  }
  for (const Unit& candidate : units) {
    if (candidate.name == unit) {
      if (number < 0) {
        out.error.what = fmt::format("'{}' is negative: a {} is zero or more", whole, quantity);
        return out;
      }
      out.value = number * candidate.factor;
      out.ok = true;
      return out;
    }
  }
  out.error.what = fmt::format("'{}' has the unknown unit '{}': allowed are {}", whole, unit, names(units));
  if (const std::string meant = guess(unit, units); !meant.empty()) {
    out.error.what += fmt::format("; did you mean '{}'?", meant);
  }
  return out;
}

// What is not zero lies within; below `least` it would be rounded to zero, and be none.
struct Range {
  double limit = 0, least = 0;
  std::string_view smallest = {};  // as a file would write it
};

template <typename Make>
auto convert(const Parsed& parsed, Range range, std::string_view quantity, std::string_view text, Make make)
    -> std::variant<decltype(make(0.0)), UnitError> {
  if (!parsed.ok) return parsed.error;
  if (parsed.value > range.limit)
    return UnitError{fmt::format("'{}' is too large for a {}", trim(text), quantity)};
  if (parsed.value > 0 && parsed.value < range.least)
    return UnitError{
        fmt::format("'{}' is too small for a {}: the smallest is {}", trim(text), quantity, range.smallest)};
  return make(parsed.value);
}

std::string scaled(double value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (std::fabs(value) >= unit.factor * 0.99995 && unit.factor >= best->factor) best = &unit;
  }
  const double shown = value / best->factor;
  const double magnitude = std::fabs(shown);
  if (magnitude == 0) return fmt::format("0 {}", best->name);
  const int decimals = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 2;
  std::string digits = fmt::format("{:.{}f}", shown, decimals);
  return fmt::format("{} {}", digits, best->name);
}

}  // namespace

std::variant<Time, UnitError> parse_time(std::string_view text) {
  return convert(parse(text, time_units, "time", "20 us"), {9.2e6, 0.5e-12, "1 ps"},
                 "time within a step (at most 106 days)", text, [](double s) { return Time::seconds(s); });
}

std::variant<JobTime, UnitError> parse_job_time(std::string_view text) {
  return convert(parse(text, time_units, "time", "2 h"), {9.2e9, 0.5e-9, "1 ns"},
                 "time of a job (at most 292 years)", text, [](double s) { return JobTime::seconds(s); });
}

std::variant<Bytes, UnitError> parse_bytes(std::string_view text) {
  return convert(
      parse(text, byte_units, "size", "25 MiB"), {9.2e18, 0.5, "1 B"}, "size (at most 8 EiB)", text,
      [](double b) {
        return Bytes(detail::checked_round(b, detail::BytesTag::quantity, detail::BytesTag::range));
      });
}

std::variant<Rate, UnitError> parse_rate(std::string_view text) {
  return convert(parse(text, rate_units, "rate", "25 Gbit/s"), {1e18, 0.125, "1 bit/s"}, "rate", text,
                 [](double r) { return Rate(r); });
}

std::optional<Rate> rate_named_in(std::string_view text) {
  constexpr std::string_view digits = "0123456789.", words = " \t,;()";
  for (std::size_t at = text.find_first_of(digits); at != std::string_view::npos;
       at = text.find_first_of(digits, at)) {
    const std::size_t number_end = std::min(text.find_first_not_of(digits, at), text.size());
    const std::size_t unit = std::min(text.find_first_not_of(' ', number_end), text.size());
    const std::size_t end = std::min(text.find_first_of(words, unit), text.size());
    const auto as_written = parse_rate(text.substr(at, end - at));
    if (const Rate* rate = std::get_if<Rate>(&as_written)) return *rate;
    // tc's own: no prefix is told by its case, and the second goes without saying.
    std::string of_tc(text.substr(unit, end - unit));
    for (char& c : of_tc) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const auto& [name, written] : {std::pair("bit", "bit/s"),
                                        {"kbit", "kbit/s"},
                                        {"mbit", "Mbit/s"},
                                        {"gbit", "Gbit/s"},
                                        {"tbit", "Tbit/s"}}) {
      if (of_tc != name) continue;
      const auto rate = parse_rate(fmt::format("{} {}", text.substr(at, number_end - at), written));
      if (const Rate* known = std::get_if<Rate>(&rate)) return *known;
    }
    at = number_end;
  }
  return std::nullopt;
}

std::variant<double, UnitError> parse_number(std::string_view text) {
  const std::string_view whole = trim(text);
  double number = 0;
  std::string_view digits = whole;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc() || end != digits.data() + digits.size() || !std::isfinite(number)) {
    return UnitError{fmt::format("'{}' is not a number", whole)};
  }
  return number;
}

std::string format_time(Time t) {
  return format_time(t.in_seconds());
}

std::string format_time(double seconds) {
  static constexpr std::array units{Unit{"ps", 1e-12}, Unit{"ns", 1e-9},    Unit{"us", 1e-6},
                                    Unit{"ms", 1e-3},  Unit{"s", 1.0},      Unit{"min", 120},
                                    Unit{"h", 7200},   Unit{"days", 172800}};
  static constexpr std::array shown{Unit{"min", 60}, Unit{"h", 3600}, Unit{"days", 86400}};
  if (std::fabs(seconds) >= 172800) return scaled(seconds, std::span(shown).subspan(2));
  if (std::fabs(seconds) >= 7200) return scaled(seconds, std::span(shown).subspan(1, 1));
  if (std::fabs(seconds) >= 120) return scaled(seconds, std::span(shown).subspan(0, 1));
  return scaled(seconds, std::span(units).first(5));
}

std::string format_bytes(double bytes) {
  return scaled(bytes, std::span(byte_units).first(7));
}

std::string format_bit_rate(Rate rate) {
  return scaled(rate.bytes_per_second(), std::span(rate_units).first(5));
}

std::string format_byte_rate(Rate rate) {
  return scaled(rate.bytes_per_second(), std::span(rate_units).subspan(5, 5));
}

}  // namespace foretrain
