#include "sim/input/profile_join.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

auto key_of(const OperatorEntry& e) {
  return std::tuple(e.key, e.layer, e.context, e.precision, e.batch, e.sequence);
}
auto key_of(const StepEntry& e) {
  return std::tuple(e.model, e.precision, e.batch, e.sequence);
}
auto key_of(const OptimizerEntry& e) {
  return std::tuple(e.kind, e.model, e.precision, e.parameters);
}
auto key_of(const StepWorkEntry& e) {
  return std::tuple(e.what, e.model, e.precision, e.batch, e.sequence);
}
auto key_of(const CollectiveEntry& e) {
  return std::tuple(e.kind, e.ranks, e.nodes, e.network, e.algorithm, e.protocol, e.element, e.bytes);
}
auto key_of(const InterferenceEntry& e) {
  return std::tuple(e.model, e.precision, e.batch, e.sequence, e.ranks, e.nodes, e.network, e.bytes);
}
auto key_of(const OverlapEntry& e) {
  return std::tuple(e.model, e.precision, e.batch, e.sequence, e.ranks);
}
auto key_of(const CopyEntry& e) {
  return std::tuple(e.direction, e.bytes, e.pinned);
}
auto key_of(const NoiseEntry& e) {
  return std::tuple(e.what, e.model, e.precision, e.batch, e.sequence);
}

template <typename Entry>
void merge(std::vector<Entry>& into, std::vector<Entry> more) {
  std::map<decltype(key_of(std::declval<Entry>())), std::size_t> places;
  for (std::size_t i = 0; i < into.size(); ++i) places[key_of(into[i])] = i;
  for (Entry& entry : more) {
    const auto [place, is_new] = places.try_emplace(key_of(entry), into.size());
    if (is_new) {
      into.push_back(std::move(entry));
    } else {
      into[place->second] = std::move(entry);
    }
  }
}

template <typename Entry>
void append(std::vector<Entry>& into, std::vector<Entry> more) {
  for (Entry& entry : more) into.push_back(std::move(entry));
}

std::string shown(const Profile& profile) {
  const std::string device = device_of(profile);
  return fmt::format("'{}' ({})", profile.name, device.empty() ? "no run" : device);
}

}  // namespace

const std::string& device_of(const Machine& machine) {
  return machine.gpu.empty() ? machine.processor : machine.gpu;
}

std::string device_of(const Profile& profile) {
  for (const CalibrationRun& run : profile.runs) {
    if (!run.machine.gpu.empty()) return run.machine.gpu;
  }
  return profile.runs.empty() ? std::string() : device_of(profile.runs.front().machine);
}

bool is_collectives_only(const Profile& profile) {
  return profile.operators.empty() && profile.steps.empty() && profile.optimizers.empty() &&
         profile.step_work.empty() && profile.interference.empty() && !profile.collectives.empty();
}

void merge_profile(Profile& into, Profile more) {
  const std::string device = device_of(into), other = device_of(more);
  if (!device.empty() && !other.empty() && (device != other || into.device != more.device)) {
    throw Error(ErrorKind::input, fmt::format("profile {} cannot be extended by {}: a profile holds one GPU "
                                              "type; write the other to a file of its own",
                                              shown(into), shown(more)));
  }
  if (into.name.empty()) into.name = more.name;
  if (into.device.empty()) into.device = more.device;
  append(into.runs, std::move(more.runs));
  append(into.launches, std::move(more.launches));
  merge(into.operators, std::move(more.operators));
  merge(into.steps, std::move(more.steps));
  merge(into.optimizers, std::move(more.optimizers));
  merge(into.step_work, std::move(more.step_work));
  merge(into.collectives, std::move(more.collectives));
  merge(into.interference, std::move(more.interference));
  merge(into.overlaps, std::move(more.overlaps));
  merge(into.copies, std::move(more.copies));
  merge(into.noise, std::move(more.noise));
}

Profile join_profiles(const std::vector<std::shared_ptr<const Profile>>& profiles) {
  if (profiles.empty()) throw Error(ErrorKind::input, "no profile is given");
  // The GPU type is that of the first profile that holds more than collectives.
  const Profile* base = profiles.front().get();
  for (const auto& profile : profiles) {
    if (!is_collectives_only(*profile)) {
      base = profile.get();
      break;
    }
  }
  Profile joined;
  joined.device = base->device;
  for (const auto& profile : profiles) {
    if (!joined.name.empty()) joined.name += " + ";
    joined.name += profile->name;
    const bool same = device_of(*profile) == device_of(*base) && profile->device == base->device;
    if (!same && !is_collectives_only(*profile)) {
      throw Error(ErrorKind::input, fmt::format("profiles {} and {} cannot be joined: GPU types do not mix, "
                                                "except for profiles of collectives alone",
                                                shown(*base), shown(*profile)));
    }
    Profile part = *profile;
    for (CollectiveEntry& entry : part.collectives) entry.source = profile->name;
    if (same) {
      const std::string name = joined.name;
      merge_profile(joined, std::move(part));
      joined.name = name;
    } else {
      merge(joined.collectives, std::move(part.collectives));
    }
  }
  return joined;
}

}  // namespace foretrain
