// Attention as product, softmax, product for each head, the products by the library. A thread has all heads
// that share keys and values of a sample, so that gradients of those are added up by one.
#include <cmath>
#include <numeric>

#include "device/cpu/operators.hpp"
#include "device/cpu/row_loops.hpp"
#include "device/dropout_mask.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t number_bytes = sizeof(float);

// q, k or v: heads of features from `offset` on in the rows of one of the layer's inputs.
struct Part {
  std::size_t input = 0;
  std::int64_t positions = 0, stride = 0, offset = 0, heads = 0;
};

class Attention : public Operator {
 public:
  explicit Attention(const OperatorPlan& plan)
      : heads_(plan.layer.attention),
        batch_(plan.batch),
        d_(heads_.head_dim),
        seed_(plan.seed),
        index_(static_cast<std::uint64_t>(plan.index)),
        output_(plain_layout(dims_of(plan.batch, plan.layer.output))) {
    const int inputs = static_cast<int>(plan.layer.inputs.size());
    std::int64_t offset = 0;
    for (int i = 0; i < 3; ++i) {
      Part& part = parts_[i];
      part.input = static_cast<std::size_t>(std::min(i, inputs - 1));
      if (i > 0 && part.input != parts_[i - 1].input) offset = 0;
      const int from = plan.layer.inputs[part.input];
      const Shape& shape = plan.model.layers[static_cast<std::size_t>(from)].output;
      part.positions = shape[0];
      part.stride = shape[1];
      part.offset = offset;
      part.heads = i == 0 ? heads_.heads : heads_.kv_heads;
      offset += part.heads * d_;
    }
    if (heads_.rotary_base > 0) make_angles();
  }
  const Layout& output() const override { return output_; }
  // Of each thread, a head's softmax or its gradient; and of q and k what is turned back.
  std::int64_t scratch_floats() const override {
    std::int64_t floats = 2 * omp_get_max_threads() * queries() * keys();
    if (heads_.rotary_base > 0) floats += turned_floats(parts_[0]) + turned_floats(parts_[1]);
    return floats;
  }

  void bind(const Places& p) override {
    p_ = p;
    softmax_ = Block(batch_ * heads_.heads * queries() * keys() * number_bytes, p.count);
    if (heads_.rotary_base <= 0) return;
    for (int i = 0; i < 2; ++i) turned_[i] = Block(turned_floats(parts_[i]) * number_bytes, p.count);
  }

  int launches(Pass pass) const override {
    const int turns = heads_.rotary_base > 0 ? 2 : 0;
    if (pass == Pass::forward) return 3 + turns;
    return pass == Pass::backward_data && wants_gradients() ? 5 + turns : 0;
  }

  void run(Pass pass, bool) override { pass == Pass::forward ? forward() : backward(); }

 private:
  // Rows of q, k or v as the products read or write them.
  struct Rows {
    float* data = nullptr;
    std::int64_t stride = 0, offset = 0, positions = 0;
    float* head(std::int64_t sample, std::int64_t head, std::int64_t dim) const {
      return data + sample * positions * stride + offset + head * dim;
    }
  };

  std::int64_t queries() const { return parts_[0].positions; }
  std::int64_t keys() const { return parts_[1].positions; }
  std::int64_t seen_by(std::int64_t query) const { return heads_.causal ? query + 1 : keys(); }
  float scale() const { return 1 / std::sqrt(static_cast<float>(d_)); }
  std::int64_t turned_floats(const Part& part) const { return batch_ * part.positions * part.heads * d_; }
  bool wants_gradients() const {
    return std::any_of(p_.inputs.begin(), p_.inputs.end(),
                       [](const InputPlace& input) { return input.gradient != nullptr; });
  }
  DropoutMask mask() const { return {seed_, static_cast<std::uint64_t>(*p_.draw), index_, heads_.dropout}; }

  Rows values_of(int part) const {
    const Part& p = parts_[part];
    if (part < 2 && heads_.rotary_base > 0) return {turned_[part].as(), p.heads * d_, 0, p.positions};
    return {p_.inputs[p.input].data, p.stride, p.offset, p.positions};
  }
  // Where gradients of q, k and v go: for those that are turned, first beside.
  Rows gradients_of(int part) const {
    const Part& p = parts_[part];
    if (part < 2 && heads_.rotary_base > 0) {
      float* beside = p_.scratch + 2 * omp_get_max_threads() * queries() * keys();
      return {part == 0 ? beside : beside + turned_floats(parts_[0]), p.heads * d_, 0, p.positions};
    }
    return {p_.inputs[p.input].gradient, p.stride, p.offset, p.positions};
  }
  bool adds(int part) const {
    return !(part < 2 && heads_.rotary_base > 0) && p_.inputs[parts_[part].input].adds;
  }

  // Calls visit(sample, kv head, thread's scratch).
  template <typename Visit>
  void each_group(const Visit& visit) const {
    const std::int64_t floats = 2 * queries() * keys();
    parallel_rows(batch_ * heads_.kv_heads, [&](std::int64_t first, std::int64_t last) {
      float* scratch = p_.scratch + omp_get_thread_num() * floats;
      for (std::int64_t i = first; i < last; ++i) visit(i / heads_.kv_heads, i % heads_.kv_heads, scratch);
    });
  }

  void forward() {
    if (heads_.rotary_base > 0)
      for (int i = 0; i < 2; ++i) turn_inputs(i);
    const Rows q = values_of(0), k = values_of(1), v = values_of(2);
    const std::int64_t shared = heads_.heads / heads_.kv_heads, width = heads_.heads * d_;
    const DropoutMask kept = mask();
    each_group([&](std::int64_t n, std::int64_t g, float* scratch) {
      for (std::int64_t h = g * shared; h < (g + 1) * shared; ++h) {
        const std::int64_t first = (n * heads_.heads + h) * queries() * keys();
        float* softmax = softmax_.as() + first;
        multiply_matrices(queries(), keys(), d_, scale(), {q.head(n, h, d_), q.stride},
                          {k.head(n, g, d_), k.stride, true}, false, softmax, keys());
        for (std::int64_t i = 0; i < queries(); ++i)
          softmax_row(softmax + i * keys(), softmax + i * keys(), seen_by(i), keys());
        const float* weights = dropped(softmax, first, kept, scratch);
        multiply_matrices(queries(), d_, keys(), 1, {weights, keys()}, {v.head(n, g, d_), v.stride}, false,
                          p_.output + n * queries() * width + h * d_, width);
      }
    });
  }

  // The softmax, or what dropout leaves of it.
  const float* dropped(const float* softmax, std::int64_t first, const DropoutMask& kept, float* to) const {
    if (heads_.dropout <= 0) return softmax;
    for (std::int64_t i = 0; i < queries() * keys(); ++i)
      to[i] = softmax[i] * static_cast<float>(kept.at(first + i));
    return to;
  }

  void backward() {
    const Rows q = values_of(0), k = values_of(1), v = values_of(2);
    const Rows dq = gradients_of(0), dk = gradients_of(1), dv = gradients_of(2);
    const std::int64_t shared = heads_.heads / heads_.kv_heads, width = heads_.heads * d_;
    const DropoutMask kept = mask();
    each_group([&](std::int64_t n, std::int64_t g, float* scratch) {
      float* flow = scratch + queries() * keys();
      for (std::int64_t h = g * shared; h < (g + 1) * shared; ++h) {
        const bool is_first = h == g * shared;
        const std::int64_t first = (n * heads_.heads + h) * queries() * keys();
        const float* softmax = softmax_.as() + first;
        const Matrix dy{p_.gradient + n * queries() * width + h * d_, width};
        if (dv.data != nullptr) {
          const float* weights = dropped(softmax, first, kept, scratch);
          multiply_matrices(keys(), d_, queries(), 1, {weights, keys(), true}, dy, !is_first || adds(2),
                            dv.head(n, g, d_), dv.stride);
        }
        multiply_matrices(queries(), keys(), d_, 1, dy, {v.head(n, g, d_), v.stride, true}, false, flow,
                          keys());
        if (heads_.dropout > 0) {
          for (std::int64_t i = 0; i < queries() * keys(); ++i)
            flow[i] *= static_cast<float>(kept.at(first + i));
        }
        for (std::int64_t i = 0; i < queries(); ++i)
          softmax_backward_row(flow + i * keys(), flow + i * keys(), softmax + i * keys(), scale(),
                               seen_by(i), keys());
        if (dq.data != nullptr)
          multiply_matrices(queries(), d_, keys(), 1, {flow, keys()}, {k.head(n, g, d_), k.stride}, adds(0),
                            dq.head(n, h, d_), dq.stride);
        if (dk.data != nullptr)
          multiply_matrices(keys(), d_, queries(), 1, {flow, keys(), true}, {q.head(n, h, d_), q.stride},
                            !is_first || adds(1), dk.head(n, g, d_), dk.stride);
      }
    });
    if (heads_.rotary_base > 0)
      for (int i = 0; i < 2; ++i) turn_back(i);
  }

  // cos and sin of position x base^(-2 i / d).
  void make_angles() {
    const std::int64_t positions = std::max(queries(), keys());
    for (std::int64_t position = 0; position < positions; ++position) {
      for (std::int64_t i = 0; i < d_ / 2; ++i) {
        const double exponent = -2 * static_cast<double>(i) / static_cast<double>(d_);
        const double angle = static_cast<double>(position) * std::pow(heads_.rotary_base, exponent);
        cosines_.push_back(static_cast<float>(std::cos(angle)));
        sines_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  // Features i and i + d / 2 of every head, by its position's angles, or back for `sign` -1.
  void turn(const Rows& from, const Rows& to, std::int64_t heads, float sign, bool adds) const {
    const std::int64_t half = d_ / 2;
    parallel_rows(batch_ * from.positions, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        const float* cosines = cosines_.data() + row % from.positions * half;
        const float* sines = sines_.data() + row % from.positions * half;
        for (std::int64_t h = 0; h < heads; ++h) {
          const float* a = from.data + row * from.stride + from.offset + h * d_;
          float* b = to.data + row * to.stride + to.offset + h * d_;
          for (std::int64_t i = 0; i < half; ++i) {
            const float c = cosines[i], s = sign * sines[i];
            const float low = a[i] * c - a[i + half] * s, high = a[i + half] * c + a[i] * s;
            b[i] = adds ? b[i] + low : low;
            b[i + half] = adds ? b[i + half] + high : high;
          }
        }
      }
    });
  }

  void turn_inputs(int part) const {
    const Part& p = parts_[part];
    turn({p_.inputs[p.input].data, p.stride, p.offset, p.positions}, values_of(part), p.heads, 1, false);
  }
  void turn_back(int part) const {
    const Part& p = parts_[part];
    const InputPlace& input = p_.inputs[p.input];
    if (input.gradient != nullptr)
      turn(gradients_of(part), {input.gradient, p.stride, p.offset, p.positions}, p.heads, -1, input.adds);
  }

  const AttentionHeads& heads_;
  std::int64_t batch_, d_;
  std::uint64_t seed_, index_;
  Layout output_;
  Part parts_[3];  // q, k, v
  std::vector<float> cosines_, sines_;
  Places p_;
  Block softmax_;    // {batch, heads, queries, keys}, before dropout
  Block turned_[2];  // q and k
};

}  // namespace

std::unique_ptr<Operator> make_attention(const OperatorPlan& plan) {
  return std::make_unique<Attention>(plan);
}

}  // namespace foretrain::device::cpu
