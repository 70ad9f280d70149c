#include "sim/input/profile_entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/input/fields.hpp"
#include "sim/input/file_kind.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/input/scalars.hpp"
#include "sim/input/scenario_schema.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

// One [batch, time] or [batch, time, deviation].
std::optional<StepTimeProfile::Point> read_point(const Value& item, Diagnostics& diagnostics) {
  const bool has_shape = item.is_sequence() && (item.items.size() == 2 || item.items.size() == 3);
  if (!has_shape) {
    diagnostics.error(item.where(),
                      "steps: each entry is [batch, time] or [batch, time, deviation], as in "
                      "'[32, 71 ms]'");
    return std::nullopt;
  }
  StepTimeProfile::Point point;
  bool ok = true;
  auto refuse = [&](const Value& value, const std::string& what) {
    diagnostics.error(value.where(), "steps: " + what);
    ok = false;
  };
  const Value& batch = item.items[0];
  if (const auto number = parse_integer(batch.text); const auto* count = std::get_if<std::int64_t>(&number)) {
    point.batch = *count;
    if (*count < 1) refuse(batch, fmt::format("a batch of {} has no samples", *count));
  } else {
    refuse(batch, "the batch " + std::get<UnitError>(number).what);
  }
  auto read_time = [&](const Value& value, double& seconds) {
    if (const auto time = parse_time(value.text); const auto* read = std::get_if<Time>(&time)) {
      seconds = read->in_seconds();
    } else {
      refuse(value, std::get<UnitError>(time).what);
    }
  };
  read_time(item.items[1], point.seconds);
  if (ok && point.seconds <= 0) refuse(item.items[1], "a step takes longer than 0 s");
  if (item.items.size() == 3) read_time(item.items[2], point.spread);
  return ok ? std::optional(point) : std::nullopt;
}

std::shared_ptr<const StepTimeProfile> read_step_times(const Value& map, Diagnostics& diagnostics) {
  Diagnostics own;
  check_map(map, step_profile_schema(), own);
  const Fields fields(&map, step_profile_schema());
  auto profile = std::make_shared<StepTimeProfile>();
  if (const Value* steps = fields.find("steps"); steps != nullptr && steps->is_sequence()) {
    if (steps->items.empty()) own.error(steps->where(), "steps: the list is empty");
    for (const Value& item : steps->items) {
      const auto point = read_point(item, own);
      if (!point) continue;
      const bool is_known = std::any_of(profile->points.begin(), profile->points.end(),
                                        [&](const auto& other) { return other.batch == point->batch; });
      if (is_known) own.error(item.where(), fmt::format("steps: the batch {} is given twice", point->batch));
      profile->points.push_back(*point);
    }
  }
  std::sort(profile->points.begin(), profile->points.end(),
            [](const auto& a, const auto& b) { return a.batch < b.batch; });
  for (std::size_t i = 1; i < profile->points.size(); ++i) {
    const auto &less = profile->points[i - 1], &more = profile->points[i];
    if (more.seconds >= less.seconds) continue;
    own.warning(fields.where("steps"),
                fmt::format("steps: a batch of {} takes less time than one of {}: is that so?", more.batch,
                            less.batch));
    break;
  }
  if (const auto fraction = fields.number("backward_fraction")) {
    profile->backward_fraction = *fraction;
    profile->backward_fraction_origin = Origin::measured;
  }
  if (const auto gradients = fields.bytes("gradients")) {
    profile->gradient_bytes = static_cast<double>(gradients->count());
  }
  if (const auto launches = fields.integer("launches")) profile->launches = static_cast<double>(*launches);
  profile->source = map.where().file;
  diagnostics.merge(own);
  return own.ok() ? profile : nullptr;
}

bool is_yaml(const std::string& text) {
  return text.ends_with(".yaml") || text.ends_with(".yml");
}

// A step-time profile may be JSON as well, which is YAML too: a measured profile begins with its schema.
bool has_step_times(const std::filesystem::path& path) {
  if (std::error_code none; !std::filesystem::is_regular_file(path, none))
    return false;  // a pipe is read once
  constexpr std::size_t beginning = 4096;
  std::ifstream file(path, std::ios::binary);
  std::string text(beginning, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text.find("\"steps\"") != std::string::npos && text.find("\"schema\"") == std::string::npos;
}

ProfileChoice read_step_file(const std::filesystem::path& path, Diagnostics& diagnostics) {
  ProfileChoice choice;
  const auto root = read_document(path, diagnostics);
  if (!root || refuse_other_kind(*root, FileKind::step_times, diagnostics)) return choice;
  choice.step_times = read_step_times(*root, diagnostics);
  choice.names = {data_name(path)};
  return choice;
}

// Joined; null, and findings, where one of them cannot be read or `all` are not there.
std::shared_ptr<const Profile> read_profiles(const std::vector<std::filesystem::path>& files,
                                             const Value& entry, bool all,
                                             const std::optional<OperatorUse>& use,
                                             Diagnostics& diagnostics) {
  std::vector<std::shared_ptr<const Profile>> profiles;
  for (const std::filesystem::path& file : files) {
    if (std::optional<Profile> profile = read_profile(file, diagnostics, use))
      profiles.push_back(std::make_shared<const Profile>(std::move(*profile)));
  }
  if (!all || profiles.size() != files.size()) return nullptr;
  if (profiles.size() == 1) return profiles.front();
  try {
    return std::make_shared<const Profile>(join_profiles(profiles));
  } catch (const Error& error) {
    diagnostics.error(entry.where(), error.what());
    return nullptr;
  }
}

}  // namespace

ProfileChoice read_profile_entry(const Value& entry, const Catalog& catalog, Diagnostics& diagnostics,
                                 const std::optional<OperatorUse>& use) {
  ProfileChoice choice;
  if (entry.is_map()) {
    choice.step_times = read_step_times(entry, diagnostics);
    choice.names = {"step times"};
    return choice;
  }
  if (entry.is_scalar() && looks_like_path(entry.text)) {
    Diagnostics later;  // what cannot be resolved is said below
    const auto path = catalog.resolve(DataKind::profile, entry.text, entry.where(), later);
    if (path && (is_yaml(entry.text) || has_step_times(*path))) return read_step_file(*path, diagnostics);
    if (is_yaml(entry.text)) {
      diagnostics.merge(later);
      return choice;
    }
  }
  std::vector<const Value*> parts;
  if (entry.is_scalar()) parts.push_back(&entry);
  for (const Value& item : entry.items) parts.push_back(&item);
  if (entry.is_sequence() && entry.items.empty())
    diagnostics.error(entry.where(), "profile: the list is empty");
  std::vector<std::filesystem::path> files;
  for (const Value* part : parts) {
    if (!part->is_scalar() || is_yaml(part->text)) {
      diagnostics.error(part->where(),
                        "profile: a list holds names and files of measured profiles; a step-time "
                        "profile stands alone");
    } else if (auto path = catalog.resolve(DataKind::profile, part->text, part->where(), diagnostics)) {
      choice.names.push_back(data_name(*path));
      files.push_back(std::move(*path));
    }
  }
  const bool all = !parts.empty() && files.size() == parts.size();
  std::string key;
  for (const std::filesystem::path& file : files) key += file.string() + '\n';
  if (use) key += use->model + '\n' + name_of(use->precision);
  ProfileCache* const cache = all ? catalog.profile_cache() : nullptr;
  if (cache != nullptr) choice.profile = cache->find(key);
  if (choice.profile) return choice;
  choice.profile = read_profiles(files, entry, all, use, diagnostics);
  if (choice.profile && use && !has_times_of(*choice.profile, use->model, use->precision))
    choice.profile = read_profiles(files, entry, all, {}, diagnostics);
  if (cache != nullptr && choice.profile) cache->add(key, choice.profile);
  return choice;
}

}  // namespace foretrain
