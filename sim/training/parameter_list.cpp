#include "sim/training/parameter_list.hpp"

#include <algorithm>
#include <set>

#include "sim/training/model_builder.hpp"

namespace foretrain {

Model list_of_parameters(const std::string& name, const std::vector<ParameterDescription>& parameters) {
  Model model;
  model.name = name;
  std::vector<Diagnostic> findings;
  std::set<std::string> names;
  if (parameters.empty()) findings.push_back({{}, "a list of parameters names at least one"});
  for (const ParameterDescription& given : parameters) {
    Parameter parameter{given.name, given.shape, 1, -1};
    if (!names.insert(given.name).second)
      findings.push_back({given.where, "there are two parameters named '" + given.name + "'"});
    bool fits = !given.shape.empty();
    for (const std::int64_t extent : given.shape)
      fits = fits && extent > 0 && !__builtin_mul_overflow(parameter.elements, extent, &parameter.elements) &&
             parameter.elements <= ModelBuilder::max_elements;
    if (!fits)
      findings.push_back({given.where, "parameter '" + given.name +
                                           "' needs a shape of positive extents, at most 2^40 elements"});
    model.parameters.push_back(std::move(parameter));
  }
  if (!findings.empty()) throw Error(findings);
  return model;
}

Model list_of_parameters(const std::string& name, std::int64_t count, const SourceLocation& where) {
  constexpr std::int64_t limit = std::int64_t{1} << 50;
  constexpr std::int64_t max_tensors = 4096;
  if (count < 1 || count > limit)
    throw Error({{where, "the number of parameters lies between 1 and 2^50, not " + std::to_string(count)}});
  const std::int64_t size = std::max<std::int64_t>(262'144, (count + max_tensors - 1) / max_tensors);
  Model model;
  model.name = name;
  for (std::int64_t done = 0; done < count; done += size) {
    const std::int64_t elements = std::min(size, count - done);
    model.parameters.push_back({"part." + std::to_string(done / size), {elements}, elements, -1});
  }
  return model;
}

}  // namespace foretrain
