// Quantities as people write them: "25 Gbit/s", "3 GB/s", "25 MiB", "20 us", "1.5 h".
// Decimal prefixes are powers of 1,000 (kB, MB, GB, TB), binary ones of 1,024 (KiB, MiB, GiB, TiB); bits and
// bytes differ.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "sim/base/units.hpp"

namespace foretrain {

// Why a text is no quantity of the kind asked for: a sentence with what is allowed and, where we can guess, a
// hint.
struct UnitError {
  std::string what;
};

std::variant<Time, UnitError> parse_time(std::string_view text);
std::variant<JobTime, UnitError> parse_job_time(std::string_view text);
std::variant<Bytes, UnitError> parse_bytes(std::string_view text);
std::variant<Rate, UnitError> parse_rate(std::string_view text);

// The first rate that a text names among other words: "ethernet 10 Gbit/s tcp", "ethernet 10gbit tcp" (as
// Linux's tc writes rates).
std::optional<Rate> rate_named_in(std::string_view text);

// A plain finite decimal number ("1e3", "0.9", "1281167"); no hexadecimal, no "inf", no trailing text.
std::variant<double, UnitError> parse_number(std::string_view text);

// As a person reads them: three to four significant digits and the unit that fits ("24.6 ms", "1.25 GB/s",
// "25 MiB").
std::string format_time(Time t);
std::string format_time(double seconds);
std::string format_bytes(double bytes);   // decimal: "102 MB"
std::string format_bit_rate(Rate rate);   // "25 Gbit/s"
std::string format_byte_rate(Rate rate);  // "3.13 GB/s"

}  // namespace foretrain
