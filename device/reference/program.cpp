#include "device/reference/program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "device/reference/elements.hpp"
#include "device/reference/initial_weights.hpp"
#include "device/reference/layers.hpp"
#include "device/reference/optimizer.hpp"
#include "device/reference/sequence_passes.hpp"
#include "device/sparse_table.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace foretrain::device::reference {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// What programs of one model that differ in their batch have in common.
struct Training {
  explicit Training(const Optimizer& options) : optimizer(options) {}
  std::vector<Tensor> weights;
  Tensor flat;                       // the same weights in reverse registration order
  std::vector<std::byte> gradients;  // flat, of type BuildOptions::gradients
  ReferenceOptimizer optimizer;
  std::vector<Tensor> running_means, running_variances;
  double draw = 0;  // of dropout's masks: anew with every input and every update
};

class ReferenceProgram : public Program {
 public:
  ReferenceProgram(const Model& model, const BuildOptions& options)
      : model_(model),
        options_(options),
        batch_(options.batch),
        training_(training_of(options)),
        sequences_(model_, options.batch, options.seed) {
    if (!model.is_graph())
      unavailable("model '" + model.name + "' is a list of parameters and has no layers to compute");
    if (batch_ < 1) throw Error(ErrorKind::input, "a batch has at least one sample");
    for (const Layer& layer : model.layers)
      if (layer.kind == LayerKind::measured)
        unavailable("layer '" + layer.name + "' of model '" + model.name +
                    "' is given by its times and cannot be computed");
    make_parameters();
    make_activations();
    make_items();
    make_report();
  }

  const BuildReport& report() const override { return report_; }
  std::span<const WorkItem> forward_items() const override { return forward_; }
  std::span<const WorkItem> backward_items() const override { return backward_; }
  int launches(const WorkItem&) const override { return 1; }

  void issue(const WorkItem& item) override {
    const Layer& layer = model_.layers[at(item.layer)];
    switch (item.pass) {
      case Pass::forward:
        return forward(item.layer, layer);
      case Pass::backward_data:
        return backward_data(item.layer, layer);
      case Pass::backward_weights:
        return backward_weights(item.layer, layer);
    }
  }

  // Weights are used as they are, and every gradient is set, not added to: nothing to do.
  void prepare_weights() override {}
  int prepare_launches() const override { return 0; }
  void zero_gradients() override {}
  int zero_launches() const override { return 0; }

  void update() override {
    const FlatRange whole{0, static_cast<std::int64_t>(flat_.size())};
    update_parts({&whole, 1});
  }
  void update_parts(std::span<const FlatRange> parts) override {
    optimizer_.begin_step();
    draw_ += 1;
    std::vector<Tensor> gradients;
    for (std::size_t p = 0; p < weights_.size(); ++p) {
      gradients.emplace_back();
      const std::int64_t first = offsets_[p], last = first + static_cast<std::int64_t>(weights_[p].size());
      if (std::none_of(parts.begin(), parts.end(),
                       [&](const FlatRange& part) { return part.first < last && first < part.last; }))
        continue;
      gradients[p].resize(weights_[p].size());
      for (std::size_t i = 0; i < gradients[p].size(); ++i)
        gradients[p][i] =
            scale_ * load(gradients_.data(), offsets_[p] + static_cast<std::int64_t>(i), options_.gradients);
    }
    clip(gradients, options_.optimizer.clip_norm);
    for (std::size_t p = 0; p < weights_.size(); ++p) {
      if (!gradients[p].empty()) optimizer_.update(p, gradients[p], weights_[p]);
    }
    fill_flat();
  }
  int update_launches() const override { return 1; }
  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }
  void set_gradient_scale(double factor) override { scale_ = factor; }

  Buffer gradients() override { return {gradients_.data(), static_cast<std::int64_t>(gradients_.size())}; }
  std::int64_t gradient_offset(int parameter) const override { return offsets_.at(at(parameter)); }

  Buffer weights() override {
    return {flat_.data(), static_cast<std::int64_t>(flat_.size() * sizeof(double))};
  }
  ElementType weight_type() const override { return ElementType::fp64; }
  void weights_changed() override {
    for (std::size_t p = 0; p < weights_.size(); ++p)
      std::copy_n(flat_.begin() + offsets_[p], weights_[p].size(), weights_[p].begin());
  }
  void accumulate_gradients(bool adds) override { adds_ = adds; }

  std::int64_t sparse_bytes(int parameter) const override {
    const SparseTable table = sparse_table(model_, parameter);
    return sparse_layout(table.rows(batch_), table.features, bytes_of(options_.gradients)).bytes;
  }

  void gather_rows(int parameter, Buffer part) override {
    const SparseTable table = sparse_table(model_, parameter);
    const SparseLayout layout =
        sparse_layout(table.rows(batch_), table.features, bytes_of(options_.gradients));
    auto* numbers = static_cast<std::int64_t*>(part.data);
    auto* values = static_cast<std::byte*>(part.data) + layout.values;
    std::vector<bool> given(at(table.vocabulary), false);
    const std::int64_t streams = element_count(model_.input) / table.length;
    std::int64_t row = table.whole ? table.vocabulary : 0;
    const auto give = [&](std::int64_t place, std::int64_t number) {
      numbers[place] = number;
      for (std::int64_t f = 0; number >= 0 && f < table.features; ++f)
        store(values, place * table.features + f, options_.gradients,
              load(gradients_.data(), offsets_[at(parameter)] + number * table.features + f,
                   options_.gradients));
    };
    for (const int stream : table.streams) {
      for (std::int64_t i = 0; i < batch_ * table.length; ++i, ++row) {
        const std::int64_t from = (i / table.length * streams + stream) * table.length + i % table.length;
        const std::int32_t token = tokens_[at(from)];
        give(row, given[at(token)] ? -1 : token);
        given[at(token)] = true;
      }
    }
    for (std::int64_t number = 0; table.whole && number < table.vocabulary; ++number)
      give(number, given[at(number)] ? -1 : number);
  }

  void add_rows(int parameter, Buffer parts, int ranks) override {
    const SparseTable table = sparse_table(model_, parameter);
    const std::int64_t rows = table.rows(batch_), offset = offsets_[at(parameter)];
    const SparseLayout layout = sparse_layout(rows, table.features, bytes_of(options_.gradients));
    for (std::int64_t e = 0; e < table.vocabulary * table.features; ++e)
      store(gradients_.data(), offset + e, options_.gradients, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto* part = static_cast<const std::byte*>(parts.data) + rank * layout.bytes;
      const auto* numbers = reinterpret_cast<const std::int64_t*>(part);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t f = 0; numbers[row] >= 0 && f < table.features; ++f) {
          const std::int64_t to = offset + numbers[row] * table.features + f;
          store(gradients_.data(), to, options_.gradients,
                load(gradients_.data(), to, options_.gradients) +
                    load(part + layout.values, row * table.features + f, options_.gradients));
        }
      }
    }
  }

  void set_input(std::span<const float> samples, std::span<const std::int32_t> labels) override {
    if (model_.tokens > 0) throw Error(ErrorKind::failure, "set_input: the model reads tokens");
    Tensor& input = outputs_[0];
    if (samples.size() != input.size() || labels.size() != at(batch_))
      throw Error(ErrorKind::failure, "set_input: " + std::to_string(samples.size()) + " values and " +
                                          std::to_string(labels.size()) + " labels do not make a batch of " +
                                          std::to_string(batch_) + " x " + text_of(model_.input));
    for (const std::int32_t label : labels)
      if (label < 0 || label >= model_.classes)
        throw Error(ErrorKind::failure, "set_input: there is no class " + std::to_string(label));
    std::copy(samples.begin(), samples.end(), input.begin());
    labels_.assign(labels.begin(), labels.end());
    draw_ += 1;
  }

  void set_tokens(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) override {
    if (tokens.size() != tokens_.size() || targets.size() != labels_.size())
      throw Error(ErrorKind::failure, "set_tokens: " + std::to_string(tokens.size()) + " tokens and " +
                                          std::to_string(targets.size()) +
                                          " targets do not make a batch of " + std::to_string(batch_) +
                                          " x " + text_of(model_.input));
    for (const std::int32_t token : tokens)
      if (token < 0 || token >= model_.tokens)
        throw Error(ErrorKind::failure, "set_tokens: there is no token " + std::to_string(token));
    for (const std::int32_t target : targets)
      if (target < -1 || target >= model_.classes)
        throw Error(ErrorKind::failure, "set_tokens: there is no class " + std::to_string(target));
    tokens_.assign(tokens.begin(), tokens.end());
    labels_.assign(targets.begin(), targets.end());
    draw_ += 1;
  }

  void synthesize_input(std::uint64_t seed) override {
    RandomStream images(seed, {0}), labels(seed, {1});
    for (double& value : outputs_[0]) value = images.normal();
    for (std::int32_t& token : tokens_)
      token = static_cast<std::int32_t>(images.next() % static_cast<std::uint64_t>(model_.tokens));
    draw_ += 1;
    for (std::int32_t& label : labels_)
      label = static_cast<std::int32_t>(labels.next() % static_cast<std::uint64_t>(model_.classes));
  }

  double loss() override { return loss_; }

  std::vector<float> read_parameter(int parameter) override { return floats(weights_.at(at(parameter))); }

  std::vector<float> read_gradient(int parameter) override {
    const std::int64_t count = model_.parameters.at(at(parameter)).elements;
    std::vector<float> values(at(count));
    for (std::int64_t i = 0; i < count; ++i)
      values[at(i)] =
          static_cast<float>(load(gradients_.data(), offsets_[at(parameter)] + i, options_.gradients));
    return values;
  }

  void write_parameter(int parameter, std::span<const float> values) override {
    Tensor& weights = weights_.at(at(parameter));
    if (values.size() != weights.size())
      throw Error(ErrorKind::failure, "write_parameter: " + model_.parameters[at(parameter)].name + " has " +
                                          std::to_string(weights.size()) + " elements, not " +
                                          std::to_string(values.size()));
    std::copy(values.begin(), values.end(), weights.begin());
    fill_flat();
  }

  std::vector<std::byte> save_state() override {
    std::vector<std::byte> state;
    each_state([&state](double& value) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      state.insert(state.end(), bytes, bytes + sizeof value);
    });
    return state;
  }

  void load_state(std::span<const std::byte> state) override {
    std::size_t size = 0;
    each_state([&size](double& value) { size += sizeof value; });
    if (state.size() != size)
      throw Error(ErrorKind::failure, "load_state: a state of " + std::to_string(state.size()) +
                                          " bytes is none of this model and optimizer, which have " +
                                          std::to_string(size));
    const std::byte* from = state.data();
    each_state([&from](double& value) {
      std::memcpy(&value, from, sizeof value);
      from += sizeof value;
    });
  }

  // FNV-1a over the bits of all parameters in order.
  std::uint64_t checksum() override {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const Tensor& weights : weights_)
      for (const double value : weights) hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3;
    return hash;
  }

 private:
  static std::shared_ptr<Training> training_of(const BuildOptions& options) {
    if (options.shares == nullptr) return std::make_shared<Training>(options.optimizer);
    const auto* other = dynamic_cast<const ReferenceProgram*>(options.shares);
    if (other == nullptr)
      throw Error(ErrorKind::failure, "a program shares weights with one of its own kind");
    return other->training_;
  }

  [[noreturn]] static void unavailable(const std::string& what) { throw Error(ErrorKind::unavailable, what); }

  static std::vector<float> floats(const Tensor& values) {
    std::vector<float> result;
    for (const double value : values) result.push_back(static_cast<float>(value));
    return result;
  }

  template <typename Visit>
  void each_state(Visit visit) {
    optimizer_.each_state(visit);
    for (auto* group : {&running_means_, &running_variances_})
      for (Tensor& tensor : *group)
        for (double& value : tensor) visit(value);
    visit(draw_);
  }

  void make_parameters() {
    std::int64_t offset = 0;
    offsets_.resize(model_.parameters.size());
    for (std::size_t p = model_.parameters.size(); p-- > 0;) {
      offsets_[p] = offset;
      offset += model_.parameters[p].elements;
    }
    if (options_.shares != nullptr) return;
    gradients_.assign(at(offset * bytes_of(options_.gradients)), std::byte{0});
    for (std::size_t p = 0; p < model_.parameters.size(); ++p)
      weights_.push_back(initial_weights(model_, p, options_.seed));
    optimizer_.begin(weights_);
    flat_.resize(at(offset));
    fill_flat();
  }

  // The layers read weights_; what others see lies in flat_.
  void fill_flat() {
    for (std::size_t p = 0; p < weights_.size(); ++p)
      std::copy(weights_[p].begin(), weights_[p].end(), flat_.begin() + offsets_[p]);
  }

  void make_activations() {
    const std::size_t count = model_.layers.size();
    shapes_.resize(count);
    outputs_.resize(count);
    gradients_of_outputs_.resize(count);
    statistics_.resize(count);
    running_means_.resize(count);
    running_variances_.resize(count);
    const bool shares = options_.shares != nullptr;
    choices_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Layer& layer = model_.layers[i];
      shapes_[i] = image_shape(batch_, layer.output);
      outputs_[i].assign(at(shapes_[i].elements()), 0.0);
      gradients_of_outputs_[i] = outputs_[i];
      if (layer.kind == LayerKind::batch_norm && !shares) {
        running_means_[i].assign(at(shapes_[i].channels), 0.0);
        running_variances_[i].assign(at(shapes_[i].channels), 1.0);
      }
    }
    labels_.assign(at(batch_ * model_.targets()), 0);
    if (model_.tokens > 0) tokens_.assign(at(batch_ * element_count(model_.input)), 0);
    written_.assign(model_.parameters.size(), false);
  }

  void make_items() {
    const int count = static_cast<int>(model_.layers.size());
    for (int i = 1; i < count; ++i) forward_.push_back({i, Pass::forward});
    for (int i = count - 1; i >= 1; --i) {
      const Layer& layer = model_.layers[at(i)];
      if (!layer.parameters.empty()) backward_.push_back({i, Pass::backward_weights});
      if (std::any_of(layer.inputs.begin(), layer.inputs.end(), [](int input) { return input != 0; }))
        backward_.push_back({i, Pass::backward_data});
    }
  }

  void make_report() {
    std::int64_t activations = 0;
    for (const Tensor& output : outputs_)
      activations += 2 * static_cast<std::int64_t>(output.size() * sizeof(double));
    report_.activation_bytes = activations;
    if (options_.shares != nullptr) return;
    report_.parameter_bytes = model_.parameter_count() * static_cast<std::int64_t>(sizeof(double));
    report_.gradient_bytes = static_cast<std::int64_t>(gradients_.size());
    std::int64_t state = 0;
    optimizer_.each_state([&state](double&) { state += static_cast<std::int64_t>(sizeof(double)); });
    report_.optimizer_bytes = state;
  }

  const Tensor& weight(const Layer& layer) const { return weights_[at(layer.parameters[0])]; }
  const Tensor& bias(const Layer& layer) const {
    static const Tensor none;
    return layer.parameters.size() > 1 ? weights_[at(layer.parameters[1])] : none;
  }

  PassData pass_data() {
    return {weights_, outputs_, gradients_of_outputs_, tokens_, static_cast<std::uint64_t>(draw_)};
  }

  void forward(int index, const Layer& layer) {
    if (SequencePasses::runs(layer.kind)) return sequences_.forward(index, pass_data());
    const std::size_t i = at(index), from = at(layer.inputs[0]);
    const Tensor& x = outputs_[from];
    Tensor& y = outputs_[i];
    switch (layer.kind) {
      case LayerKind::conv2d:
        return conv2d_forward(shapes_[from], shapes_[i], layer.window, x, weight(layer), bias(layer), y);
      case LayerKind::batch_norm:
        return batch_norm_forward(shapes_[i], layer.epsilon, layer.momentum, x, weight(layer), bias(layer), y,
                                  statistics_[i], running_means_[i], running_variances_[i]);
      case LayerKind::relu:
        std::transform(x.begin(), x.end(), y.begin(), [](double value) { return std::max(value, 0.0); });
        return;
      case LayerKind::max_pool:
        return max_pool_forward(shapes_[from], shapes_[i], layer.window, x, y, choices_[i]);
      case LayerKind::avg_pool:
        return avg_pool_forward(shapes_[from], shapes_[i], layer.window, x, y);
      case LayerKind::global_pool:
        return avg_pool_forward(shapes_[from], shapes_[i], whole(shapes_[from]), x, y);
      case LayerKind::linear:
        return linear_forward(rows(i), features(from), features(i), x, weight(layer), bias(layer), y);
      case LayerKind::add:
        std::fill(y.begin(), y.end(), 0.0);
        for (const int input : layer.inputs)
          for (std::size_t e = 0; e < y.size(); ++e) y[e] += outputs_[at(input)][e];
        return;
      case LayerKind::flatten:
        y = x;
        return;
      case LayerKind::softmax_cross_entropy:
        loss_ = softmax_cross_entropy(rows(from), model_.classes, x, labels_, logits_gradient_);
        return;
      default:
        return;
    }
  }

  // A pool's window over the whole image.
  static Window whole(const ImageShape& shape) {
    Window window;
    window.kernel_h = static_cast<int>(shape.height);
    window.kernel_w = static_cast<int>(shape.width);
    return window;
  }

  // A linear layer works on the last dimension, row by row.
  std::int64_t features(std::size_t layer) const { return model_.layers[layer].output.back(); }
  std::int64_t rows(std::size_t layer) const {
    return batch_ * element_count(model_.layers[layer].output) / features(layer);
  }

  // Adds the gradient of the layer's inputs. The first item of a backward pass, that of the loss, clears all.
  void backward_data(int index, const Layer& layer) {
    if (SequencePasses::runs(layer.kind)) return sequences_.backward_data(index, pass_data());
    const std::size_t i = at(index), from = at(layer.inputs[0]);
    const Tensor& x = outputs_[from];
    const Tensor& dy = gradients_of_outputs_[i];
    Tensor& dx = gradients_of_outputs_[from];
    switch (layer.kind) {
      case LayerKind::conv2d:
        return conv2d_backward_data(shapes_[from], shapes_[i], layer.window, dy, weight(layer), dx);
      case LayerKind::batch_norm:
        return batch_norm_backward_data(shapes_[i], x, dy, weight(layer), statistics_[i], dx);
      case LayerKind::relu:
        for (std::size_t e = 0; e < dy.size(); ++e) dx[e] += x[e] > 0 ? dy[e] : 0;
        return;
      case LayerKind::max_pool:
        for (std::size_t e = 0; e < dy.size(); ++e) dx[at(choices_[i][e])] += dy[e];
        return;
      case LayerKind::avg_pool:
        return avg_pool_backward(shapes_[from], shapes_[i], layer.window, dy, dx);
      case LayerKind::global_pool:
        return avg_pool_backward(shapes_[from], shapes_[i], whole(shapes_[from]), dy, dx);
      case LayerKind::linear:
        return linear_backward_data(rows(i), features(from), features(i), dy, weight(layer), dx);
      case LayerKind::add:
        for (const int input : layer.inputs)
          for (std::size_t e = 0; e < dy.size(); ++e) gradients_of_outputs_[at(input)][e] += dy[e];
        return;
      case LayerKind::flatten:
        for (std::size_t e = 0; e < dy.size(); ++e) dx[e] += dy[e];
        return;
      case LayerKind::softmax_cross_entropy:
        for (Tensor& gradient : gradients_of_outputs_) std::fill(gradient.begin(), gradient.end(), 0.0);
        std::fill(written_.begin(), written_.end(), false);
        dx = logits_gradient_;
        return;
      default:
        return;
    }
  }

  void backward_weights(int index, const Layer& layer) {
    if (SequencePasses::runs(layer.kind)) {
      const std::vector<Tensor> gradients = sequences_.backward_weights(index, pass_data());
      for (std::size_t p = 0; p < gradients.size(); ++p) keep_gradient(layer.parameters[p], gradients[p]);
      return;
    }
    const std::size_t i = at(index), from = at(layer.inputs[0]);
    const Tensor& x = outputs_[from];
    const Tensor& dy = gradients_of_outputs_[i];
    Tensor first(weight(layer).size()), second(bias(layer).size());
    if (layer.kind == LayerKind::conv2d) {
      conv2d_backward_weights(shapes_[from], shapes_[i], layer.window, x, dy, first, second);
    } else if (layer.kind == LayerKind::batch_norm) {
      batch_norm_backward_weights(shapes_[i], x, dy, statistics_[i], first, second);
    } else {
      linear_backward_weights(rows(i), features(from), features(i), x, dy, first, second);
    }
    keep_gradient(layer.parameters[0], first);
    if (layer.parameters.size() > 1) keep_gradient(layer.parameters[1], second);
  }

  // A weight that several layers share has the sum of what they give.
  void keep_gradient(int parameter, const Tensor& values) {
    const bool adds = adds_ || written_[at(parameter)];
    written_[at(parameter)] = true;
    for (std::size_t e = 0; e < values.size(); ++e) {
      const std::int64_t index = offsets_[at(parameter)] + static_cast<std::int64_t>(e);
      const double before = adds ? load(gradients_.data(), index, options_.gradients) : 0;
      store(gradients_.data(), index, options_.gradients, before + values[e]);
    }
  }

  const Model model_;
  const BuildOptions options_;
  const std::int64_t batch_;
  BuildReport report_;
  std::vector<WorkItem> forward_, backward_;
  const std::shared_ptr<Training> training_;
  std::vector<Tensor>& weights_ = training_->weights;
  Tensor& flat_ = training_->flat;
  bool adds_ = false;
  std::vector<std::byte>& gradients_ = training_->gradients;
  std::vector<std::int64_t> offsets_;
  ReferenceOptimizer& optimizer_ = training_->optimizer;
  double scale_ = 1;
  double loss_ = 0;
  double& draw_ = training_->draw;
  SequencePasses sequences_;
  std::vector<std::int32_t> tokens_;
  std::vector<bool> written_;  // of this backward pass, by parameter
  // A layer's:
  std::vector<ImageShape> shapes_;
  std::vector<Tensor> outputs_, gradients_of_outputs_;
  std::vector<BatchStatistics> statistics_;
  std::vector<Tensor>&running_means_ = training_->running_means,
  &running_variances_ = training_->running_variances;
  std::vector<std::vector<std::int64_t>> choices_;
  std::vector<std::int32_t> labels_;
  Tensor logits_gradient_;
};

}  // namespace

std::unique_ptr<Program> make_program(const Model& model, const BuildOptions& options) {
  return std::make_unique<ReferenceProgram>(model, options);
}

}  // namespace foretrain::device::reference
