// What comes again during a job: evaluations, checkpoints, logging.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/job/schedule.hpp"

namespace foretrain {

// Something that comes again after so many epochs, updates or seconds.
class Trigger {
 public:
  Trigger(const Interval& every, double samples_per_epoch) : every_(every) {
    step_ = every.unit == Interval::Unit::epochs ? every.amount * samples_per_epoch : every.amount;
    next_ = step_;
  }
  // Updates of `run` until it is due, at least one.
  std::int64_t distance(const ScheduleCursor& cursor, const UpdateRun& run, double now, double step) const {
    if (step_ <= 0) return std::numeric_limits<std::int64_t>::max();
    const double left = next_ - place(cursor, now);
    const double each = every_.unit == Interval::Unit::epochs    ? static_cast<double>(run.batch)
                        : every_.unit == Interval::Unit::updates ? 1
                                                                 : step;
    if (each <= 0 || left / each > 9e15) return std::numeric_limits<std::int64_t>::max();
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(left / each - 1e-9)));
  }
  // Epochs of so many updates and seconds until it is due or just before.
  double epochs(const ScheduleCursor& cursor, double updates, double samples, double seconds,
                double now) const {
    if (step_ <= 0) return std::numeric_limits<double>::infinity();
    const double left = next_ - place(cursor, now);
    if (every_.unit == Interval::Unit::time) return left / seconds;
    constexpr double rounding = 1e-9;
    return left / (every_.unit == Interval::Unit::epochs ? samples : updates) + rounding;
  }
  // Whether it is due; then it is set to the next time.
  bool take(const ScheduleCursor& cursor, double now) {
    const double here = place(cursor, now);
    if (step_ <= 0 || here < next_ * (1 - 1e-12)) return false;
    next_ = (std::floor(here / step_ * (1 + 1e-12)) + 1) * step_;
    return true;
  }

 private:
  double place(const ScheduleCursor& cursor, double now) const {
    return every_.unit == Interval::Unit::epochs    ? cursor.position()
           : every_.unit == Interval::Unit::updates ? static_cast<double>(cursor.updates())
                                                    : now;
  }

  Interval every_;
  double step_ = 0, next_ = 0;
};

}  // namespace foretrain
