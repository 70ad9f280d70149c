// Values that are computed once for what several scenarios have in common, as the points of a grid do.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace foretrain {

// Whether two point to one object, living or not.
template <typename T>
bool is_same_object(const std::weak_ptr<const T>& a, const std::weak_ptr<const T>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

// Keeps the values of the last `most` keys; safe from several threads. Key has operator== and expired(): of
// what refers to objects that are gone, which is dropped.
template <typename Key, typename Value>
class KeptValues {
 public:
  explicit KeptValues(std::size_t most) : most_(most) {}

  // That of the key, by make() where it is not known; two threads that ask at one time may both make it.
  template <typename Make>
  std::shared_ptr<const Value> get(const Key& key, Make make) {
    // What nothing owns may be another object at the next call.
    if (key.expired()) return std::make_shared<const Value>(make());
    if (auto known = find(key)) return known;
    auto made = std::make_shared<const Value>(make());
    const std::scoped_lock lock(mutex_);
    std::erase_if(kept_, [](const auto& each) { return each.first.expired(); });
    if (kept_.size() >= most_) kept_.erase(kept_.begin());
    kept_.emplace_back(key, made);
    return made;
  }

 private:
  std::shared_ptr<const Value> find(const Key& key) const {
    const std::scoped_lock lock(mutex_);
    // What was asked last is asked again soonest.
    const auto found =
        std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& each) { return each.first == key; });
    return found == kept_.rend() ? nullptr : found->second;
  }

  std::size_t most_;
  mutable std::mutex mutex_;
  std::vector<std::pair<Key, std::shared_ptr<const Value>>> kept_;
};

}  // namespace foretrain
