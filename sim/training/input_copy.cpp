#include "sim/training/input_copy.hpp"

#include <cmath>

#include "sim/training/batch_curve.hpp"

namespace foretrain {

std::optional<double> host_to_device(const Profile& profile, double bytes) {
  std::map<std::int64_t, double> points;
  for (const CopyEntry& entry : profile.copies) {
    if (entry.direction == "host_to_device" && entry.pinned) points[entry.bytes] = entry.time.median;
  }
  if (points.empty()) return std::nullopt;
  return at_batch(points, std::llround(bytes)).value;
}

double batch_bytes(const Model& model, std::int64_t batch) {
  constexpr double word = 4;  // of an fp32 value, a token or a label
  return static_cast<double>(batch) * word *
         static_cast<double>(element_count(model.input) + model.targets());
}

void add_input_copy(StepGraph& graph, Time device, Time host, bool beside) {
  Operation copy;
  copy.name = "input_copy";
  copy.phase = Phase::input;
  copy.stream = beside ? StreamId::copy : StreamId::compute;
  copy.device = device;
  copy.host = host;
  for (RankProgram& program : graph.programs) {
    auto& operations = program.operations;
    for (Operation& operation : operations) {
      for (int& before : operation.after) ++before;
    }
    operations.insert(operations.begin(), copy);
    if (!beside) continue;
    for (std::size_t i = operations.size(); i-- > 1;) {
      if (operations[i].stream != StreamId::compute) continue;
      operations[i].after.push_back(0);
      break;
    }
  }
}

}  // namespace foretrain
