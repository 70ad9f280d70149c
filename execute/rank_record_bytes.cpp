#include "execute/rank_record_bytes.hpp"

#include <cstring>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

class Writer {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void operator()(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    const auto bytes = std::as_bytes(std::span(text));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void operator()(const std::vector<double>& values) {
    (*this)(values.size());
    const auto bytes = std::as_bytes(std::span(values));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void operator()(const std::vector<BucketTiming>& buckets);
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void operator()(T& value) { take(&value, sizeof value); }
  void operator()(std::string& text) {
    text.resize(count(1));
    take(text.data(), text.size());
  }
  void operator()(std::vector<double>& values) {
    values.resize(count(sizeof(double)));
    take(values.data(), values.size() * sizeof(double));
  }
  void operator()(std::vector<BucketTiming>& buckets);
  bool at_end() const { return in_.empty(); }
  std::size_t count(std::size_t width) {
    std::size_t n = 0;
    (*this)(n);
    if (n > in_.size() / width) throw_damaged();
    return n;
  }

 private:
  [[noreturn]] static void throw_damaged() {
    throw Error(ErrorKind::failure, "a rank sent a record that ends early");
  }
  void take(void* to, std::size_t size) {
    if (size > in_.size()) throw_damaged();
    if (size > 0) std::memcpy(to, in_.data(), size);
    in_ = in_.subspan(size);
  }
  std::span<const std::byte> in_;
};

// One list of members for both directions.
template <typename Record, typename Visit>
void each_member(Record& r, Visit& visit) {
  visit(r.rank), visit(r.node), visit(r.host), visit(r.gpu);
  visit(r.step), visit(r.step_host);
  visit(r.forward), visit(r.backward), visit(r.exposed_communication), visit(r.optimizer);
  visit(r.buckets), visit(r.warmup);
  visit(r.useful_units), visit(r.padded_units);
  visit(r.peak_bytes), visit(r.launches), visit(r.checksum), visit(r.first_loss), visit(r.last_loss);
  visit(r.loss);
}

template <typename Bucket, typename Visit>
void each_bucket_member(Bucket& b, Visit& visit) {
  visit(b.bytes), visit(b.collective), visit(b.ready), visit(b.finished);
}

void Writer::operator()(const std::vector<BucketTiming>& buckets) {
  (*this)(buckets.size());
  for (const BucketTiming& bucket : buckets) each_bucket_member(bucket, *this);
}

void Reader::operator()(std::vector<BucketTiming>& buckets) {
  buckets.resize(count(sizeof(std::int64_t)));
  for (BucketTiming& bucket : buckets) each_bucket_member(bucket, *this);
}

}  // namespace

std::vector<std::byte> bytes_of(const RankRecord& record) {
  Writer writer;
  each_member(record, writer);
  return writer.take();
}

RankRecord rank_record_of(std::span<const std::byte> bytes) {
  RankRecord record;
  Reader reader(bytes);
  each_member(record, reader);
  if (!reader.at_end()) throw Error(ErrorKind::failure, "a rank sent a record that goes on too long");
  return record;
}

}  // namespace foretrain
