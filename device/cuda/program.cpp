#include "device/cuda/program.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "device/cuda/capture.hpp"
#include "device/sparse_table.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

Scalar compute_type(Precision precision) {
  if (precision == Precision::fp16) {
    throw Error(ErrorKind::unavailable, "the cuda backend computes in fp32, tf32 and bf16, not in fp16");
  }
  return precision == Precision::bf16 ? Scalar::bf16 : Scalar::f32;
}

// Height times width of the weights that lie channels-last: of conv2d, and of a linear that reads an image.
std::vector<std::int64_t> weight_pixels(const Model& model) {
  std::vector<std::int64_t> pixels(model.parameters.size(), 1);
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::conv2d) {
      pixels[static_cast<std::size_t>(layer.parameters[0])] =
          std::int64_t{layer.window.kernel_h} * layer.window.kernel_w;
    } else if (layer.kind == LayerKind::linear) {
      int from = layer.inputs[0];
      while (model.layers[static_cast<std::size_t>(from)].kind == LayerKind::flatten) {
        from = model.layers[static_cast<std::size_t>(from)].inputs[0];
      }
      const Shape& read = model.layers[static_cast<std::size_t>(from)].output;
      if (read.size() == 3) pixels[static_cast<std::size_t>(layer.parameters[0])] = read[1] * read[2];
    }
  }
  return pixels;
}

// Work that `enqueue` puts into the stream, counted by recording it as a graph. An engine that cannot be
// recorded counts as one launch.
template <typename F>
int count_nodes(cudaStream_t stream, F&& enqueue) {
  const Capture capture(stream, enqueue);
  return capture.refused() ? 1 : static_cast<int>(capture.nodes());
}

// What a checkpoint must hold of an operator, in device memory.
std::array<std::span<std::byte>, 2> kept_by(Runnable& runnable) {
  const std::span<float> running = runnable.running_statistics();
  return {std::span(reinterpret_cast<std::byte*>(running.data()), running.size_bytes()),
          runnable.random_state()};
}

std::int64_t largest_table(const Model& model) {
  std::int64_t rows = 0;
  for (const Layer& layer : model.layers)
    if (layer.kind == LayerKind::embedding) rows = std::max(rows, layer.embedding.vocabulary);
  return rows;
}

std::int64_t most_channels(const Lowered& lowered) {
  std::int64_t most = 1;
  for (const Tensor& tensor : lowered.tensors) most = std::max(most, tensor.channels);
  return most;
}

}  // namespace

CudaProgram::CudaProgram(Context& context, const Model& model, const BuildOptions& options)
    : context_(context),
      model_(model),
      options_(options),
      type_(compute_type(options.precision)),
      learning_rate_(options.optimizer.learning_rate) {
  use_device(context_.device);
  if (options_.batch < 1) throw Error(ErrorKind::input, "a batch has at least one sample");
  lowered_ = lower(model_, options_.batch, bytes_of(type_));
  input_elements_ = lowered_.tensors[0].elements();
  input_channels_ = stored_channels();
  const auto allocate = [&](std::int64_t bytes) { return DeviceMemory(context_.account, bytes); };
  const auto zero = [](const DeviceMemory& memory) {
    FORETRAIN_CUDA(cudaMemset(memory.data(), 0, static_cast<std::size_t>(memory.bytes())));
  };
  const auto* other = dynamic_cast<const CudaProgram*>(options_.shares);
  if (other != nullptr) {
    parameters_ = other->parameters_;
  } else {
    parameters_ =
        std::make_shared<Parameters>(context_.account, model_, options_, type_, weight_pixels(model_));
    FORETRAIN_CUDA(cudaDeviceSynchronize());  // its zeros are not written in our stream
    parameters_->initialize(options_.seed, context_.compute);
  }
  between_ = other != nullptr ? other->between_ : std::make_shared<Between>();
  const auto shared = [&](SharedMemory& memory, std::int64_t bytes) {
    return memory.of(context_.account, bytes);
  };
  const std::int64_t pixels = lowered_.tensors[0].pixels();
  arena_ = shared(between_->arena, lowered_.arena_bytes);
  const int input_bytes = model_.tokens > 0 ? 4 : bytes_of(type_);
  input_ = allocate(options_.batch * pixels * input_channels_ * input_bytes);
  labels_ = allocate(label_count() * 4);
  loss_ = allocate(4);
  partial_ = shared(between_->partial, reduction_bytes(most_channels(lowered_)));
  counters_ = allocate(reduction_counters * 4);
  scratch_ = shared(between_->scratch, scratch_bytes(model_, input_channels_));
  if (options_.gathers_rows) first_tokens_ = shared(between_->first_tokens, largest_table(model_) * 4);
  zero(loss_);
  zero(counters_);
  FORETRAIN_CUDA(cudaDeviceSynchronize());
  synthesize_input(options_.seed);
  // The search for plans must not run on zeros, which the chip multiplies faster.
  fill_normal(arena_->bytes() / bytes_of(type_), arena_->data(), type_, 0.1f, options_.seed,
              context_.compute);
  make_operators();
  list_items(lowered_);
  count_launches();
  report_.activation_bytes = arena_->bytes() + input_.bytes();
  report_.workspace_bytes = workspace_->bytes() + scratch_->bytes() + partial_->bytes();
  if (other != nullptr) {
    // The same layers, whatever the batch.
    for (std::size_t i = 0; i < operators_.size(); ++i)
      operators_[i]->share_statistics(other->operators_.at(i)->running_statistics());
    return;
  }
  reset_running_statistics();
  parameters_->reset_draws();
  report_.parameter_bytes = parameters_->parameter_bytes();
  report_.gradient_bytes = parameters_->gradients().bytes;
  report_.optimizer_bytes = parameters_->optimizer_bytes();
}

// Tensor cores want the channels of a convolution's input in whole words of 8 or 16 bytes: images of few
// channels get further ones of zeros, where convolutions alone read them.
std::int64_t CudaProgram::stored_channels() const {
  const std::int64_t channels = lowered_.tensors[0].channels;
  if (model_.tokens > 0) return channels;
  for (const Operator& op : lowered_.operators) {
    const bool reads = std::count(op.inputs.begin(), op.inputs.end(), 0) || op.residual == 0 ||
                       op.sum_of[0] == 0 || op.sum_of[1] == 0;
    if (!reads) continue;
    if (op.kind != LayerKind::conv2d) return channels;
    if (model_.layers[static_cast<std::size_t>(op.layer)].window.groups != 1) return channels;
  }
  const std::int64_t word = type_ == Scalar::bf16 ? 8 : 4;
  return (channels + word - 1) / word * word;
}

void CudaProgram::make_operators() {
  const double before = context_.plans.seconds_searched();
  Workspace search(context_.account);
  const Build build{context_,
                    model_,
                    options_,
                    lowered_,
                    *parameters_,
                    type_,
                    options_.precision == Precision::tf32,
                    arena_->data(),
                    input_.data(),
                    input_channels_,
                    labels_.as<std::int32_t>(),
                    loss_.as<float>(),
                    {partial_->as<float>(), counters_.as<unsigned>()},
                    scratch_->data(),
                    search,
                    between_->of_operators};
  for (const Operator& op : lowered_.operators) {
    switch (op.kind) {
      case LayerKind::conv2d:
        operators_.push_back(make_convolution(build, op));
        break;
      case LayerKind::linear:
        operators_.push_back(make_linear(build, op));
        break;
      case LayerKind::batch_norm:
        operators_.push_back(make_batch_norm(build, op));
        break;
      case LayerKind::max_pool:
      case LayerKind::avg_pool:
      case LayerKind::global_pool:
        operators_.push_back(make_pool(build, op));
        break;
      case LayerKind::relu:
        operators_.push_back(make_relu(build, op));
        break;
      case LayerKind::add:
        operators_.push_back(make_add(build, op));
        break;
      case LayerKind::softmax_cross_entropy:
        operators_.push_back(make_loss(build, op));
        break;
      case LayerKind::embedding:
        operators_.push_back(make_embedding(build, op));
        break;
      case LayerKind::layer_norm:
      case LayerKind::rms_norm:
        operators_.push_back(make_row_norm(build, op));
        break;
      case LayerKind::gelu:
      case LayerKind::silu:
        operators_.push_back(make_activation(build, op));
        break;
      case LayerKind::dropout:
        operators_.push_back(make_dropout(build, op));
        break;
      case LayerKind::multiply:
        operators_.push_back(make_multiply(build, op));
        break;
      case LayerKind::concat:
        operators_.push_back(make_concat(build, op));
        break;
      case LayerKind::attention:
        operators_.push_back(make_attention(build, op));
        break;
      case LayerKind::rnn:
      case LayerKind::lstm:
      case LayerKind::gru:
        operators_.push_back(make_recurrence(build, op));
        break;
      default:
        throw Error(ErrorKind::unavailable, std::string("the cuda backend has no kernel for ") +
                                                name_of(op.kind) + " yet (layer " +
                                                model_.layers[static_cast<std::size_t>(op.layer)].name + ")");
    }
  }
  FORETRAIN_CUDA(cudaDeviceSynchronize());
  search.clear();
  std::int64_t workspace = 0;
  for (const auto& runnable : operators_) {
    workspace = std::max(workspace, runnable->workspace());
    refresh_launches_ += runnable->refresh_launches();
  }
  workspace_ = between_->workspace.of(context_.account, workspace);
  for (const auto& runnable : operators_) runnable->bind(workspace_->data());
  report_.plan_search_seconds = context_.plans.seconds_searched() - before;
}

void CudaProgram::list_items(const Lowered& lowered) {
  entries_.resize(model_.layers.size() * pass_count);
  const auto add_item = [&](std::size_t i, Pass pass, std::vector<WorkItem>& items) {
    if (!operators_[i]->has(pass)) return;
    items.push_back({lowered.operators[i].layer, pass});
    entries_[index_of(items.back())].runnable = operators_[i].get();
  };
  for (std::size_t i = 0; i < operators_.size(); ++i) add_item(i, Pass::forward, forward_items_);
  for (std::size_t i = operators_.size(); i-- > 0;) {
    add_item(i, Pass::backward_weights, backward_items_);
    add_item(i, Pass::backward_data, backward_items_);
  }
}

// Runs a step once, so that everything is loaded, and then records each item as a graph and counts its nodes.
void CudaProgram::count_launches() {
  const cudaStream_t stream = context_.compute;
  const auto each = [&](auto&& visit) {
    for (const auto* items : {&forward_items_, &backward_items_}) {
      for (const WorkItem& item : *items) visit(item);
    }
  };
  each([&](const WorkItem& item) { issue(item); });
  FORETRAIN_CUDA(cudaStreamSynchronize(stream));
  each([&](const WorkItem& item) {
    Entry& entry = entries_[index_of(item)];
    entry.launches = count_nodes(stream, [&] { entry.runnable->run(item.pass); });
  });
}

// Of identity until steps move them.
void CudaProgram::reset_running_statistics() {
  FORETRAIN_CUDA(cudaDeviceSynchronize());
  for (const auto& runnable : operators_) {
    const std::span<float> running = runnable->running_statistics();
    std::vector<float> values(running.size());
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end(), 1.0f);
    if (running.empty()) continue;
    FORETRAIN_CUDA(cudaMemcpy(running.data(), values.data(), running.size_bytes(), cudaMemcpyHostToDevice));
  }
  FORETRAIN_CUDA(cudaDeviceSynchronize());  // a copy from pageable memory may return before it has arrived
}

void CudaProgram::issue(const WorkItem& item) {
  use_device(context_.device);
  entries_[index_of(item)].runnable->run(item.pass);
}

int CudaProgram::launches(const WorkItem& item) const {
  return entries_.at(index_of(item)).launches;
}

void CudaProgram::refresh() {
  for (const auto& runnable : operators_) runnable->refresh();
}

void CudaProgram::update() {
  use_device(context_.device);
  const FlatRange whole{0, parameters_->elements()};
  parameters_->update(learning_rate_, gradient_scale_, context_.compute, {&whole, 1});
  if (refresh_launches_) refresh();
}

void CudaProgram::update_parts(std::span<const FlatRange> parts) {
  use_device(context_.device);
  parameters_->update(learning_rate_, gradient_scale_, context_.compute, parts);
  if (refresh_launches_) refresh();
}

void CudaProgram::prepare_recorded_update() {
  use_device(context_.device);
  parameters_->prepare_recorded_update(learning_rate_, gradient_scale_, context_.compute);
}

void CudaProgram::accumulate_gradients(bool adds) {
  for (const auto& runnable : operators_) runnable->accumulate(adds);
}

SparseRows CudaProgram::sparse_rows(int parameter) const {
  const SparseTable table = sparse_table(model_, parameter);
  SparseRows rows{};
  rows.batch = options_.batch;
  rows.streams = input_elements_ / table.length;
  rows.length = table.length;
  rows.features = table.features;
  rows.vocabulary = table.vocabulary;
  rows.whole = table.whole;
  rows.lookups = static_cast<int>(table.streams.size());
  if (rows.lookups > SparseRows::most_lookups)
    throw Error(ErrorKind::unavailable, "too many layers look up rows of one table");
  std::copy(table.streams.begin(), table.streams.end(), rows.stream);
  return rows;
}

std::int64_t CudaProgram::sparse_bytes(int parameter) const {
  const SparseRows rows = sparse_rows(parameter);
  return sparse_layout(rows.rows(), rows.features, bytes_of(parameters_->gradient_type())).bytes;
}

void CudaProgram::gather_rows(int parameter, Buffer part) {
  use_device(context_.device);
  const SparseRows rows = sparse_rows(parameter);
  const Scalar type = parameters_->gradient_type();
  auto* data = static_cast<std::byte*>(part.data);
  cuda::gather_rows(rows, input_.as<std::int32_t>(), parameters_->gradient(parameter), type,
                    first_tokens_->as<std::int32_t>(), reinterpret_cast<std::int64_t*>(data),
                    data + sparse_layout(rows.rows(), rows.features, bytes_of(type)).values,
                    context_.compute);
}

void CudaProgram::add_rows(int parameter, Buffer parts, int ranks) {
  use_device(context_.device);
  const SparseRows rows = sparse_rows(parameter);
  const Scalar type = parameters_->gradient_type();
  const SparseLayout layout = sparse_layout(rows.rows(), rows.features, bytes_of(type));
  void* table = parameters_->gradient(parameter);
  FORETRAIN_CUDA(cudaMemsetAsync(table, 0,
                                 static_cast<std::size_t>(rows.vocabulary * rows.features * bytes_of(type)),
                                 context_.compute));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto* part = static_cast<const std::byte*>(parts.data) + rank * layout.bytes;
    cuda::add_rows(rows, reinterpret_cast<const std::int64_t*>(part), part + layout.values, table, type,
                   context_.compute);
  }
}

template <typename F>
void CudaProgram::stage(const void* samples, std::size_t sample_bytes, std::span<const std::int32_t> labels,
                        F&& make_input) {
  const std::size_t label_bytes = labels.size_bytes();
  if (staged_.bytes() == 0) {
    staged_ = DeviceMemory(context_.account, static_cast<std::int64_t>(sample_bytes));
    pinned_ = PinnedMemory(static_cast<std::int64_t>(sample_bytes + label_bytes));
  }
  FORETRAIN_CUDA(cudaEventSynchronize(copied_));  // the batch before has left the pinned memory
  auto* pinned = pinned_.as<std::byte>();
  std::memcpy(pinned, samples, sample_bytes);
  std::memcpy(pinned + sample_bytes, labels.data(), label_bytes);
  FORETRAIN_CUDA(cudaStreamWaitEvent(context_.copy, consumed_));
  FORETRAIN_CUDA(
      cudaMemcpyAsync(staged_.data(), pinned, sample_bytes, cudaMemcpyHostToDevice, context_.copy));
  FORETRAIN_CUDA(cudaEventRecord(copied_, context_.copy));
  FORETRAIN_CUDA(cudaStreamWaitEvent(context_.compute, copied_));
  FORETRAIN_CUDA(cudaMemcpyAsync(labels_.data(), pinned + sample_bytes, label_bytes, cudaMemcpyHostToDevice,
                                 context_.compute));
  make_input();
  FORETRAIN_CUDA(cudaEventRecord(consumed_, context_.compute));
  FORETRAIN_CUDA(cudaEventRecord(copied_, context_.compute));
}

void CudaProgram::set_input(std::span<const float> samples, std::span<const std::int32_t> labels) {
  use_device(context_.device);
  if (model_.tokens > 0) throw Error(ErrorKind::input, "model " + model_.name + " takes tokens");
  if (static_cast<std::int64_t>(samples.size()) != options_.batch * input_elements_ ||
      static_cast<std::int64_t>(labels.size()) != label_count()) {
    throw Error(ErrorKind::input, "an input of another size than the batch");
  }
  stage(samples.data(), samples.size_bytes(), labels, [this] {
    images_to_channels_last(options_.batch, lowered_.tensors[0].channels, lowered_.tensors[0].pixels(),
                            staged_.as<float>(), input_.data(), type_, input_channels_, context_.compute);
  });
}

void CudaProgram::set_tokens(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels) {
  use_device(context_.device);
  if (model_.tokens == 0) throw Error(ErrorKind::input, "model " + model_.name + " takes no tokens");
  if (static_cast<std::int64_t>(tokens.size()) != options_.batch * input_elements_ ||
      static_cast<std::int64_t>(labels.size()) != label_count()) {
    throw Error(ErrorKind::input, "an input of another size than the batch");
  }
  const auto outside = [](std::int64_t least, std::int64_t limit) {
    return [=](std::int32_t value) { return value < least || value >= limit; };
  };
  if (std::any_of(tokens.begin(), tokens.end(), outside(0, model_.tokens)) ||
      std::any_of(labels.begin(), labels.end(), outside(-1, model_.classes))) {
    throw Error(ErrorKind::input, "a token or label beyond the vocabulary of model " + model_.name);
  }
  stage(tokens.data(), tokens.size_bytes(), labels, [this] {
    FORETRAIN_CUDA(cudaMemcpyAsync(input_.data(), staged_.data(), static_cast<std::size_t>(input_.bytes()),
                                   cudaMemcpyDeviceToDevice, context_.compute));
  });
}

void CudaProgram::synthesize_input(std::uint64_t seed) {
  use_device(context_.device);
  const auto classes = static_cast<std::int32_t>(std::max<std::int64_t>(model_.classes, 1));
  fill_labels(label_count(), labels_.as<std::int32_t>(), classes, seed, context_.compute);
  if (model_.tokens > 0) {
    fill_labels(options_.batch * input_elements_, input_.as<std::int32_t>(),
                static_cast<std::int32_t>(model_.tokens), seed + 1, context_.compute);
    FORETRAIN_CUDA(cudaStreamSynchronize(context_.compute));
    return;
  }
  const std::int64_t pixels = options_.batch * lowered_.tensors[0].pixels();
  const std::int64_t channels = lowered_.tensors[0].channels;
  const DeviceMemory images(context_.account, pixels * channels * 4);
  fill_normal(pixels * channels, images.data(), Scalar::f32, 1.0f, seed, context_.compute);
  convert_rows(pixels, channels, images.data(), Scalar::f32, channels, input_.data(), type_, input_channels_,
               context_.compute);
  FORETRAIN_CUDA(cudaStreamSynchronize(context_.compute));
}

double CudaProgram::loss() {
  use_device(context_.device);
  float value = 0;
  FORETRAIN_CUDA(
      cudaMemcpyAsync(&value, loss_.data(), sizeof value, cudaMemcpyDeviceToHost, context_.compute));
  FORETRAIN_CUDA(cudaStreamSynchronize(context_.compute));
  return value;
}

void CudaProgram::weights_changed() {
  use_device(context_.device);
  parameters_->compute_from_masters(context_.compute);
  if (refresh_launches_) refresh();
}

// The copies in the compute precision are common.
void CudaProgram::weights_updated_elsewhere() {
  use_device(context_.device);
  for (const auto& runnable : operators_) runnable->refresh_own();
}

std::vector<float> CudaProgram::read_parameter(int parameter) {
  use_device(context_.device);
  return parameters_->read(parameter, context_.compute);
}
std::vector<float> CudaProgram::read_gradient(int parameter) {
  use_device(context_.device);
  return parameters_->read_gradient(parameter, context_.compute);
}
void CudaProgram::write_parameter(int parameter, std::span<const float> values) {
  use_device(context_.device);
  parameters_->write(parameter, values, context_.compute);
  refresh();
}
std::uint64_t CudaProgram::checksum() {
  use_device(context_.device);
  return parameters_->checksum(context_.compute);
}

std::vector<std::byte> CudaProgram::save_state() {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaStreamSynchronize(context_.compute));
  std::vector<std::byte> state = parameters_->save(context_.compute);
  for (const auto& runnable : operators_) {
    for (const std::span<std::byte> kept : kept_by(*runnable)) {
      const std::size_t at = state.size();
      state.resize(at + kept.size());
      if (kept.empty()) continue;
      FORETRAIN_CUDA(cudaMemcpy(state.data() + at, kept.data(), kept.size(), cudaMemcpyDeviceToHost));
    }
  }
  return state;
}

void CudaProgram::load_state(std::span<const std::byte> state) {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaStreamSynchronize(context_.compute));
  state = parameters_->load(state, context_.compute);
  std::size_t needed = 0;
  for (const auto& runnable : operators_) {
    for (const std::span<std::byte> kept : kept_by(*runnable)) needed += kept.size();
  }
  if (state.size() != needed) {
    throw Error(ErrorKind::input, "the saved state does not belong to model " + model_.name);
  }
  for (const auto& runnable : operators_) {
    for (const std::span<std::byte> kept : kept_by(*runnable)) {
      if (kept.empty()) continue;
      FORETRAIN_CUDA(cudaMemcpy(kept.data(), state.data(), kept.size(), cudaMemcpyHostToDevice));
      state = state.subspan(kept.size());
    }
  }
  FORETRAIN_CUDA(cudaDeviceSynchronize());
}

}  // namespace foretrain::device::cuda
