#include "device/cpu/lowering.hpp"

#include <algorithm>

namespace foretrain::device::cpu {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

class Planner {
 public:
  Planner(const Model& model, const std::vector<int>& relus, const std::vector<bool>& views,
          const std::function<bool(int, int)>& same_layout)
      : model_(model), relus_(relus), same_layout_(same_layout), wants_(wants_gradient(model)) {
    const std::size_t count = model.layers.size();
    plan_.tensor.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_fused = i > 0 && relus_[at(source(static_cast<int>(i)))] == static_cast<int>(i);
      plan_.tensor[i] = static_cast<int>(i);
      if (i > 0 && (is_fused || views[i])) plan_.tensor[i] = plan_.tensor[at(source(static_cast<int>(i)))];
      plan_.adds.emplace_back(model.layers[i].inputs.size(), false);
    }
    plan_.group = plan_.tensor;
    plan_.first_writer.assign(count, -1);
    plan_.last_reader.assign(count, -1);
    writers_.resize(count);
    for (std::size_t i = 1; i < count; ++i) {
      const int layer = static_cast<int>(i);
      // A relu that is fused masks its gradient where it lies, unless a batch norm's primitive does it.
      if (plan_.tensor[i] != layer && !views[i]) {
        if (model.layers[at(source(layer))].kind != LayerKind::batch_norm) writes(plan_.tensor[i], layer);
      } else if (!views[i]) {
        for (const int input : model.layers[i].inputs) writes(plan_.tensor[at(input)], layer);
      }
    }
  }

  GradientPlan plan() {
    const int count = static_cast<int>(model_.layers.size());
    std::vector<bool> written(at(count), false);
    for (int layer = count - 1; layer > 0; --layer) {
      const Layer& what = model_.layers[at(layer)];
      if (plan_.tensor[at(layer)] != layer) continue;  // fused, or a view
      for (std::size_t i = 0; i < what.inputs.size(); ++i) {
        const int tensor = plan_.tensor[at(what.inputs[i])];
        if (!wants_[at(tensor)]) continue;
        plan_.adds[at(layer)][i] = written[at(tensor)];
        if (!written[at(tensor)] && what.kind == LayerKind::add && may_share(layer, i)) join(tensor, layer);
        int& first = plan_.first_writer[at(plan_.group[at(tensor)])];
        first = std::max(first, layer);
        written[at(tensor)] = true;
      }
    }
    for (int layer = 1; layer < count; ++layer) {
      if (plan_.tensor[at(layer)] != layer) continue;
      int& last = plan_.last_reader[at(plan_.group[at(layer)])];
      last = last < 0 ? layer : std::min(last, layer);
    }
    return plan_;
  }

 private:
  int source(int layer) const { return model_.layers[at(layer)].inputs[0]; }

  void writes(int tensor, int layer) { writers_[at(tensor)].push_back(layer); }

  // The passes that will still write a tensor's gradient after that of `layer`.
  std::vector<int> writers_after(int tensor, int layer) const {
    std::vector<int> later;
    for (const int writer : writers_[at(tensor)])
      if (writer < layer) later.push_back(writer);
    return later;
  }

  // Whether the sum's gradient may be that of its i-th term as well. Whoever adds to a term's gradient, or
  // masks it, does so in the memory of all members of the group: all others must have been read by then,
  // which they are by the backward pass of the layer that makes them.
  bool may_share(int sum, std::size_t i) const {
    const std::vector<int>& inputs = model_.layers[at(sum)].inputs;
    const int tensor = plan_.tensor[at(inputs[i])];
    for (std::size_t j = 0; j < inputs.size(); ++j)
      if (j != i && plan_.tensor[at(inputs[j])] == tensor) return false;
    if (!same_layout_(tensor, sum)) return false;
    const int group = plan_.group[at(sum)];
    const std::vector<int> own = writers_after(tensor, sum);
    for (std::size_t member = 1; member < plan_.group.size(); ++member) {
      const int other = static_cast<int>(member);
      if (plan_.group[member] != group || plan_.tensor[member] != other || other == tensor) continue;
      if (std::any_of(own.begin(), own.end(), [&](int writer) { return writer >= other; })) return false;
      const std::vector<int> theirs = writers_after(other, sum);
      if (std::any_of(theirs.begin(), theirs.end(), [&](int writer) { return writer >= tensor; }))
        return false;
    }
    return true;
  }

  // Every term is read alone until then, so that its group is itself.
  void join(int tensor, int sum) { plan_.group[at(tensor)] = plan_.group[at(sum)]; }

  const Model& model_;
  const std::vector<int>& relus_;
  const std::function<bool(int, int)>& same_layout_;
  std::vector<bool> wants_;
  std::vector<std::vector<int>> writers_;  // by tensor
  GradientPlan plan_;
};

}  // namespace

std::vector<int> fused_relus(const Model& model) {
  const auto consumers = consumers_of(model);
  std::vector<int> relus(model.layers.size(), -1);
  for (std::size_t i = 1; i < model.layers.size(); ++i) {
    const LayerKind kind = model.layers[i].kind;
    const bool can = kind == LayerKind::conv2d || kind == LayerKind::linear ||
                     kind == LayerKind::batch_norm || kind == LayerKind::add;
    if (!can || consumers[i].size() != 1) continue;
    const int next = consumers[i][0];
    if (model.layers[at(next)].kind == LayerKind::relu) relus[i] = next;
  }
  return relus;
}

std::vector<bool> wants_gradient(const Model& model) {
  std::vector<bool> wants(model.layers.size(), false);
  for (std::size_t i = 1; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    wants[i] = !layer.parameters.empty() || std::any_of(layer.inputs.begin(), layer.inputs.end(),
                                                        [&](int input) { return wants[at(input)]; });
  }
  return wants;
}

GradientPlan plan_gradients(const Model& model, const std::vector<int>& relus, const std::vector<bool>& views,
                            const std::function<bool(int, int)>& same_layout) {
  return Planner(model, relus, views, same_layout).plan();
}

}  // namespace foretrain::device::cpu
