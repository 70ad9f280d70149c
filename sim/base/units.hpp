// Strong types for the quantities of a training step. Arithmetic that leaves a type's range is an error,
// never a wrap.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace foretrain {

namespace detail {
[[noreturn]] void throw_overflow(const char* quantity, const char* range);

inline std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* quantity, const char* range) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_overflow(quantity, range);
  return sum;
}
inline std::int64_t checked_subtract(std::int64_t a, std::int64_t b, const char* quantity,
                                     const char* range) {
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) throw_overflow(quantity, range);
  return difference;
}
// Nearest integer; an error where it does not fit or is not a number.
inline std::int64_t checked_round(double value, const char* quantity, const char* range) {
  if (!(value > -9.2233720368547e18 && value < 9.2233720368547e18)) throw_overflow(quantity, range);
  return std::llround(value);
}

// A count of a unit in 64 bits with checked arithmetic; Tag names the quantity and its range.
template <typename Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t count) : count_(count) {}

  constexpr std::int64_t count() const { return count_; }
  constexpr auto operator<=>(const Quantity&) const = default;

  friend Quantity operator+(Quantity a, Quantity b) {
    return Quantity(checked_add(a.count_, b.count_, Tag::quantity, Tag::range));
  }
  friend Quantity operator-(Quantity a, Quantity b) {
    return Quantity(checked_subtract(a.count_, b.count_, Tag::quantity, Tag::range));
  }
  Quantity& operator+=(Quantity b) { return *this = *this + b; }
  Quantity& operator-=(Quantity b) { return *this = *this - b; }
  // Rounds to the nearest count.
  friend Quantity operator*(Quantity a, double factor) {
    return Quantity(checked_round(static_cast<double>(a.count_) * factor, Tag::quantity, Tag::range));
  }
  friend Quantity operator*(double factor, Quantity a) { return a * factor; }
  friend double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.count_) / static_cast<double>(b.count_);
  }

 private:
  std::int64_t count_ = 0;
};

struct TimeTag {
  static constexpr const char* quantity = "time within a step";
  static constexpr const char* range = "106 days";
};
struct JobTimeTag {
  static constexpr const char* quantity = "time of a job";
  static constexpr const char* range = "292 years";
};
struct BytesTag {
  static constexpr const char* quantity = "size";
  static constexpr const char* range = "8 EiB";
};
}  // namespace detail

// Time inside a step: picoseconds, up to 106 days.
class Time : public detail::Quantity<detail::TimeTag> {
 public:
  using Quantity::Quantity;
  constexpr Time() = default;
  constexpr Time(Quantity q) : Quantity(q) {}  // NOLINT: results of the arithmetic above are times

  static constexpr Time picoseconds(std::int64_t count) { return Time(count); }
  static Time seconds(double s) {
    return Time(detail::checked_round(s * 1e12, detail::TimeTag::quantity, detail::TimeTag::range));
  }
  static Time microseconds(double us) { return seconds(us * 1e-6); }
  static constexpr Time max() { return Time(std::numeric_limits<std::int64_t>::max()); }

  constexpr double in_seconds() const { return static_cast<double>(count()) * 1e-12; }
};

// Time on a job's timeline: nanoseconds, up to 292 years.
class JobTime : public detail::Quantity<detail::JobTimeTag> {
 public:
  using Quantity::Quantity;
  constexpr JobTime() = default;
  constexpr JobTime(Quantity q) : Quantity(q) {}  // NOLINT: as above

  static JobTime seconds(double s) {
    return JobTime(detail::checked_round(s * 1e9, detail::JobTimeTag::quantity, detail::JobTimeTag::range));
  }
  static JobTime from(Time t) { return JobTime((t.count() + 500) / 1000); }
  constexpr double in_seconds() const { return static_cast<double>(count()) * 1e-9; }
};

class Bytes : public detail::Quantity<detail::BytesTag> {
 public:
  using Quantity::Quantity;
  constexpr Bytes() = default;
  constexpr Bytes(Quantity q) : Quantity(q) {}  // NOLINT: as above
};

// Bytes per second.
class Rate {
 public:
  constexpr Rate() = default;
  constexpr explicit Rate(double bytes_per_second) : value_(bytes_per_second) {}
  static constexpr Rate bits_per_second(double b) { return Rate(b / 8); }

  constexpr double bytes_per_second() const { return value_; }
  constexpr double in_bits_per_second() const { return value_ * 8; }
  constexpr auto operator<=>(const Rate&) const = default;
  friend constexpr Rate operator*(Rate a, double factor) { return Rate(a.value_ * factor); }
  friend constexpr Rate operator*(double factor, Rate a) { return a * factor; }
  friend constexpr double operator/(Rate a, Rate b) { return a.value_ / b.value_; }

 private:
  double value_ = 0;
};

// Bytes over a rate: the time on the wire. A rate of zero is an error.
Time operator/(Bytes size, Rate rate);

// Floating-point operations (a multiply and an add are two).
class Flops {
 public:
  constexpr Flops() = default;
  constexpr explicit Flops(double count) : count_(count) {}
  constexpr double count() const { return count_; }
  constexpr auto operator<=>(const Flops&) const = default;
  friend constexpr Flops operator+(Flops a, Flops b) { return Flops(a.count_ + b.count_); }
  friend constexpr Flops operator*(Flops a, double factor) { return Flops(a.count_ * factor); }

 private:
  double count_ = 0;
};

}  // namespace foretrain
