// Predicts the scenario held in a run record again, with today's simulator.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "execute/validation.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// The named model on one node of so many GPUs, with all else at its default; precision, batch and profile are
// for the caller to set. Throws Error (input) where the model is not known.
Scenario scenario_of_model(const Catalog& catalog, const std::string& model, int gpus,
                           std::int64_t sequence = 0);

class Repredictor {
 public:
  // `records`: all that are validated together, from which those without a scenario are predicted; they
  // outlive this. `profile`: a name or path in place of every record's own; empty: the record's.
  Repredictor(Catalog catalog, std::span<const FiledRecord> records, std::string profile)
      : catalog_(std::move(catalog)), records_(records), profile_(std::move(profile)) {}

  // The record's profile is looked for by its digest beside the record and in profiles/ there and in the two
  // folders above, then as the scenario names it. Throws nothing that concerns the record alone: what hinders
  // a prediction is Reprediction::problem.
  Reprediction operator()(const FiledRecord& filed);

 private:
  std::optional<Scenario> scenario_of(const FiledRecord& filed, std::string& problem);
  // Of a record whose scenario cannot be read any more for want of its profile; empty where not even so.
  std::string kind_without_profile(const FiledRecord& filed);
  std::string profile_by_digest(const std::filesystem::path& record, const std::string& digest);
  const std::map<std::string, std::string>& profiles_in(const std::filesystem::path& folder);

  Catalog catalog_;
  std::span<const FiledRecord> records_;
  std::string profile_;
  std::map<std::filesystem::path, std::map<std::string, std::string>> profiles_;  // by folder: digest to path
};

}  // namespace foretrain
