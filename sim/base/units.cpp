#include "sim/base/units.hpp"

#include <string>

#include "sim/base/error.hpp"

namespace foretrain {

void detail::throw_overflow(const char* quantity, const char* range) {
  throw Error(ErrorKind::input, std::string("a ") + quantity + " leaves the range of " + range +
                                    ": check the units of sizes, rates and times in the input");
}

Time operator/(Bytes size, Rate rate) {
  if (size.count() == 0) return Time();
  if (!(rate.bytes_per_second() > 0)) {
    throw Error(ErrorKind::failure, "bytes over a rate of zero: give every link a bandwidth above zero");
  }
  return Time::seconds(static_cast<double>(size.count()) / rate.bytes_per_second());
}

}  // namespace foretrain
