#include "sim/training/buckets.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

void require_positive(Bytes size, const char* what) {
  if (size.count() <= 0) throw Error(ErrorKind::input, std::string(what) + " needs a size above zero");
}

// What the policies walk over: parameters that have elements, in reverse registration order.
struct Gradient {
  int parameter = 0;
  Bytes bytes;
};

std::vector<Gradient> gradients_of(const Model& model, Precision precision) {
  std::vector<Gradient> all;
  for (int p = static_cast<int>(model.parameters.size()) - 1; p >= 0; --p) {
    const std::int64_t elements = model.parameters[static_cast<std::size_t>(p)].elements;
    if (elements > 0) all.push_back({p, Bytes(elements) * static_cast<double>(element_bytes(precision))});
  }
  return all;
}

// Gradients joined one after the other, as long as joins(bucket so far, next gradient) holds.
template <typename Joins>
std::vector<Bucket> join(const std::vector<Gradient>& gradients, Joins joins) {
  std::vector<Bucket> buckets;
  for (const Gradient& gradient : gradients) {
    if (buckets.empty() || !joins(buckets.back(), gradient)) buckets.emplace_back();
    buckets.back().parameters.push_back(gradient.parameter);
    buckets.back().bytes += gradient.bytes;
  }
  return buckets;
}

// TensorFlow benchmarks' agg_small_grads: runs of neighbouring small tensors; a large one goes alone.
std::vector<Bucket> small_groups(const std::vector<Gradient>& gradients, const Fusion& fusion) {
  require_positive(fusion.max_bytes, "a group of small gradients");
  return join(gradients, [&](const Bucket& bucket, const Gradient& next) {
    const bool is_small = bucket.parameters.size() > 1 || bucket.bytes <= fusion.max_bytes;
    const bool has_room = static_cast<int>(bucket.parameters.size()) < fusion.max_group;
    return is_small && has_room && next.bytes <= fusion.max_bytes;
  });
}

// All gradients as one vector, cut into equal parts (TensorFlow benchmarks' gradient_repacking); where they
// are large, at whole words of 32 elements of a gradient, for the sake of the library that sends them.
std::vector<Bucket> equal_packs(const Model& model, const std::vector<Gradient>& gradients, int packs,
                                Precision precision) {
  std::int64_t whole = 0;
  for (const Gradient& each : gradients)
    whole += model.parameters[static_cast<std::size_t>(each.parameter)].elements;
  const std::int64_t count = std::min<std::int64_t>(std::max(packs, 1), whole);
  const std::int64_t word = count > 0 && whole / count >= 1024 ? 32 : 1;
  std::vector<Bucket> buckets(static_cast<std::size_t>(count));
  std::size_t pack = 0;
  std::int64_t begin = 0;  // of the gradient, in elements of all
  for (const Gradient& each : gradients) {
    const std::int64_t elements = model.parameters[static_cast<std::size_t>(each.parameter)].elements;
    const double width = static_cast<double>(element_bytes(precision));
    std::int64_t from = 0;  // what the packs before hold of it
    for (; from < elements; ++pack) {
      // The n-th cut lies at n / count of the whole.
      const auto cut = static_cast<std::int64_t>(pack + 1);
      std::int64_t to = whole / count * cut + std::min(cut, whole % count) - begin;
      if (to < elements) to = to / word * word;
      to = std::min(to, elements);
      if (to > from) {
        Bucket& bucket = buckets[pack];
        if (bucket.parameters.empty()) bucket.skipped = from;
        bucket.parameters.push_back(each.parameter);
        bucket.bytes += Bytes(to - from) * width;
        bucket.left = elements - to;
        from = to;
      }
      if (to == elements) break;
    }
    begin += elements;
  }
  return buckets;
}

// Horovod's background thread looks once a cycle, and joins what has become complete since, in order, up to
// the threshold (Sergeev and Del Balso 2018; docs/tensor-fusion). Cycles count from the pass's begin. What is
// joined leaves after the item that runs when the thread looks.
std::vector<Bucket> horovod_fusion(const std::vector<Gradient>& gradients, const Fusion& fusion,
                                   const GradientOrder& order) {
  require_positive(fusion.threshold, "Horovod's fusion threshold");
  if (fusion.cycle.count() <= 0) throw Error(ErrorKind::input, "Horovod's cycle needs a time above zero");
  if (order.item_end.empty())
    throw Error(ErrorKind::failure, "Horovod's fusion goes by time: it needs the times of a backward pass");
  std::vector<std::int64_t> look(order.completing.size());
  double latest = 0;
  for (const Gradient& each : gradients) {
    const auto p = static_cast<std::size_t>(each.parameter);
    latest = std::max(latest, order.item_end.at(static_cast<std::size_t>(order.completing.at(p))));
    look[p] = static_cast<std::int64_t>(std::ceil(latest / fusion.cycle.in_seconds()));
  }
  const auto look_of = [&](int parameter) { return look[static_cast<std::size_t>(parameter)]; };
  std::vector<Bucket> buckets = join(gradients, [&](const Bucket& bucket, const Gradient& next) {
    return look_of(bucket.parameters.back()) == look_of(next.parameter) &&
           bucket.bytes + next.bytes <= fusion.threshold;
  });
  for (Bucket& bucket : buckets) {
    const double time = static_cast<double>(look_of(bucket.parameters.back())) * fusion.cycle.in_seconds();
    const auto running = std::lower_bound(order.item_end.begin(), order.item_end.end(), time);
    bucket.ready = static_cast<int>(
        std::min<std::ptrdiff_t>(running - order.item_end.begin(), std::ssize(order.item_end) - 1));
  }
  return buckets;
}

std::vector<Bucket> put_together(const Model& model, const Fusion& fusion, Precision precision,
                                 const GradientOrder& order) {
  const std::vector<Gradient> gradients = gradients_of(model, precision);
  switch (fusion.kind) {
    case FusionKind::buckets:
      break;
    case FusionKind::horovod:
      return horovod_fusion(gradients, fusion, order);
    case FusionKind::packs:
      return equal_packs(model, gradients, fusion.packs, precision);
    case FusionKind::groups:
      return small_groups(gradients, fusion);
    case FusionKind::none:
      return join(gradients, [](const Bucket&, const Gradient&) { return false; });
  }
  return ddp_buckets(model, fusion.first_bucket, fusion.bucket, precision);
}

// The tables that are gathered, and what of each.
std::vector<Bucket> sparse_tables(const Model& model, EmbeddingGradient kind, Precision precision) {
  constexpr std::int64_t number_bytes = 8;
  std::vector<Bucket> tables;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& owner = model.layers[l];
    if (owner.kind != LayerKind::embedding || owner.tied >= 0) continue;
    Bucket table;
    table.parameters = {owner.parameters.front()};
    const Parameter& weight = model.parameters[static_cast<std::size_t>(owner.parameters.front())];
    table.row_bytes = weight.shape.back() * element_bytes(precision) + number_bytes;
    bool is_shared = false;
    for (std::size_t other = 0; other < model.layers.size(); ++other) {
      const Layer& reader = model.layers[other];
      if (other != l && reader.tied != static_cast<int>(l)) continue;
      if (reader.kind == LayerKind::embedding) table.rows_per_sample += reader.output.front();
      is_shared = is_shared || reader.kind == LayerKind::linear;
    }
    if (is_shared && kind == EmbeddingGradient::sparse)
      throw Error(ErrorKind::input, "embedding_gradient: the output of model '" + model.name +
                                        "' shares the table '" + weight.name +
                                        "', whose gradient is dense: choose dense or tied_sparse");
    if (is_shared) table.rows = weight.shape.front();
    tables.push_back(std::move(table));
  }
  if (tables.empty())
    throw Error(ErrorKind::input, "embedding_gradient: model '" + model.name + "' has no embedding");
  return tables;
}

bool is_one_of(const std::vector<Bucket>& tables, int parameter) {
  return std::any_of(tables.begin(), tables.end(),
                     [&](const Bucket& table) { return table.parameters.front() == parameter; });
}

}  // namespace

const char* name_of(EmbeddingGradient kind) {
  switch (kind) {
    case EmbeddingGradient::dense:
      return "dense";
    case EmbeddingGradient::sparse:
      return "sparse";
    case EmbeddingGradient::tied_sparse:
      return "tied_sparse";
  }
  return "";
}

const char* name_of(FusionKind kind) {
  switch (kind) {
    case FusionKind::buckets:
      return "buckets";
    case FusionKind::horovod:
      return "horovod";
    case FusionKind::packs:
      return "packs";
    case FusionKind::groups:
      return "groups";
    case FusionKind::none:
      return "none";
  }
  return "";
}

std::int64_t element_bytes(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
}

namespace {

// The dense ones as if the tables had no elements; a table leaves when it is complete.
std::vector<Bucket> fuse_beside_tables(const Model& model, const Fusion& fusion, Precision precision,
                                       const GradientOrder& order) {
  std::vector<Bucket> tables = sparse_tables(model, fusion.embedding, precision);
  Model rest = model;
  for (const Bucket& table : tables)
    rest.parameters[static_cast<std::size_t>(table.parameters.front())].elements = 0;
  Fusion dense = fusion;
  dense.embedding = EmbeddingGradient::dense;
  GradientOrder early = order;  // nothing waits for a table
  for (const Bucket& table : tables)
    early.completing.at(static_cast<std::size_t>(table.parameters.front())) = 0;
  std::vector<Bucket> buckets = fuse(rest, dense, precision, early);
  for (Bucket& bucket : buckets)
    std::erase_if(bucket.parameters, [&](int parameter) { return is_one_of(tables, parameter); });
  std::erase_if(buckets, [](const Bucket& bucket) { return bucket.parameters.empty(); });
  for (Bucket& table : tables) {
    table.ready = order.completing.at(static_cast<std::size_t>(table.parameters.front()));
    const auto place = std::find_if(buckets.begin(), buckets.end(),
                                    [&](const Bucket& bucket) { return bucket.ready > table.ready; });
    buckets.insert(place, std::move(table));
  }
  return buckets;
}

}  // namespace

std::vector<Bucket> fuse(const Model& model, const Fusion& fusion, Precision precision,
                         const GradientOrder& order) {
  if (fusion.embedding != EmbeddingGradient::dense)
    return fuse_beside_tables(model, fusion, precision, order);
  std::vector<Bucket> buckets = put_together(model, fusion, precision, order);
  int latest = 0;
  for (Bucket& bucket : buckets) {
    latest = std::max(latest, bucket.ready);
    for (int parameter : bucket.parameters)
      latest = std::max(latest, order.completing.at(static_cast<std::size_t>(parameter)));
    bucket.ready = latest;
  }
  return buckets;
}

std::vector<Bucket> ddp_buckets(const Model& model, Bytes first_cap, Bytes cap, Precision precision) {
  require_positive(std::min(first_cap, cap), "a gradient bucket");
  std::vector<Bucket> buckets;
  Bucket open;
  for (int p = static_cast<int>(model.parameters.size()) - 1; p >= 0; --p) {
    open.parameters.push_back(p);
    open.bytes += Bytes(model.parameters[static_cast<std::size_t>(p)].elements) *
                  static_cast<double>(element_bytes(precision));
    if (open.bytes >= (buckets.empty() ? first_cap : cap)) {
      buckets.push_back(std::move(open));
      open = {};
    }
  }
  if (open.bytes.count() > 0) buckets.push_back(std::move(open));
  return buckets;
}

}  // namespace foretrain
