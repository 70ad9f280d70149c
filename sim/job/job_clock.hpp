// Time on a job's timeline to the picosecond: a sum of a hundred million steps is off by nothing.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"

namespace foretrain {

// Nanoseconds and the picoseconds beyond, 0 to 999.
class Elapsed {
 public:
  constexpr Elapsed() = default;
  static Elapsed seconds(double s) {
    Elapsed out;
    const JobTime whole = JobTime::seconds(std::floor(s));
    out.nanoseconds_ = whole;
    out.add(Time::seconds(s - std::floor(s)), 1);
    return out;
  }

  // `count` times `time`, exactly. Throws Error (failure) above 292 years.
  void add(Time time, std::int64_t count) {
    const std::int64_t ps = picoseconds_ + times(time.count() % 1000, count);
    const std::int64_t ns = times(time.count() / 1000, count);
    nanoseconds_ += JobTime(ns) + JobTime(ps / 1000);
    picoseconds_ = ps % 1000;
  }
  void add(const Elapsed& other) {
    nanoseconds_ += other.nanoseconds_;
    picoseconds_ += other.picoseconds_;
    if (picoseconds_ >= 1000) {
      picoseconds_ -= 1000;
      nanoseconds_ += JobTime(1);
    }
  }
  Elapsed operator+(const Elapsed& other) const {
    Elapsed out = *this;
    out.add(other);
    return out;
  }
  // Not below zero.
  Elapsed operator-(const Elapsed& other) const {
    Elapsed out = *this;
    out.nanoseconds_ -= other.nanoseconds_;
    out.picoseconds_ -= other.picoseconds_;
    if (out.picoseconds_ < 0) {
      out.picoseconds_ += 1000;
      out.nanoseconds_ -= JobTime(1);
    }
    return out;
  }
  constexpr auto operator<=>(const Elapsed&) const = default;

  JobTime instant() const { return nanoseconds_; }
  double in_seconds() const { return nanoseconds_.in_seconds() + static_cast<double>(picoseconds_) * 1e-12; }

 private:
  static std::int64_t times(std::int64_t part, std::int64_t count) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(part, count, &product)) detail::throw_overflow("time of a job", "292 years");
    return product;
  }

  JobTime nanoseconds_;
  std::int64_t picoseconds_ = 0;
};

}  // namespace foretrain
