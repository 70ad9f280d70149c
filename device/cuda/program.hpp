// A model built for one batch and precision on one GPU.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/operators.hpp"

namespace foretrain::device::cuda {

class CudaProgram : public Program {
 public:
  CudaProgram(Context& context, const Model& model, const BuildOptions& options);

  const BuildReport& report() const override { return report_; }
  std::span<const WorkItem> forward_items() const override { return forward_items_; }
  std::span<const WorkItem> backward_items() const override { return backward_items_; }
  void issue(const WorkItem& item) override;
  int launches(const WorkItem& item) const override;

  // The update writes the weights in the compute precision, and every weight gradient is overwritten: neither
  // is any work.
  void prepare_weights() override {}
  int prepare_launches() const override { return 0; }
  void zero_gradients() override {}
  int zero_launches() const override { return 0; }

  void update() override;
  void update_parts(std::span<const FlatRange> parts) override;
  int update_launches() const override { return parameters_->update_launches() + refresh_launches_; }
  void prepare_recorded_update() override;
  void set_learning_rate(double rate) override { learning_rate_ = rate; }
  void set_gradient_scale(double factor) override { gradient_scale_ = factor; }

  Buffer gradients() override { return parameters_->gradients(); }
  Buffer weights() override { return parameters_->masters(); }
  void weights_changed() override;
  void weights_updated_elsewhere() override;
  std::int64_t gradient_offset(int parameter) const override { return parameters_->offset(parameter); }

  void accumulate_gradients(bool adds) override;

  std::int64_t sparse_bytes(int parameter) const override;
  void gather_rows(int parameter, Buffer part) override;
  void add_rows(int parameter, Buffer parts, int ranks) override;

  void set_input(std::span<const float> samples, std::span<const std::int32_t> labels) override;
  void set_tokens(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels) override;
  void synthesize_input(std::uint64_t seed) override;

  double loss() override;
  std::vector<float> read_parameter(int parameter) override;
  std::vector<float> read_gradient(int parameter) override;
  void write_parameter(int parameter, std::span<const float> values) override;
  std::vector<std::byte> save_state() override;
  void load_state(std::span<const std::byte> state) override;
  std::uint64_t checksum() override;

 private:
  struct Entry {
    Runnable* runnable = nullptr;
    int launches = 0;
  };
  static std::size_t index_of(const WorkItem& item) {
    return static_cast<std::size_t>(item.layer) * pass_count + static_cast<std::size_t>(item.pass);
  }
  SparseRows sparse_rows(int parameter) const;
  std::int64_t stored_channels() const;
  std::int64_t label_count() const { return options_.batch * model_.targets(); }
  // Samples (or tokens) and labels, 4 bytes each, by pinned memory and the copy stream; make_input takes the
  // samples from staged_.
  template <typename F>
  void stage(const void* samples, std::size_t sample_bytes, std::span<const std::int32_t> labels,
             F&& make_input);
  void make_operators();
  void list_items(const Lowered& lowered);
  void count_launches();
  void reset_running_statistics();
  void refresh();

  Context& context_;
  const Model model_;
  const BuildOptions options_;
  Scalar type_;
  BuildReport report_;
  std::int64_t input_channels_, input_elements_;  // as stored; a sample's, as given

  std::shared_ptr<Parameters> parameters_;
  // Between steps nothing of worth lies in it: programs of one model, of whatever batch and length, use the
  // same.
  struct Between {
    SharedMemory arena, workspace, partial, scratch, first_tokens;
    std::map<std::pair<int, std::string>, SharedMemory> of_operators;
  };
  std::shared_ptr<Between> between_;
  std::shared_ptr<DeviceMemory> arena_, workspace_, partial_, scratch_,
      first_tokens_;  // the last: of gather_rows
  DeviceMemory input_, labels_, loss_, counters_, staged_;
  PinnedMemory pinned_;
  TimingEvent copied_, consumed_;
  Lowered lowered_;
  std::vector<std::unique_ptr<Runnable>> operators_;
  std::vector<Entry> entries_;  // by layer and pass
  std::vector<WorkItem> forward_items_, backward_items_;
  int refresh_launches_ = 0;
  double learning_rate_, gradient_scale_ = 1;
};

}  // namespace foretrain::device::cuda
