#include "tests/support/fake_backend.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/support/fake_streams.hpp"

namespace foretrain::test {

using device::Buffer;
using device::CollectiveKind;
using device::Event;
using device::StreamKind;

FakeClock::FakeClock() : owner_(std::hash<std::thread::id>()(std::this_thread::get_id())) {}

double& FakeClock::mine() {
  const std::size_t thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  double& time = times_.try_emplace(thread, times_[owner_]).first->second;
  if (thread == owner_)
    for (const auto& [other, reached] : times_) time = std::max(time, reached);
  return time;
}

double FakeClock::now() {
  const std::scoped_lock lock(mutex_);
  return mine() += reading;
}

double FakeClock::unread() {
  const std::scoped_lock lock(mutex_);
  return mine();
}

void FakeClock::not_before(double seconds) {
  const std::scoped_lock lock(mutex_);
  double& time = mine();
  time = std::max(time, seconds);
}

void FakeClock::advance(double seconds) {
  const std::scoped_lock lock(mutex_);
  mine() += seconds;
}

FakeTiming plain_timing(const Model& model, const device::WorkItem& item, std::int64_t batch) {
  const Layer& layer = model.layers[static_cast<std::size_t>(item.layer)];
  const bool heavy = layer.kind == LayerKind::conv2d || layer.kind == LayerKind::linear;
  const double a_sample = (heavy ? 1.5e-6 : 0.4e-6) * (1 + item.layer % 3);
  return {6e-6 + a_sample * static_cast<double>(batch), heavy ? 9e-6 : 5e-6, heavy && item.layer % 2 ? 2 : 1};
}

struct FakeBackend::Shared {
  std::mutex mutex;
  std::map<std::uint64_t, std::unique_ptr<FakeRing>> rings;
  std::uint64_t next_id = 1;
  std::map<int, double> speed;
};

FakeBackend::FakeBackend(FakeScript given, FakeClock& clock)
    : script(std::move(given)), clock_(clock), shared_(std::make_unique<Shared>()) {
  clock_.reading = script.clock_reading;
}
FakeBackend::~FakeBackend() = default;

Machine FakeBackend::machine() {
  Machine machine;
  machine.gpu = script.gpu;
  machine.gpus = script.devices;
  machine.memory_bytes = 80e9;
  machine.link = script.devices > 1 ? "NV18" : "";
  machine.multiprocessors = 100;
  return machine;
}

device::Clocks FakeBackend::clocks(int device) {
  const std::scoped_lock lock(shared_->mutex);
  device::Clocks clocks;
  clocks.sm_max_hz = 2e9;
  const auto known = shared_->speed.find(device);
  clocks.sm_hz = 2e9 * (known == shared_->speed.end() ? script.cold_speed : known->second);
  clocks.temperature = 50;
  clocks.throttled = script.throttled;
  if (script.throttled) clocks.throttle_reason = "power cap";
  return clocks;
}

device::CommunicatorId FakeBackend::make_communicator_id() {
  const std::scoped_lock lock(shared_->mutex);
  device::CommunicatorId id;
  id.bytes.resize(sizeof(std::uint64_t));
  const std::uint64_t number = shared_->next_id++;
  std::memcpy(id.bytes.data(), &number, sizeof number);
  return id;
}

class FakeCommunicator : public device::Communicator {
 public:
  FakeCommunicator(FakeBackend& backend, FakeStreams& streams, FakeRing& ring, int rank, int device)
      : backend_(backend), streams_(streams), ring_(ring), rank_(rank), device_(device) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ring_.ranks; }
  void enqueue(CollectiveKind kind, Buffer buffer, std::int64_t bytes, device::ElementType, int) override {
    if (backend_.script.before) backend_.script.before("enqueue", device_);
    if (bytes > buffer.bytes) throw Error(ErrorKind::failure, "fake backend: buffer too small");
    streams_.clock().advance(backend_.script.collective_host);
    const FakeScript& script = backend_.script;
    if (script.names_choice)
      choice_ = script.collective(kind, bytes, ring_.ranks, ring_.algorithm, ring_.protocol).text;
    streams_.collective(ring_, call_++, [this, kind, bytes](int ranks) {
      return backend_.script.collective(kind, bytes, ranks, ring_.algorithm, ring_.protocol).seconds;
    });
  }
  void check() override {}
  void abort() override {
    const std::scoped_lock lock(ring_.mutex);
    ring_.broken = true;
    ring_.changed.notify_all();
  }
  std::string choice() const override { return choice_; }

 private:
  FakeBackend& backend_;
  FakeStreams& streams_;
  FakeRing& ring_;
  int rank_, device_;
  std::size_t call_ = 0;
  std::string choice_;
};

class FakeProgram : public device::Program {
 public:
  FakeProgram(FakeBackend& backend, FakeStreams& streams, const Model& model,
              const device::BuildOptions& options)
      : backend_(backend), streams_(streams), model_(model), options_(options) {
    report_.activation_bytes = options.batch * 1000;
    report_.workspace_bytes = 4096;
    for (int layer = 0; layer < static_cast<int>(model.layers.size()); ++layer) {
      const Layer& description = model.layers[static_cast<std::size_t>(layer)];
      if (description.kind == LayerKind::input || description.kind == LayerKind::flatten) continue;
      forward_.push_back({layer, Pass::forward});
      const bool has_weights = !description.parameters.empty();
      if (has_weights) backward_.insert(backward_.begin(), {layer, Pass::backward_weights});
      if (layer > 1) backward_.insert(backward_.begin(), {layer, Pass::backward_data});
    }
    std::int64_t offset = 0;
    offsets_.resize(model.parameters.size());
    for (std::size_t p = model.parameters.size(); p-- > 0;) {
      offsets_[p] = offset;
      offset += model.parameters[p].elements;
    }
    gradients_.resize(static_cast<std::size_t>(offset));
  }

  const device::BuildReport& report() const override { return report_; }
  std::span<const device::WorkItem> forward_items() const override { return forward_; }
  std::span<const device::WorkItem> backward_items() const override { return backward_; }
  void issue(const device::WorkItem& item) override {
    if (backend_.script.before) backend_.script.before("issue", 0);
    run(backend_.script.item(model_, item, options_.batch));
  }
  int launches(const device::WorkItem& item) const override {
    return backend_.script.item(model_, item, options_.batch).launches;
  }
  void prepare_weights() override { run(backend_.script.prepare); }
  int prepare_launches() const override { return backend_.script.prepare.launches; }
  void zero_gradients() override { run(backend_.script.zero); }
  int zero_launches() const override { return backend_.script.zero.launches; }
  void update() override { run(backend_.script.update); }
  int update_launches() const override { return backend_.script.update.launches; }
  void set_learning_rate(double) override {}
  void set_gradient_scale(double) override {}
  Buffer gradients() override {
    return {gradients_.data(), static_cast<std::int64_t>(gradients_.size() * sizeof(float))};
  }
  std::int64_t gradient_offset(int parameter) const override {
    return offsets_.at(static_cast<std::size_t>(parameter));
  }
  void set_input(std::span<const float> samples, std::span<const std::int32_t>) override {
    const double seconds = static_cast<double>(samples.size_bytes()) / backend_.script.copy_rate;
    streams_.launch(StreamKind::copy, seconds, 10e-6);
  }
  void synthesize_input(std::uint64_t) override {}
  double loss() override {
    return backend_.script.loss ? backend_.script.loss(options_.optimizer.learning_rate) : 1;
  }
  std::vector<float> read_parameter(int) override { return {}; }
  std::vector<float> read_gradient(int) override { return {}; }
  void write_parameter(int, std::span<const float>) override {}
  std::vector<std::byte> save_state() override { return {}; }
  void load_state(std::span<const std::byte>) override {}
  std::uint64_t checksum() override { return 0; }

 private:
  void run(const FakeTiming& timing) {
    const double noise =
        backend_.script.host_sigma > 0 ? std::exp(backend_.script.host_sigma * random_.normal()) : 1;
    for (int launch = 0; launch < timing.launches; ++launch)
      streams_.launch(StreamKind::compute, timing.device / timing.launches - backend_.script.gap,
                      timing.host * noise / timing.launches);
  }

  FakeBackend& backend_;
  FakeStreams& streams_;
  const Model& model_;
  device::BuildOptions options_;
  device::BuildReport report_;
  std::vector<device::WorkItem> forward_, backward_;
  std::vector<std::int64_t> offsets_;
  std::vector<float> gradients_;
  RandomStream random_{7};
};

class FakeWorker : public device::Worker {
 public:
  FakeWorker(FakeBackend& backend, int device)
      : backend_(backend), device_(device), streams_(backend, backend.clock_, device) {}

  std::unique_ptr<device::Program> build(const Model& model, const device::BuildOptions& options) override {
    if (backend_.script.before) backend_.script.before("build", device_);
    ++backend_.searches;
    held_ = options.batch * 1000 + 8 * model.parameter_count();
    peak_ = held_;
    return std::make_unique<FakeProgram>(backend_, streams_, model, options);
  }

  std::unique_ptr<device::Communicator> join(const device::CommunicatorId& id, int rank, int ranks) override {
    if (backend_.script.before) backend_.script.before("join", device_);
    std::uint64_t number = 0;
    std::memcpy(&number, id.bytes.data(), sizeof number);
    const std::scoped_lock lock(backend_.shared_->mutex);
    std::unique_ptr<FakeRing>& ring = backend_.shared_->rings[number];
    if (!ring) {
      ring = std::make_unique<FakeRing>();
      ring->ranks = ranks;
      const char* algorithm = std::getenv("NCCL_ALGO");
      const char* protocol = std::getenv("NCCL_PROTO");
      ring->algorithm = algorithm ? algorithm : "";
      ring->protocol = protocol ? protocol : "";
      ++backend_.communicators;
    }
    return std::make_unique<FakeCommunicator>(backend_, streams_, *ring, rank, device_);
  }

  Event make_event() override { return {streams_.make_event()}; }
  void record(Event event, StreamKind stream) override { streams_.record(event.id, stream); }
  void wait(StreamKind stream, Event event) override { streams_.wait(stream, event.id); }
  bool reached(Event event) override { return streams_.reached(event.id); }
  double seconds_between(Event from, Event to) override {
    return streams_.time_of(to.id) - streams_.time_of(from.id);
  }
  void synchronize() override {
    for (const StreamKind stream : {StreamKind::compute, StreamKind::communication, StreamKind::copy})
      streams_.finish(stream);
    const std::scoped_lock lock(backend_.shared_->mutex);
    backend_.shared_->speed[device_] = streams_.speed();
  }
  void synchronize(StreamKind stream) override { streams_.finish(stream); }
  void close_gate(StreamKind stream, double most_seconds) override {
    streams_.close_gate(stream, most_seconds);
  }
  void open_gate() override { streams_.open_gate(); }
  void empty_kernel(StreamKind stream) override {
    streams_.launch(stream, backend_.script.empty_kernel, backend_.script.launch_host);
  }
  void spin_kernel(StreamKind stream, double seconds) override {
    streams_.launch(stream, seconds, backend_.script.launch_host);
  }
  void copy(const std::string&, std::int64_t bytes, bool pinned, int) override {
    const double rate = backend_.script.copy_rate * (pinned ? 1 : 0.5);
    streams_.launch(StreamKind::copy,
                    backend_.script.copy_latency + static_cast<double>(bytes) / rate - backend_.script.gap,
                    backend_.script.launch_host);
  }
  Buffer allocate(std::int64_t bytes) override { return {&bytes_, bytes}; }
  void release(Buffer) override {}
  std::int64_t peak_bytes() const override { return peak_; }
  void reset_peak() override { peak_ = held_; }

 private:
  FakeBackend& backend_;
  int device_;
  FakeStreams streams_;
  std::byte bytes_{};
  std::int64_t held_ = 0, peak_ = 0;  // as if a program were never released
};

std::unique_ptr<device::Worker> FakeBackend::make_worker(int device) {
  if (script.before) script.before("make_worker", device);
  return std::make_unique<FakeWorker>(*this, device);
}

}  // namespace foretrain::test
