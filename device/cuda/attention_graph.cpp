#include "device/cuda/attention_graph.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

// Ids of the tensors that have a place in memory; those between count on from `virtual_id`.
enum Id : std::int64_t {
  q_id = 1,
  k_id,
  v_id,
  out_id,
  logarithms_id,
  scale_id,
  one_id,
  hidden_id,
  dout_id,
  dq_id,
  dk_id,
  dv_id,
  sums_id,
  accumulated_id,
  virtual_id = 100
};

constexpr std::int64_t workspace_limit = std::int64_t{1} << 30;

using Dims = std::vector<std::int64_t>;

// Operations in order, over tensors that it keeps.
class Graph {
 public:
  const Descriptor& tensor(std::int64_t id, cudnnDataType_t type, const Dims& dims, const Dims& strides,
                           TensorKind kind = {}) {
    return tensors_.emplace_back(tensor_descriptor(id, type, dims, strides, kind));
  }
  const Descriptor& number(std::int64_t id) {
    const Descriptor*& known = numbers_[id];
    if (!known) known = &tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, {.by_value = true});
    return *known;
  }
  // Between two operations; fp32 unless said, its last dimension dense.
  const Descriptor& between(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(next_++, type, dims, {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1},
                  {.is_virtual = true});
  }
  const Descriptor& between(const Dims& dims, const Dims& strides, cudnnDataType_t type) {
    return tensor(next_++, type, dims, strides, {.is_virtual = true});
  }

  void matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
    Descriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    kind.finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    push(std::move(operation));
  }
  void pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y,
                 const Descriptor* condition = nullptr, int axis = -1,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT) {
    operations_.push_back(pointwise_operation(mode, x, b, y, condition, axis, precision));
  }
  void reduce(cudnnReduceTensorOp_t how, const Descriptor& x, const Descriptor& y) {
    Descriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    kind.finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    push(std::move(operation));
  }
  void reshape(const Descriptor& x, const Descriptor& y) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    push(std::move(operation));
  }

  std::optional<Plan> plan(cudnnHandle_t handle) const {
    std::vector<const Descriptor*> operations;
    for (const Descriptor& operation : operations_) operations.push_back(&operation);
    PlanLimits limits;
    limits.candidates = 1;
    limits.workspace = workspace_limit;
    std::vector<Plan> plans = candidate_plans(handle, operations, limits);
    if (plans.empty()) return std::nullopt;
    return std::move(plans.front());
  }

 private:
  void push(Descriptor operation) {
    operation.finalize();
    operations_.push_back(std::move(operation));
  }

  std::deque<Descriptor> tensors_, operations_;
  std::map<std::int64_t, const Descriptor*> numbers_;
  std::int64_t next_ = virtual_id;
};

// Shapes and tensors that both passes name.
struct Shapes {
  explicit Shapes(const AttentionProblem& p)
      : query{p.batch, p.heads, p.queries, p.features},
        key{p.batch, p.heads, p.keys, p.features},
        key_across{p.batch, p.heads, p.features, p.keys},
        scores{p.batch, p.heads, p.queries, p.keys},
        scores_across{p.batch, p.heads, p.keys, p.queries},
        across_strides{p.heads * p.queries * p.keys, p.queries * p.keys, 1, p.keys},
        row{p.batch, p.heads, p.queries, 1},
        row_strides{p.heads * p.queries, p.queries, 1, 1} {}
  Dims query, key, key_across, scores, scores_across, across_strides, row, row_strides;
};
Dims strides_of(const HeadStrides& s) {
  return {s.sample, s.head, s.position, 1};
}
Dims across(const HeadStrides& s) {
  return {s.sample, s.head, 1, s.position};
}

// Scores times scale, and what a query must not see replaced.
const Descriptor& masked_scores(Graph& g, const AttentionProblem& p, const Shapes& s, const Descriptor& q,
                                const Descriptor& k_across) {
  const Descriptor& product = g.between(s.scores);
  g.matmul(q, k_across, product);
  const Descriptor& scaled = g.between(s.scores);
  g.pointwise(CUDNN_POINTWISE_MUL, product, &g.number(scale_id), scaled);
  if (!p.causal) return scaled;
  const Descriptor& row = g.between(s.scores, CUDNN_DATA_INT32);
  const Descriptor& column = g.between(s.scores, CUDNN_DATA_INT32);
  const Descriptor& seen = g.between(s.scores, CUDNN_DATA_BOOLEAN);
  const Descriptor& masked = g.between(s.scores);
  g.pointwise(CUDNN_POINTWISE_GEN_INDEX, scaled, nullptr, row, nullptr, 2, CUDNN_DATA_INT32);
  g.pointwise(CUDNN_POINTWISE_GEN_INDEX, scaled, nullptr, column, nullptr, 3, CUDNN_DATA_INT32);
  g.pointwise(CUDNN_POINTWISE_CMP_GE, row, &column, seen, nullptr, -1, CUDNN_DATA_BOOLEAN);
  g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, scaled, &g.number(hidden_id), masked, &seen);
  return masked;
}

std::optional<Plan> forward_plan(cudnnHandle_t handle, const AttentionProblem& p) {
  Graph g;
  const Shapes s(p);
  const cudnnDataType_t type = cudnn_type(p.type);
  const Descriptor& q = g.tensor(q_id, type, s.query, strides_of(p.q));
  const Descriptor& k = g.tensor(k_id, type, s.key_across, across(p.k));
  const Descriptor& v = g.tensor(v_id, type, s.key, strides_of(p.v));
  const Descriptor& out = g.tensor(out_id, type, s.query, strides_of(p.out));
  const Descriptor& logarithms = g.tensor(logarithms_id, CUDNN_DATA_FLOAT, s.row, s.row_strides);
  const Descriptor& scores = masked_scores(g, p, s, q, k);
  const Descriptor& largest = g.between(s.row, s.row_strides, CUDNN_DATA_FLOAT);
  const Descriptor& below = g.between(s.scores);
  const Descriptor& powers = g.between(s.scores);
  const Descriptor& sum = g.between(s.row, s.row_strides, CUDNN_DATA_FLOAT);
  const Descriptor& logarithm = g.between(s.row, s.row_strides, CUDNN_DATA_FLOAT);
  const Descriptor& softmax = g.between(s.scores, type);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  g.pointwise(CUDNN_POINTWISE_SUB, scores, &largest, below);
  g.pointwise(CUDNN_POINTWISE_EXP, below, nullptr, powers);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  g.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, logarithm);
  g.pointwise(CUDNN_POINTWISE_ADD, largest, &logarithm, logarithms);
  g.pointwise(CUDNN_POINTWISE_DIV, powers, &sum, softmax);
  g.matmul(softmax, v, out);
  return g.plan(handle);
}

std::optional<Plan> backward_plan(cudnnHandle_t handle, const AttentionProblem& p) {
  Graph g;
  const Shapes s(p);
  const cudnnDataType_t type = cudnn_type(p.type);
  const Descriptor& q = g.tensor(q_id, type, s.query, strides_of(p.q));
  const Descriptor& k = g.tensor(k_id, type, s.key_across, across(p.k));
  const Descriptor& v = g.tensor(v_id, type, s.key_across, across(p.v));
  const Descriptor& out = g.tensor(out_id, type, s.query, strides_of(p.out));
  const Descriptor& dout = g.tensor(dout_id, type, s.query, strides_of(p.dout));
  const Descriptor& logarithms = g.tensor(logarithms_id, CUDNN_DATA_FLOAT, s.row, s.row_strides);
  const Descriptor& dq = g.tensor(dq_id, type, s.query, strides_of(p.dq));
  const Descriptor& dk = g.tensor(dk_id, type, s.key, strides_of(p.dk));
  const Descriptor& dv = g.tensor(dv_id, type, s.key, strides_of(p.dv));
  const Descriptor& sums = g.tensor(sums_id, CUDNN_DATA_FLOAT, s.row, s.row_strides);
  const Dims dense{p.heads * p.queries * p.features, p.queries * p.features, p.features, 1};
  const Descriptor& accumulated = g.tensor(accumulated_id, CUDNN_DATA_FLOAT, s.query, dense);

  // Rows of dout times out.
  const Descriptor& product = g.between(s.query);
  const Descriptor& of_row = g.between(s.row, s.row_strides, CUDNN_DATA_FLOAT);
  g.pointwise(CUDNN_POINTWISE_MUL, dout, &out, product);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, product, of_row);
  g.pointwise(CUDNN_POINTWISE_MUL, of_row, &g.number(one_id), sums);

  // The softmax again.
  const Descriptor& scores = masked_scores(g, p, s, q, k);
  const Descriptor& below = g.between(s.scores);
  const Descriptor& softmax = g.between(s.scores);
  g.pointwise(CUDNN_POINTWISE_SUB, scores, &logarithms, below);
  g.pointwise(CUDNN_POINTWISE_EXP, below, nullptr, softmax);
  const Descriptor& softmax_across = g.between(s.scores_across, s.across_strides, type);
  g.reshape(softmax, softmax_across);
  g.matmul(softmax_across, dout, dv);

  const Descriptor& d_softmax = g.between(s.scores);
  const Descriptor& less = g.between(s.scores);
  const Descriptor& weighted = g.between(s.scores);
  const Descriptor& d_scores = g.between(s.scores);
  g.matmul(dout, v, d_softmax);
  g.pointwise(CUDNN_POINTWISE_SUB, d_softmax, &sums, less);
  g.pointwise(CUDNN_POINTWISE_MUL, less, &softmax, weighted);
  g.pointwise(CUDNN_POINTWISE_MUL, weighted, &g.number(scale_id), d_scores);
  const Descriptor& d_scores_across = g.between(s.scores_across, s.across_strides, type);
  g.reshape(d_scores, d_scores_across);
  g.matmul(d_scores_across, q, dk);
  const Descriptor& k_back = g.between(s.key, strides_of(p.k), type);
  g.reshape(k, k_back);
  g.matmul(d_scores, k_back, accumulated);
  g.pointwise(CUDNN_POINTWISE_IDENTITY, accumulated, nullptr, dq);
  return g.plan(handle);
}

std::string key_of(const AttentionProblem& p) {
  std::string key = std::to_string(static_cast<int>(p.type)) + (p.causal ? " causal" : "");
  for (const std::int64_t n : {p.batch, p.heads, p.queries, p.keys, p.features})
    key += ' ' + std::to_string(n);
  for (const HeadStrides& s : {p.q, p.k, p.v, p.out, p.dout, p.dq, p.dk, p.dv}) {
    for (const std::int64_t n : {s.sample, s.head, s.position}) key += ' ' + std::to_string(n);
  }
  return key;
}

}  // namespace

FusedAttention::FusedAttention(const AttentionProblem& problem, std::shared_ptr<const AttentionPlans> plans)
    : problem_(problem),
      scale_(1 / std::sqrt(static_cast<float>(problem.features))),
      hidden_(std::numeric_limits<float>::lowest()),
      plans_(std::move(plans)) {}

std::unique_ptr<FusedAttention> FusedAttention::make(cudnnHandle_t handle, const AttentionProblem& problem,
                                                     AttentionPlanCache& known) {
  const std::string key = key_of(problem);
  auto found = known.find(key);
  if (found == known.end()) {
    std::shared_ptr<const AttentionPlans> plans;
    try {
      std::optional<Plan> forward = forward_plan(handle, problem), backward = backward_plan(handle, problem);
      if (forward && backward) {
        plans =
            std::make_shared<const AttentionPlans>(AttentionPlans{std::move(*forward), std::move(*backward)});
      }
    } catch (const Error&) {
      // An operation that this cuDNN does not know.
    }
    found = known.emplace(key, std::move(plans)).first;
  }
  if (!found->second) return nullptr;
  return std::unique_ptr<FusedAttention>(new FusedAttention(problem, found->second));
}

std::int64_t FusedAttention::sums_bytes() const {
  return aligned(problem_.batch * problem_.heads * problem_.queries * 4);
}
std::int64_t FusedAttention::accumulated_bytes() const {
  return aligned(problem_.batch * problem_.heads * problem_.queries * problem_.features * 4);
}

std::int64_t FusedAttention::workspace() const {
  return sums_bytes() + accumulated_bytes() +
         aligned(std::max(plans_->forward.workspace, plans_->backward.workspace));
}

void FusedAttention::bind(const AttentionPlaces& at, void* workspace) {
  auto* sums = static_cast<std::byte*>(workspace);
  accumulated_ = sums + sums_bytes();
  void* rest = accumulated_ + accumulated_bytes();
  std::vector<std::int64_t> ids{q_id, k_id, v_id, out_id, logarithms_id, scale_id};
  std::vector<void*> pointers{at.q, at.k, at.v, at.out, at.logarithms, &scale_};
  if (problem_.causal) {
    ids.push_back(hidden_id);
    pointers.push_back(&hidden_);
  }
  forward_pack_.emplace(variant_pack(ids, pointers, rest));
  ids.insert(ids.end(), {one_id, dout_id, dq_id, dk_id, dv_id, sums_id, accumulated_id});
  pointers.insert(pointers.end(), {&one_, at.dout, at.dq, at.dk, at.dv, sums, accumulated_});
  backward_pack_.emplace(variant_pack(ids, pointers, rest));
}

void FusedAttention::forward(cudnnHandle_t handle) const {
  FORETRAIN_CUDNN(cudnnBackendExecute(handle, plans_->forward.plan, *forward_pack_));
}

void FusedAttention::backward(cudnnHandle_t handle, cudaStream_t stream) const {
  FORETRAIN_CUDA(cudaMemsetAsync(accumulated_, 0, static_cast<std::size_t>(accumulated_bytes()), stream));
  FORETRAIN_CUDNN(cudnnBackendExecute(handle, plans_->backward.plan, *backward_pack_));
}

}  // namespace foretrain::device::cuda
