// Puts a Model together layer by layer: checks each layer, infers its output shape, registers its parameters
// and counts its floating-point operations. Errors are collected with the positions given, so that one
// reading reports all of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/training/model.hpp"

namespace foretrain {

// What a `measured` layer needs besides its name: it stands for any operator.
struct MeasuredLayer {
  Shape output;
  std::vector<Parameter> parameters;  // names without the layer's path ("weight"), shapes
  MeasuredTimes times;
};

// Every add function returns the index of the new layer, to be used as a later layer's input, and reports
// what is wrong with it at `where`. A layer that could not be understood has no output shape; what reads it
// is not checked, so that one mistake is one error.
class ModelBuilder {
 public:
  static constexpr int max_layers = 100'000;
  static constexpr std::int64_t max_elements = std::int64_t{1}
                                               << 40;  // of one tensor per sample, or parameter

  ModelBuilder(std::string name, Shape input, std::int64_t classes, SourceLocation where = {});

  // The input is of integers below `vocabulary`; its shape is {sequence}, or {streams, sequence}.
  void take_tokens(std::int64_t vocabulary, std::int64_t sequence);

  int input() const { return 0; }
  // out, in / groups, kernel: floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1 pixels.
  int conv2d(const std::string& name, int from, std::int64_t out, const Window& window, bool bias,
             const SourceLocation& where = {});
  int batch_norm(const std::string& name, int from, double epsilon = 1e-5, double momentum = 0.1,
                 const SourceLocation& where = {});
  int relu(const std::string& name, int from, const SourceLocation& where = {});
  int max_pool(const std::string& name, int from, const Window& window, const SourceLocation& where = {});
  int avg_pool(const std::string& name, int from, const Window& window, const SourceLocation& where = {});
  int global_pool(const std::string& name, int from,
                  const SourceLocation& where = {});  // mean of each channel
  // Over the last dimension. `tied`: the embedding or linear layer whose weight it uses, -1: its own.
  int linear(const std::string& name, int from, std::int64_t out, bool bias, const SourceLocation& where = {},
             int tied = -1);
  int add(const std::string& name, const std::vector<int>& from, const SourceLocation& where = {});
  int multiply(const std::string& name, const std::vector<int>& from, const SourceLocation& where = {});
  int concat(const std::string& name, const std::vector<int>& from,
             const SourceLocation& where = {});  // along the last dimension
  int flatten(const std::string& name, int from, const SourceLocation& where = {});
  int softmax_cross_entropy(const std::string& name, int from, const SourceLocation& where = {});

  // Layers of sequences (model_builder_sequence.cpp).
  int embedding(const std::string& name, int from, std::int64_t out, EmbeddingTable table,
                const SourceLocation& where = {}, int tied = -1);
  // Over the last dimension, with a weight; layer_norm with a bias where wanted.
  int layer_norm(const std::string& name, int from, double epsilon = 1e-5, bool bias = true,
                 const SourceLocation& where = {});
  int rms_norm(const std::string& name, int from, double epsilon = 1e-6, const SourceLocation& where = {});
  int gelu(const std::string& name, int from, bool approximate = false, const SourceLocation& where = {});
  int silu(const std::string& name, int from, const SourceLocation& where = {});
  int dropout(const std::string& name, int from, double probability, const SourceLocation& where = {});
  // One input that packs q, k and v; q and one that packs k and v; or the three. A head_dim of 0 is taken
  // from the input's features.
  int attention(const std::string& name, const std::vector<int>& from, AttentionHeads heads,
                const SourceLocation& where = {});
  // The sequence and, where the first state is another layer's last, that layer.
  int recurrence(LayerKind kind, const std::string& name, const std::vector<int>& from,
                 const RecurrentStack& stack, const SourceLocation& where = {});

  int measured(const std::string& name, int from, const MeasuredLayer& layer,
               const SourceLocation& where = {});

  // A layer about which something was found wrong elsewhere: has no output shape, so that nothing is checked.
  int unreadable(const std::string& name, int from);

  Model& model() { return model_; }  // title, unit and optimizer are the caller's to set
  const Shape& output(int layer) const { return model_.layers.at(static_cast<std::size_t>(layer)).output; }
  // A finding of the caller's. A place that was already found wrong in an earlier layer (a block is used many
  // times) is not reported again.
  void report(const SourceLocation& where, std::string what);
  bool full() const { return full_; }  // max_layers is reached: nothing more is added
  const std::vector<Diagnostic>& findings() const { return findings_; }

  // The finished model. Throws Error with all findings where there are any, or where the last layer is not
  // softmax_cross_entropy or the output of a layer is read by none.
  Model finish();

 private:
  int push(Layer layer, const SourceLocation& where);
  bool readable(int from, const Layer& layer, const SourceLocation& where);
  bool image(const Layer& layer, const SourceLocation& where);
  bool check_window(const Layer& layer, const SourceLocation& where);
  Shape slide(const Layer& layer, std::int64_t channels, const SourceLocation& where);
  int pool(LayerKind kind, const std::string& name, int from, const Window& window,
           const SourceLocation& where);
  bool joined(Layer& layer, const std::vector<int>& from, const char* verb, const SourceLocation& where);
  int norm(Layer layer, int from, const SourceLocation& where);
  bool rows(const Layer& layer, int from, const SourceLocation& where);
  int tied_weight(Layer& layer, int owner, const Shape& shape, const SourceLocation& where);
  void attend(Layer& layer, const SourceLocation& where);
  void recur(Layer& layer, const SourceLocation& where);
  int elementwise(LayerKind kind, const std::string& name, int from, const SourceLocation& where);
  void register_parameter(Layer& layer, const std::string& name, Shape shape, const SourceLocation& where);

  Model model_;
  std::vector<SourceLocation> places_;  // of each layer
  std::unordered_set<std::string> names_;
  std::vector<Diagnostic> findings_;
  std::map<std::tuple<std::string, int, int>, std::size_t>
      reported_;  // place -> the layer first found wrong there
  SourceLocation where_;
  bool full_ = false;
  bool has_unreadable_ = false;
};

// Window with the same extent in both directions.
Window square_window(int kernel, int stride = 1, int padding = 0, int groups = 1);

}  // namespace foretrain
