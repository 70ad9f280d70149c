#include "sim/base/kept_values.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

struct Key {
  std::weak_ptr<const int> object;
  int number = 0;
  bool expired() const { return object.expired(); }
  bool operator==(const Key& other) const {
    return number == other.number && is_same_object(object, other.object);
  }
};

}  // namespace

TEST_CASE(
    "a value is made once for an object, and made anew for another at the same address or of equal value") {
  KeptValues<Key, int> kept(2);
  int made = 0;
  const auto make = [&] { return ++made; };
  auto a = std::make_shared<const int>(1);
  const auto b = std::make_shared<const int>(1);
  CHECK(*kept.get({a, 0}, make) == 1);
  CHECK(*kept.get({a, 0}, make) == 1);
  CHECK(*kept.get({b, 0}, make) == 2);
  CHECK(*kept.get({a, 0}, make) == 1);
  const std::shared_ptr<const int> outlives = kept.get({b, 0}, make);
  CHECK(*kept.get({b, 1}, make) == 3);  // the third: the first goes
  CHECK(*kept.get({a, 0}, make) == 4);
  CHECK(*outlives == 2);
  a.reset();
  CHECK(*kept.get({b, 2}, make) == 5);  // what is gone is dropped, so that there is room
  CHECK(*kept.get({b, 1}, make) == 3);
  CHECK_THROWS_AS(kept.get({b, 3}, []() -> int { throw 1; }), int);
}
