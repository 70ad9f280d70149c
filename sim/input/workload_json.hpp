// One job as a trace shows it: a model that is a list of what was launched, and its times at one batch.
// Stands in a scenario in place of model, profile, precision and batch. JSON, schema "foretrain/workload/1".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sim/input/diagnostics.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

struct Workload {
  static constexpr const char* schema = "foretrain/workload/1";
  // Layers without shapes: one for each operator launched in the forward pass, then one for each node of the
  // backward graph in reverse, which owns the parameters whose gradients it completes.
  Model model;
  Profile profile;  // entries of this model at this batch alone; collectives where the trace had some
  Precision precision = Precision::fp32;
  std::int64_t batch = 1;
};

std::string workload_to_json(const Workload& workload);
// Strict; none where there was an error.
std::optional<Workload> parse_workload(std::string_view json, const std::string& file,
                                       Diagnostics& diagnostics);
std::optional<Workload> read_workload(const std::filesystem::path& path, Diagnostics& diagnostics);

}  // namespace foretrain
