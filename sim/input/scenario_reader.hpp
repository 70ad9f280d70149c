// A scenario file -> Scenario: names resolved, values checked, defaults filled in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/catalog.hpp"
#include "sim/input/diagnostics.hpp"
#include "sim/input/overrides.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// `overrides` are texts PATH=VALUE as --set takes them: they are put into the document before it is checked,
// in order, and findings about them name them. (--profile X is "profile=X".)
//
// Throws Error(input) with all findings. Hints go to Scenario::warnings.
Scenario read_scenario(const std::filesystem::path& file, const Catalog& catalog,
                       const Overrides& overrides = {});

// The same from text (`file` is what messages show; paths in it resolve beside it where it exists, else in
// the working folder). None where there was an error.
std::optional<Scenario> parse_scenario(std::string_view text, const std::string& file, const Catalog& catalog,
                                       const Overrides& overrides, Diagnostics& diagnostics);

}  // namespace foretrain
