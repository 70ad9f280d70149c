#include "sim/input/workload_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.hpp"
#include "sim/input/gunzip.hpp"
#include "sim/input/profile_json.hpp"

namespace foretrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};
constexpr OptimizerKind optimizers[] = {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw};

class Reader {
 public:
  Reader(const Json& root, const std::string& file, Diagnostics& diagnostics)
      : root_(root), file_(file), diagnostics_(diagnostics) {}

  Workload read() {
    Workload workload;
    Model& model = workload.model;
    model.name = text(root_, "", "name");
    model.unit = text(root_, "", "unit");
    workload.batch = whole(root_, "", "batch", 1);
    workload.precision = word(root_, "precision", precisions);
    model.optimizer.kind = word(root_, "optimizer", optimizers);
    Layer input;
    input.name = "input";
    model.layers.push_back(std::move(input));
    read_layers(model);
    read_parameters(model);
    if (const Json* profile = member(root_, "", "profile")) {
      if (const auto read = parse_profile(profile->dump(-1, ' ', false, Json::error_handler_t::replace),
                                          file_, diagnostics_))
        workload.profile = *read;
      check_times(workload);
    }
    return workload;
  }

 private:
  void error(const std::string& pointer, const std::string& what) {
    diagnostics_.error({file_}, pointer + ": " + what);
  }

  const Json* member(const Json& object, const std::string& at, const char* name) {
    const auto found = object.find(name);
    if (found != object.end()) return &*found;
    error(at.empty() ? "/" : at, fmt::format("'{}' is missing", name));
    return nullptr;
  }

  std::string text(const Json& object, const std::string& at, const char* name) {
    const Json* found = member(object, at, name);
    if (found == nullptr) return {};
    if (!found->is_string()) {
      error(at + '/' + name, "is no text");
      return {};
    }
    return found->get<std::string>();
  }

  std::int64_t whole(const Json& object, const std::string& at, const char* name, std::int64_t least) {
    const Json* found = member(object, at, name);
    if (found == nullptr) return least;
    constexpr std::int64_t most = std::int64_t{1} << 50;
    const bool fits =
        found->is_number_integer() &&
        !(found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(most));
    if (!fits || found->get<std::int64_t>() < least || found->get<std::int64_t>() > most) {
      error(at + '/' + name, fmt::format("is no whole number from {} on", least));
      return least;
    }
    return found->get<std::int64_t>();
  }

  template <typename Word, std::size_t count>
  Word word(const Json& object, const char* name, const Word (&words)[count]) {
    const std::string given = text(object, "", name);
    std::string allowed;
    for (const Word each : words) {
      if (given == name_of(each)) return each;
      allowed += (allowed.empty() ? "" : ", ") + std::string(name_of(each));
    }
    error(fmt::format("/{}", name), fmt::format("'{}' is unknown: allowed are {}", given, allowed));
    return words[0];
  }

  const Json* list(const char* name) {
    const Json* found = member(root_, "", name);
    if (found == nullptr) return nullptr;
    if (found->is_array()) return found;
    error(fmt::format("/{}", name), "is no list");
    return nullptr;
  }

  void read_layers(Model& model) {
    const Json* layers = list("layers");
    if (layers == nullptr) return;
    for (std::size_t i = 0; i < layers->size(); ++i) {
      if (!(*layers)[i].is_string()) return error(fmt::format("/layers/{}", i), "is no text");
      Layer layer;
      layer.name = (*layers)[i].get<std::string>();
      layer.kind = LayerKind::relu;  // of no shape and no parameters: its times are all that is known
      layer.inputs = {static_cast<int>(i)};
      model.layers.push_back(std::move(layer));
    }
  }

  void read_parameters(Model& model) {
    const Json* parameters = list("parameters");
    if (parameters == nullptr) return;
    for (std::size_t i = 0; i < parameters->size(); ++i) {
      const std::string at = fmt::format("/parameters/{}", i);
      const Json& each = (*parameters)[i];
      if (!each.is_object()) return error(at, "is no object");
      Parameter parameter;
      parameter.name = text(each, at, "name");
      parameter.elements = whole(each, at, "elements", 1);
      parameter.shape = {parameter.elements};
      const std::int64_t layer = whole(each, at, "layer", 1);
      if (layer >= static_cast<std::int64_t>(model.layers.size()))
        return error(at + "/layer", "is of no layer");
      parameter.layer = static_cast<int>(layer);
      model.layers[static_cast<std::size_t>(layer)].parameters.push_back(static_cast<int>(i));
      model.parameters.push_back(std::move(parameter));
    }
  }

  // The times must be of this model, precision, batch and layers: of others a step would be made of nothing.
  void check_times(const Workload& workload) {
    const std::vector<OperatorEntry>& entries = workload.profile.operators;
    if (entries.empty() && workload.model.layers.size() < 2) return;
    std::set<std::string> names, kinds, batches, layers;
    for (const OperatorEntry& entry : entries) {
      names.insert(entry.context);
      kinds.insert(name_of(entry.precision));
      batches.insert(std::to_string(entry.batch));
      layers.insert(entry.layer);
    }
    const auto hold = [&](const char* pointer, const std::string& own, const std::set<std::string>& known) {
      if (!known.contains(own) || known.size() > 1)
        error(pointer, fmt::format("is '{}', and the times of its profile are of '{}'", own,
                                   fmt::join(known, "', '")));
    };
    hold("/name", workload.model.name, names);
    hold("/precision", name_of(workload.precision), kinds);
    hold("/batch", std::to_string(workload.batch), batches);
    for (std::size_t l = 1; l < workload.model.layers.size(); ++l) {
      if (layers.contains(workload.model.layers[l].name)) continue;
      return error(fmt::format("/layers/{}", l - 1),
                   fmt::format("'{}' has no times in the profile", workload.model.layers[l].name));
    }
  }

  const Json& root_;
  const std::string& file_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::string workload_to_json(const Workload& workload) {
  const Model& model = workload.model;
  Json root;
  root["schema"] = Workload::schema;
  root["name"] = model.name;
  root["unit"] = model.unit;
  root["precision"] = name_of(workload.precision);
  root["batch"] = workload.batch;
  root["optimizer"] = name_of(model.optimizer.kind);
  Json layers = Json::array(), parameters = Json::array();
  for (std::size_t l = 1; l < model.layers.size(); ++l) layers.push_back(model.layers[l].name);
  for (const Parameter& each : model.parameters)
    parameters.push_back({{"name", each.name}, {"elements", each.elements}, {"layer", each.layer}});
  root["layers"] = std::move(layers);
  root["parameters"] = std::move(parameters);
  std::string text = root.dump(1, ' ', false, Json::error_handler_t::replace);
  text.erase(text.find_last_of('}'));
  while (text.back() == '\n') text.pop_back();
  return text + ",\n \"profile\": " + profile_to_json(workload.profile) + "}\n";
}

std::optional<Workload> parse_workload(std::string_view json, const std::string& file,
                                       Diagnostics& diagnostics) {
  const Json root = Json::parse(json, nullptr, false);
  if (!root.is_object()) {
    diagnostics.error({file}, "is no JSON object: import kineto writes a workload");
    return std::nullopt;
  }
  const auto schema = root.find("schema");
  if (schema == root.end() || *schema != Workload::schema) {
    diagnostics.error({file}, fmt::format("is no workload: its \"schema\" is not \"{}\"", Workload::schema));
    return std::nullopt;
  }
  Diagnostics own;
  Workload workload = Reader(root, file, own).read();
  diagnostics.merge(own);
  if (!own.ok()) return std::nullopt;
  return workload;
}

std::optional<Workload> read_workload(const std::filesystem::path& path, Diagnostics& diagnostics) {
  try {
    return parse_workload(read_possibly_compressed(path), path.string(), diagnostics);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    diagnostics.add(error);
    return std::nullopt;
  }
}

}  // namespace foretrain
