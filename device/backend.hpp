// What computes and communicates: one interface for the backends cuda, cpu and reference. A backend is a
// module, libforetrain_<name>.so, opened by calibrate and run only (device/registry.hpp); the program itself
// links none.
//
// Threads: a Worker and all it made belong to one thread at a time. Workers of one process run in parallel.
// Errors: every call throws foretrain::Error with the failing library call, its file and line.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/network/collective_kind.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::device {

enum class StreamKind { compute, communication, copy };
using foretrain::CollectiveKind;
enum class ElementType { fp32, bf16, fp16, fp64 };

// A marker in a stream; belongs to the worker that made it.
struct Event {
  int id = -1;
};

// A device allocation. Offsets and sizes of views are in bytes.
struct Buffer {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

class Program;

// Elements first to last, this one excluded, of a program's flat buffers.
struct FlatRange {
  std::int64_t first = 0, last = 0;
};

struct BuildOptions {
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
  ElementType gradients = ElementType::fp32;
  Optimizer optimizer;
  bool deterministic = false;
  std::uint64_t seed = 1;     // initial weights (initial_weights.hpp)
  int plan_candidates = 3;    // plans timed, best heuristics first; 1 if deterministic
  bool gathers_rows = false;  // gather_rows and add_rows are used
  // Another program of the same parameters, precision and worker that differs in its batch or the length of
  // its sequences, and lives longer: weights, gradients, optimizer state and running statistics are common to
  // both, and so may be memory for activations: the passes of a step of one are over before the other's
  // begin. After an update by one the other needs weights_updated_elsewhere() before its next use.
  Program* shares = nullptr;
};

struct BuildReport {
  double plan_search_seconds = 0;
  std::int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, activation_bytes = 0,
               workspace_bytes = 0;
};

// One unit of device work of a step, in issue order: a layer's pass. Backends may fuse: a layer whose work
// runs in a neighbour's kernel has none of its own, and is not listed (cuda: a relu, or an add and a relu,
// after a batch_norm; a relu after a conv2d or linear with a bias; flatten; the backward pass of add and of
// the loss). A layer's backward_weights item comes before its backward_data item.
struct WorkItem {
  int layer = -1;
  Pass pass = Pass::forward;
};

// A model built for one batch and precision on one worker: parameters, gradients (one flat buffer), optimizer
// state, activations and workspace. All calls enqueue on the compute stream and return at once.
class Program {
 public:
  virtual ~Program() = default;
  virtual const BuildReport& report() const = 0;

  // Layer passes in the order in which a step issues them: all forward items, then all backward items. A
  // layer's parameters' gradients are complete after its backward_weights item.
  virtual std::span<const WorkItem> forward_items() const = 0;
  virtual std::span<const WorkItem> backward_items() const = 0;
  virtual void issue(const WorkItem& item) = 0;
  // Kernel launches (and memset or copy calls) that issue(item) makes.
  virtual int launches(const WorkItem& item) const = 0;

  // Before forward_items: what belongs to the step and to no layer. Both may be no work at all.
  virtual void prepare_weights() = 0;  // master weights to the compute precision
  virtual int prepare_launches() const = 0;
  virtual void zero_gradients() = 0;
  virtual int zero_launches() const = 0;

  virtual void update() = 0;  // optimizer, all parameters
  virtual int update_launches() const = 0;
  // Only parameters in these parts of the flat buffers, which ascend; others may be updated as well.
  virtual void update_parts(std::span<const FlatRange> parts) {
    (void)parts;
    update();
  }
  // Before a recorded update is issued: enqueues what differs from one update to the next (the learning rate,
  // the scale of the gradients, the optimizer's count), which stays outside of the recording.
  virtual void prepare_recorded_update() {}
  virtual void set_learning_rate(double rate) = 0;
  // Multiplies the gradients by a factor as part of the next update (1 / workers under data parallelism).
  virtual void set_gradient_scale(double factor) = 0;

  // The flat gradient buffer: parameter p occupies [gradient_offset(p), + elements) elements of type
  // BuildOptions::gradients. Parameters lie in reverse registration order, so that buckets are contiguous; a
  // backend may align each parameter's start, and then the gaps hold zeros.
  virtual Buffer gradients() = 0;
  virtual std::int64_t gradient_offset(int parameter) const = 0;  // in elements

  // The flat buffer of the weights that the optimizer updates, laid out as gradients() in elements of
  // weight_type(). Who writes to it from outside (a broadcast, a checkpoint) enqueues weights_changed()
  // before the next use.
  virtual Buffer weights() { throw Error(ErrorKind::unavailable, "this backend lends out no weights"); }
  virtual ElementType weight_type() const { return ElementType::fp32; }
  virtual void weights_changed() {}
  // Before the next use where another program that shares the weights has updated them.
  virtual void weights_updated_elsewhere() { weights_changed(); }
  // From now on backward_weights adds to the gradients (true) or sets them (false, as at first).
  virtual void accumulate_gradients(bool adds) {
    if (adds) throw Error(ErrorKind::unavailable, "this backend does not accumulate gradients");
  }

  // The gradient of an embedding's table as rows and numbers (device/sparse_table.hpp), of the batch that
  // lies on the device, after the backward pass of all layers that use the table. gather_rows: this rank's
  // into `part`, of sparse_bytes. add_rows: the sum of the parts of all ranks, in their order, becomes the
  // gradient.
  virtual std::int64_t sparse_bytes(int parameter) const {
    (void)parameter;
    throw Error(ErrorKind::unavailable, "this backend gathers no rows of tables");
  }
  virtual void gather_rows(int parameter, Buffer part) { (void)parameter, (void)part; }
  virtual void add_rows(int parameter, Buffer parts, int ranks) { (void)parameter, (void)parts, (void)ranks; }

  // Input of the next step: images as fp32 NCHW, batch x channels x height x width, and class indices.
  // from_host copies on the copy stream from pinned memory and makes compute wait for it.
  virtual void set_input(std::span<const float> samples, std::span<const std::int32_t> labels) = 0;
  // As set_input for a model of tokens: batch x streams x sequence of them, and for each position the class
  // that is due, -1 where none is. A backend that runs no such model throws Error (unavailable).
  virtual void set_tokens(std::span<const std::int32_t>, std::span<const std::int32_t>) {
    throw Error(ErrorKind::unavailable, "this backend takes no tokens");
  }
  virtual void synthesize_input(std::uint64_t seed) = 0;  // random, on the device; stays until set again

  virtual double loss() = 0;  // synchronizes
  // Parameter, gradient, momentum in registration order and in the layout of Parameter::shape; synchronizes.
  virtual std::vector<float> read_parameter(int parameter) = 0;
  virtual std::vector<float> read_gradient(int parameter) = 0;
  virtual void write_parameter(int parameter, std::span<const float> values) = 0;
  // Everything that a checkpoint must hold besides parameters: momentum, running statistics, counters.
  virtual std::vector<std::byte> save_state() = 0;
  virtual void load_state(std::span<const std::byte> state) = 0;
  virtual std::uint64_t checksum() = 0;  // of all parameters; equal replicas have equal sums
};

// Opaque name of a communicator, made by one rank and passed to the others.
struct CommunicatorId {
  std::vector<std::byte> bytes;
};

// Work of the compute stream recorded once, to be issued again as one launch.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void issue() = 0;
  virtual std::int64_t nodes() const { return 0; }  // kernels and copies in it; 0: not known
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Enqueues on the communication stream. `bytes` is the size as nccl-tests count it: the whole vector of one
  // rank for all_reduce, broadcast and reduce; the gathered or unscattered whole for all_gather and
  // reduce_scatter; all that a rank sends for all_to_all; the message for send_recv (to the next rank, from
  // the one before). In place where the library allows; what all_to_all and send_recv receive lies behind
  // what they send where the buffer has room for both, else where the backend likes.
  virtual void enqueue(CollectiveKind kind, Buffer buffer, std::int64_t bytes, ElementType type,
                       int root = 0) = 0;
  // Throws where the library reports an asynchronous error; names the rank.
  virtual void check() = 0;
  virtual void abort() = 0;
  // Choice of algorithm the library logged for the last collective ("RING", "SIMPLE", channels), empty where
  // unknown.
  virtual std::string choice() const = 0;
};

class Worker {
 public:
  virtual ~Worker() = default;
  virtual std::unique_ptr<Program> build(const Model& model, const BuildOptions& options) = 0;
  virtual std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks) = 0;

  // Records what work() enqueues on the compute stream: passes and updates of a program, nothing else, and
  // none of it runs. What work() refers to outlives the recording. Each recorded Program::update needs
  // Program::prepare_recorded_update before it is issued. Error (unavailable) where it cannot be recorded.
  virtual std::unique_ptr<Recording> record_work(std::function<void()> work) {
    (void)work;
    throw Error(ErrorKind::unavailable, "this backend records no work");
  }

  virtual Event make_event() = 0;
  virtual void record(Event event, StreamKind stream) = 0;
  virtual void wait(StreamKind stream, Event event) = 0;
  virtual bool reached(Event event) = 0;
  virtual double seconds_between(Event from, Event to) = 0;  // both must have been reached
  virtual void synchronize() = 0;                            // the whole device
  virtual void synchronize(StreamKind stream) = 0;

  // A gate closes a stream until open_gate: the host can fill the queue before the device starts. A gate that
  // is not opened within `most_seconds` opens itself; that is what the host waits for where the queue is
  // full.
  virtual void close_gate(StreamKind stream, double most_seconds = 1) = 0;
  virtual void open_gate() = 0;

  // One tiny kernel, and one that keeps a single multiprocessor busy for about the time given.
  virtual void empty_kernel(StreamKind stream) = 0;
  virtual void spin_kernel(StreamKind stream, double seconds) = 0;
  // Copies between host (pinned or not), device and, where peer >= 0, another device of this process.
  virtual void copy(const std::string& direction, std::int64_t bytes, bool pinned, int peer) = 0;

  virtual Buffer allocate(std::int64_t bytes) = 0;  // freed with the worker or by release
  virtual void release(Buffer buffer) = 0;
  // Between host and device; the device is idle before and after. As given: a buffer in host memory.
  virtual void write(Buffer to, std::span<const std::byte> from) {
    if (!from.empty()) std::memcpy(to.data, from.data(), from.size());
  }
  virtual void read(Buffer from, std::span<std::byte> to) {
    if (!to.empty()) std::memcpy(to.data(), from.data, to.size());
  }
  virtual std::int64_t peak_bytes() const = 0;  // of this worker's allocations since reset_peak
  virtual void reset_peak() = 0;
};

struct Clocks {
  double sm_hz = 0, sm_max_hz = 0;
  double temperature = 0;  // degrees Celsius
  double power_watts = 0;
  double use = -1;          // fraction of the last sampling period in which a kernel ran; -1: not known
  double memory_used = -1;  // bytes, of all processes; -1: not known
  bool throttled = false;
  std::string throttle_reason;
};

class Backend {
 public:
  static constexpr int abi = 2;
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual int device_count() = 0;  // 0 where no device answers
  virtual Machine machine() = 0;   // as of now, with versions and environment
  virtual Clocks clocks(int device) = 0;
  virtual std::unique_ptr<Worker> make_worker(int device) = 0;
  virtual CommunicatorId make_communicator_id() = 0;
  // Asks the library to log its choice of algorithm for each collective, for Communicator::choice(); before
  // the first join, and at the cost of host time a collective. No effect where the library keeps no such log.
  virtual void log_choices() {}
};

}  // namespace foretrain::device

// Every module exports this. Returns nullptr where `wanted_abi` differs from Backend::abi.
extern "C" foretrain::device::Backend* foretrain_backend(int wanted_abi);
