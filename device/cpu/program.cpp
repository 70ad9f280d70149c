#include "device/cpu/program.hpp"

#include <algorithm>
#include <map>

#include "device/cpu/loops.hpp"
#include "device/cpu/lowering.hpp"
#include "device/cpu/operators.hpp"
#include "device/cpu/table_rows.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t number_bytes = sizeof(float);

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

void check(const Model& model, const BuildOptions& options) {
  const auto unavailable = [](const std::string& what) { throw Error(ErrorKind::unavailable, what); };
  if (!model.is_graph())
    unavailable("model '" + model.name + "' is a list of parameters and has no layers to compute");
  if (options.batch < 1) throw Error(ErrorKind::input, "a batch has at least one sample");
  if (options.precision != Precision::fp32 && options.precision != Precision::bf16)
    unavailable(std::string("the cpu backend computes in fp32 and bf16, not in ") +
                name_of(options.precision));
  if (options.precision == Precision::bf16 && !has_bf16())
    unavailable(
        "this processor has no instructions for bf16 (AVX-512 BF16): the cpu backend computes in fp32 on it");
  if (options.gradients != ElementType::fp32) unavailable("the cpu backend keeps gradients in fp32");
  for (const Layer& layer : model.layers)
    if (layer.kind == LayerKind::measured)
      unavailable("layer '" + layer.name + "' of model '" + model.name +
                  "' is given by its times and cannot be computed");
}

class CpuProgram : public Program {
 public:
  CpuProgram(CpuWorker& worker, const Model& model, const BuildOptions& options)
      : worker_(worker),
        model_(model),
        options_(options),
        learning_rate_(options.optimizer.learning_rate),
        parameters_(parameters_of(worker, model, options)) {
    make_operators();
    place_outputs();
    place_gradients();
    bind();
    make_items();
    make_report();
    for (const auto& op : operators_) {
      if (op) op->refresh();
    }
  }

  ~CpuProgram() override {
    try {
      stream().synchronize();  // tasks refer to this program
    } catch (...) {            // NOLINT(bugprone-empty-catch): who cares has seen it
    }
    worker_.keep_for_collectives(parameters_);
  }

  const BuildReport& report() const override { return report_; }
  std::span<const WorkItem> forward_items() const override { return forward_; }
  std::span<const WorkItem> backward_items() const override { return backward_; }

  void issue(const WorkItem& item) override {
    stream().enqueue([this, item, adds = adds_] { run(item, adds); });
  }
  int launches(const WorkItem& item) const override {
    if (masks(item)) return 1;
    return operators_[at(item.layer)]->launches(item.pass);
  }

  void prepare_weights() override {
    stream().enqueue([this] {
      for (const auto& op : operators_) {
        if (op) op->refresh();
      }
    });
  }
  int prepare_launches() const override { return prepare_launches_; }
  // Every gradient is set, not added to.
  void zero_gradients() override {}
  int zero_launches() const override { return 0; }

  void update() override {
    const FlatRange whole{0, parameters_->elements()};
    update_parts({&whole, 1});
  }
  void update_parts(std::span<const FlatRange> parts) override {
    stream().enqueue([this, parts = std::vector<FlatRange>(parts.begin(), parts.end()), rate = learning_rate_,
                      scale = scale_] { parameters_->update(parts, rate, scale); });
  }
  int update_launches() const override { return options_.optimizer.clip_norm > 0 ? 2 : 1; }
  void set_learning_rate(double rate) override { learning_rate_ = rate; }
  void set_gradient_scale(double factor) override { scale_ = factor; }

  Buffer gradients() override { return {parameters_->gradients(), parameters_->elements() * number_bytes}; }
  std::int64_t gradient_offset(int parameter) const override { return parameters_->offset(parameter); }
  Buffer weights() override { return {parameters_->weights(), parameters_->elements() * number_bytes}; }
  // Copies in other layouts are made anew in every step.
  void weights_changed() override {}
  void accumulate_gradients(bool adds) override { adds_ = adds; }

  void set_input(std::span<const float> samples, std::span<const std::int32_t> labels) override {
    if (model_.tokens > 0) throw Error(ErrorKind::failure, "set_input: the model reads tokens");
    if (samples.size() != at(options_.batch * element_count(model_.input)) || labels.size() != labels_.size())
      throw Error(ErrorKind::failure, "set_input: " + std::to_string(samples.size()) + " values and " +
                                          std::to_string(labels.size()) + " labels do not make a batch of " +
                                          std::to_string(options_.batch) + " x " + text_of(model_.input));
    check_labels(labels, 0, "set_input");
    stream().enqueue([this, values = std::vector<float>(samples.begin(), samples.end()),
                      classes = std::vector<std::int32_t>(labels.begin(), labels.end())] {
      copy_floats(data_[0], values.data(), static_cast<std::int64_t>(values.size()));
      std::copy(classes.begin(), classes.end(), labels_.begin());
      parameters_->draw() += 1;
    });
  }

  void set_tokens(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) override {
    if (tokens.size() != tokens_.size() || targets.size() != labels_.size() || tokens_.empty())
      throw Error(ErrorKind::failure, "set_tokens: " + std::to_string(tokens.size()) + " tokens and " +
                                          std::to_string(targets.size()) +
                                          " targets do not make a batch of " +
                                          std::to_string(options_.batch) + " x " + text_of(model_.input));
    for (const std::int32_t token : tokens)
      if (token < 0 || token >= model_.tokens)
        throw Error(ErrorKind::failure, "set_tokens: there is no token " + std::to_string(token));
    check_labels(targets, -1, "set_tokens");
    stream().enqueue([this, values = std::vector<std::int32_t>(tokens.begin(), tokens.end()),
                      classes = std::vector<std::int32_t>(targets.begin(), targets.end())] {
      std::copy(values.begin(), values.end(), tokens_.begin());
      std::copy(classes.begin(), classes.end(), labels_.begin());
      parameters_->draw() += 1;
    });
  }

  std::int64_t sparse_bytes(int parameter) const override {
    const SparseTable table = sparse_table(model_, parameter);
    return sparse_layout(table.rows(options_.batch), table.features, number_bytes).bytes;
  }
  void gather_rows(int parameter, Buffer part) override {
    stream().enqueue([this, table = sparse_table(model_, parameter), part] {
      gather_table_rows(table,
                        {options_.batch, element_count(model_.input) / model_.sequence, tokens_.data()},
                        parameters_->gradient(table.parameter), part.data);
    });
  }
  void add_rows(int parameter, Buffer parts, int ranks) override {
    stream().enqueue([this, table = sparse_table(model_, parameter), parts, ranks] {
      add_table_rows(table, options_.batch, parts.data, ranks, parameters_->gradient(table.parameter));
    });
  }

  void synthesize_input(std::uint64_t seed) override {
    stream().run([this, seed] {
      RandomStream images(seed, {0}), labels(seed, {1});
      const std::int64_t count = tokens_.empty() ? options_.batch * element_count(model_.input) : 0;
      for (std::int64_t i = 0; i < count; ++i) data_[0][i] = static_cast<float>(images.normal());
      for (std::int32_t& token : tokens_)
        token = static_cast<std::int32_t>(images.next() % static_cast<std::uint64_t>(model_.tokens));
      parameters_->draw() += 1;
      for (std::int32_t& label : labels_)
        label = static_cast<std::int32_t>(labels.next() % static_cast<std::uint64_t>(model_.classes));
    });
  }

  double loss() override {
    stream().synchronize();
    return loss_;
  }

  std::vector<float> read_parameter(int parameter) override {
    return read(parameter, parameters_->weight(parameter));
  }
  std::vector<float> read_gradient(int parameter) override {
    return read(parameter, parameters_->gradient(parameter));
  }
  void write_parameter(int parameter, std::span<const float> values) override {
    const Parameter& which = model_.parameters.at(at(parameter));
    if (values.size() != at(which.elements))
      throw Error(ErrorKind::failure, "write_parameter: " + which.name + " has " +
                                          std::to_string(which.elements) + " elements, not " +
                                          std::to_string(values.size()));
    stream().synchronize();
    std::copy(values.begin(), values.end(), parameters_->weight(parameter));
  }

  std::vector<std::byte> save_state() override {
    stream().synchronize();
    return parameters_->save();
  }
  void load_state(std::span<const std::byte> state) override {
    stream().synchronize();
    parameters_->load(state);
  }
  std::uint64_t checksum() override {
    stream().synchronize();
    return parameters_->checksum();
  }

  const std::shared_ptr<Parameters>& parameters() const { return parameters_; }

 private:
  static std::shared_ptr<Parameters> parameters_of(CpuWorker& worker, const Model& model,
                                                   const BuildOptions& options) {
    if (options.shares == nullptr) return std::make_shared<Parameters>(model, options, worker.count());
    const auto* other = dynamic_cast<const CpuProgram*>(options.shares);
    if (other == nullptr)
      throw Error(ErrorKind::failure, "a program shares weights with one of its own kind");
    return other->parameters();
  }

  Stream& stream() { return worker_.stream(StreamKind::compute); }

  void check_labels(std::span<const std::int32_t> labels, std::int32_t least, const char* who) const {
    for (const std::int32_t label : labels)
      if (label < least || label >= model_.classes)
        throw Error(ErrorKind::failure, std::string(who) + ": there is no class " + std::to_string(label));
  }

  std::vector<float> read(int parameter, const float* from) {
    stream().synchronize();
    return {from, from + model_.parameters.at(at(parameter)).elements};
  }

  // Layer by layer, each in the layouts that the one before has chosen.
  void make_operators() {
    const std::size_t count = model_.layers.size();
    relus_ = fused_relus(model_);
    layouts_.resize(count);
    operators_.resize(count);
    views_.assign(count, false);
    layouts_[0] = plain_layout(dims_of(options_.batch, model_.input));
    for (std::size_t i = 1; i < count; ++i) {
      const Layer& layer = model_.layers[i];
      const std::size_t from = at(layer.inputs[0]);
      if (relus_[from] == static_cast<int>(i)) {
        layouts_[i] = layouts_[from];
        continue;
      }
      if (layer.kind == LayerKind::flatten && layouts_[from] == plain_layout(layouts_[from].dims())) {
        layouts_[i] = plain_layout(dims_of(options_.batch, layer.output));
        views_[i] = true;
        continue;
      }
      OperatorPlan plan{.model = model_,
                        .layer = layer,
                        .index = static_cast<int>(i),
                        .batch = options_.batch,
                        .relu = relus_[i] >= 0,
                        .inputs = {},
                        .seed = options_.seed,
                        .bf16 = options_.precision == Precision::bf16};
      for (const int input : layer.inputs) plan.inputs.push_back(layouts_[at(input)]);
      operators_[i] = make_operator(plan);
      layouts_[i] = simplest(operators_[i]->output());
    }
  }

  void place_outputs() {
    gradients_plan_ = plan_gradients(model_, relus_, views_,
                                     [this](int a, int b) { return layouts_[at(a)] == layouts_[at(b)]; });
    data_.resize(model_.layers.size());
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      const std::size_t tensor = at(gradients_plan_.tensor[i]);
      if (tensor == i) data_[i] = keep(floats_of(layouts_[i]));
      data_[i] = data_[tensor];
    }
    labels_.assign(at(options_.batch * model_.targets()), 0);
    if (model_.tokens > 0) tokens_.assign(at(options_.batch * element_count(model_.input)), 0);
  }

  // A gradient's memory is another's once it has been read.
  void place_gradients() {
    const GradientPlan& plan = gradients_plan_;
    const int count = static_cast<int>(model_.layers.size());
    gradients_.assign(at(count), nullptr);
    std::multimap<std::int64_t, float*> free;
    std::vector<std::int64_t> sizes(at(count), 0);
    std::vector<float*> of_group(at(count), nullptr);
    for (int i = 0; i < count; ++i)
      sizes[at(plan.group[at(i)])] =
          std::max(sizes[at(plan.group[at(i)])], floats_of(layouts_[at(plan.tensor[at(i)])]));
    for (int layer = count - 1; layer > 0; --layer) {
      for (int group = 1; group < count; ++group) {
        // That of the loss is written by its forward pass, before all others.
        if (plan.first_writer[at(group)] != layer) continue;
        const auto found = free.lower_bound(sizes[at(group)]);
        if (found != free.end()) {
          sizes[at(group)] = found->first;
          of_group[at(group)] = found->second;
          free.erase(found);
        } else {
          of_group[at(group)] = keep(sizes[at(group)]);
        }
      }
      for (int group = 1; group < count; ++group)
        if (plan.last_reader[at(group)] == layer && of_group[at(group)] != nullptr)
          free.emplace(sizes[at(group)], of_group[at(group)]);
    }
    for (int i = 1; i < count; ++i) gradients_[at(i)] = of_group[at(plan.group[at(plan.tensor[at(i)])])];
  }

  float* keep(std::int64_t floats) {
    kept_.emplace_back(floats * number_bytes, worker_.count());
    activation_bytes_ += kept_.back().bytes();
    return kept_.back().as();
  }

  void bind() {
    std::int64_t scratchpad = 0, scratch = 0;
    for (const auto& op : operators_) {
      if (!op) continue;
      scratchpad = std::max(scratchpad, op->scratchpad_bytes());
      scratch = std::max(scratch, op->scratch_floats());
    }
    scratchpad_ = Block(scratchpad, worker_.count());
    scratch_ = Block(scratch * number_bytes, worker_.count());
    const std::vector<bool> wants = wants_gradient(model_);
    const std::int64_t before = worker_.count()->held;
    std::vector<bool> has_gradient(model_.parameters.size(), false);
    for (std::size_t i = model_.layers.size(); i-- > 1;) {
      if (!operators_[i]) continue;
      const Layer& layer = model_.layers[i];
      Places places;
      for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
        const std::size_t input = at(layer.inputs[k]);
        InputPlace place{data_[input], nullptr, gradients_plan_.adds[i][k]};
        if (wants[input] || layer.kind == LayerKind::softmax_cross_entropy)
          place.gradient = gradients_[input];
        places.inputs.push_back(place);
      }
      places.output = data_[i];
      places.gradient = gradients_[i];
      places.scratchpad = scratchpad_.as<std::byte>();
      places.scratch = scratch_.as();
      places.parameters = parameters_.get();
      for (const int parameter : layer.parameters) {
        places.shared_gradients.push_back(has_gradient[at(parameter)]);
        has_gradient[at(parameter)] = true;
      }
      places.tokens = tokens_.data();
      places.labels = labels_.data();
      places.draw = &parameters_->draw();
      places.loss = &loss_;
      places.count = worker_.count();
      operators_[i]->bind(places);
    }
    own_bytes_ = worker_.count()->held - before;
  }

  // A fused relu whose gradient no library primitive masks.
  bool masks(const WorkItem& item) const {
    return operators_[at(item.layer)] == nullptr && item.pass == Pass::backward_data;
  }

  void make_items() {
    const int count = static_cast<int>(model_.layers.size());
    for (int i = 1; i < count; ++i) {
      if (operators_[at(i)]) {
        forward_.push_back({i, Pass::forward});
        prepare_launches_ += operators_[at(i)]->refresh_launches();
      }
    }
    for (int i = count - 1; i >= 1; --i) {
      const Layer& layer = model_.layers[at(i)];
      if (!operators_[at(i)]) {
        const LayerKind before = model_.layers[at(layer.inputs[0])].kind;
        if (!views_[at(i)] && before != LayerKind::batch_norm && gradients_[at(i)] != nullptr)
          backward_.push_back({i, Pass::backward_data});
        continue;
      }
      for (const Pass pass : {Pass::backward_weights, Pass::backward_data})
        if (operators_[at(i)]->launches(pass) > 0 &&
            (pass != Pass::backward_weights || !layer.parameters.empty()))
          backward_.push_back({i, pass});
    }
  }

  void run(const WorkItem& item, bool adds) {
    if (!masks(item)) return operators_[at(item.layer)]->run(item.pass, adds);
    const std::size_t i = at(item.layer);
    relu_backward(gradients_[i], gradients_[i], data_[i], false, floats_of(layouts_[i]));
  }

  void make_report() {
    report_.activation_bytes = activation_bytes_;
    report_.workspace_bytes = scratchpad_.bytes() + scratch_.bytes() + own_bytes_;
    if (options_.shares != nullptr) return;
    report_.parameter_bytes = report_.gradient_bytes = parameters_->elements() * number_bytes;
    report_.optimizer_bytes = parameters_->state_bytes();
  }

  CpuWorker& worker_;
  const Model model_;
  BuildOptions options_;
  double learning_rate_, scale_ = 1;
  bool adds_ = false;
  std::shared_ptr<Parameters> parameters_;
  std::vector<int> relus_;
  std::vector<bool> views_;
  std::vector<Layout> layouts_;  // by layer, of its output
  std::vector<std::unique_ptr<Operator>> operators_;
  GradientPlan gradients_plan_;
  std::vector<Block> kept_;
  std::vector<float*> data_, gradients_;  // by layer
  Block scratchpad_, scratch_;
  std::int64_t activation_bytes_ = 0, own_bytes_ = 0;
  std::vector<std::int32_t> tokens_, labels_;
  double loss_ = 0;
  std::vector<WorkItem> forward_, backward_;
  int prepare_launches_ = 0;
  BuildReport report_;
};

}  // namespace

std::unique_ptr<Program> make_program(CpuWorker& worker, const Model& model, const BuildOptions& options) {
  check(model, options);
  return std::make_unique<CpuProgram>(worker, model, options);
}

}  // namespace foretrain::device::cpu
