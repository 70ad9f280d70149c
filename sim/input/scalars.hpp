// Scalars that are no quantities with a unit of sim/base/parse_units: whole numbers, booleans, epochs,
// prices. Strict: "010", "yes", "1_000" and "0x10" are errors that say what to write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "sim/base/parse_units.hpp"
#include "sim/input/job.hpp"

namespace foretrain {

std::variant<std::int64_t, UnitError> parse_integer(std::string_view text);
std::variant<bool, UnitError> parse_boolean(std::string_view text);
// A number without leading zeros, else as parse_number.
std::variant<double, UnitError> parse_plain_number(std::string_view text);
// "1 epoch", "500 updates" (or steps), "10 min"; a bare number is an error.
std::variant<Interval, UnitError> parse_interval(std::string_view text);
// "700 W", "0.7 kW": watts.
std::variant<double, UnitError> parse_power(std::string_view text);
// "50 gpu-hours"
std::variant<double, UnitError> parse_gpu_hours(std::string_view text);

// "2.50 USD/gpu-hour"
std::variant<Price, UnitError> parse_price(std::string_view text);

// The quantity as somebody may have meant it: the same number with bits for bytes (or bytes for bits), or
// with the prefix a thousand away, where that lies within the bounds. Empty where neither does. `text` is a
// time, a size or a rate with its unit, the bounds are in seconds, bytes or bytes per second.
std::string meant_quantity(std::string_view text, double low, double high);

}  // namespace foretrain
