// Keys that a command line sets in place of a scenario's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"

namespace foretrain {

// "PATH=VALUE", and the option that has it, by which findings call it.
struct Override {
  Override(const char* path_and_value) : text(path_and_value) {}
  Override(std::string path_and_value, const char* of = "--set")
      : text(std::move(path_and_value)), option(of) {}

  std::string text;
  const char* option = "--set";

  // As it stands on the command line.
  std::string written() const;
};
using Overrides = std::vector<Override>;

// One after the other. Of keys that exclude each other (batch.per_worker and batch.global,
// those of different fusions) a new one takes the place of the scenario's; where it would undo another
// override it is an error, since a row of a sweep would be called by a value that it does not have.
void apply_overrides(Value& root, const Overrides& overrides, Diagnostics& diagnostics);

}  // namespace foretrain
