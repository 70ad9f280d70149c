// Models that are mere lists of parameters: no layers, enough for gradient buckets beside a step-time
// profile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/training/model.hpp"

namespace foretrain {

struct ParameterDescription {
  std::string name;
  Shape shape;
  SourceLocation where;
};
// Parameters in registration order. Throws Error with every finding.
Model list_of_parameters(const std::string& name, const std::vector<ParameterDescription>& parameters);

// As above from a mere count: equal tensors of 1 MiB in fp32 (262,144 elements; larger ones from 2^30
// parameters on) and a rest, since where the real ones begin and end is not known.
Model list_of_parameters(const std::string& name, std::int64_t count, const SourceLocation& where = {});

}  // namespace foretrain
