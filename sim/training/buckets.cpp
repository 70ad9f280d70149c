#include "sim/training/buckets.hpp"

#include "sim/base/error.hpp"

namespace foretrain {

std::int64_t element_bytes(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
}

std::vector<Bucket> ddp_buckets(const Model& model, Bytes first_cap, Bytes cap, Precision gradients) {
  if (first_cap.count() <= 0 || cap.count() <= 0) {
    throw Error(ErrorKind::input, "a gradient bucket needs a size above zero");
  }
  std::vector<Bucket> buckets;
  Bucket open;
  for (int p = static_cast<int>(model.parameters.size()) - 1; p >= 0; --p) {
    open.parameters.push_back(p);
    open.bytes += Bytes(model.parameters[static_cast<std::size_t>(p)].elements) *
                  static_cast<double>(element_bytes(gradients));
    if (open.bytes >= (buckets.empty() ? first_cap : cap)) {
      buckets.push_back(std::move(open));
      open = {};
    }
  }
  if (open.bytes.count() > 0) buckets.push_back(std::move(open));
  return buckets;
}

}  // namespace foretrain
