// What stands under a scenario's `profile:` -> the joined Profile, or a step-time profile.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/input/catalog.hpp"
#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// One of the two is set, none where an error was found.
struct ProfileChoice {
  std::shared_ptr<const Profile> profile;
  std::shared_ptr<const StepTimeProfile> step_times;
  std::vector<std::string> names;
};

// Profiles as they were read and joined, by their files and their use, and the models that stand beside them,
// by their file and length of sequence. Safe from several threads.
class ProfileCache {
 public:
  std::shared_ptr<const Profile> find(const std::string& key) const {
    const std::scoped_lock lock(mutex_);
    const auto found = profiles_.find(key);
    return found == profiles_.end() ? nullptr : found->second;
  }
  void add(const std::string& key, std::shared_ptr<const Profile> profile) {
    const std::scoped_lock lock(mutex_);
    profiles_.emplace(key, std::move(profile));
  }
  using ModelKey = std::pair<std::string, std::optional<std::int64_t>>;
  std::shared_ptr<const Model> find_model(const ModelKey& key) const {
    const std::scoped_lock lock(mutex_);
    const auto found = models_.find(key);
    return found == models_.end() ? nullptr : found->second;
  }
  // The one that is kept: of two threads that read a model at once, that of the first.
  std::shared_ptr<const Model> add_model(const ModelKey& key, std::shared_ptr<const Model> model) {
    const std::scoped_lock lock(mutex_);
    return models_.emplace(key, std::move(model)).first->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Profile>> profiles_;
  std::map<ModelKey, std::shared_ptr<const Model>> models_;
};

// A name or a file (JSON: a profile; YAML: a step-time profile), a list of names and files, or a map with
// `steps`. Without a use, or where nothing was timed for it, all operators are there.
ProfileChoice read_profile_entry(const Value& entry, const Catalog& catalog, Diagnostics& diagnostics,
                                 const std::optional<OperatorUse>& use = {});

}  // namespace foretrain
