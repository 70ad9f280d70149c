#include "calibrate/copies.hpp"

#include <algorithm>

#include "calibrate/statistics.hpp"

namespace foretrain::calibrate {
namespace {

using device::Event;
using device::StreamKind;

Sample time_copy(Session& session, EventPool& events, const std::string& direction, std::int64_t bytes,
                 bool pinned, int peer, double seconds) {
  device::Worker& worker = session.worker;
  const StopRule rule{
      .relative_error = 0.01, .least = 11, .most = 100, .seconds = seconds, .least_in_time = 3};
  std::vector<double> times;
  worker.copy(direction, bytes, pinned, peer);  // allocates what it needs
  worker.synchronize();
  const double start = session.clock.now();
  while (!rule.done(times, session.clock.now() - start)) {
    session.check();
    events.reset();
    const Event from = events.take(), to = events.take();
    worker.record(from, StreamKind::copy);
    worker.copy(direction, bytes, pinned, peer);
    worker.record(to, StreamKind::copy);
    worker.synchronize();
    times.push_back(worker.seconds_between(from, to));
  }
  return summarize(std::move(times));
}

struct Path {
  const char* direction;
  bool pinned;
};

std::vector<CopyEntry> measure_paths(Session& session, const std::vector<Path>& paths, int peer,
                                     double seconds) {
  const std::int64_t sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
  const double each = seconds / static_cast<double>(paths.size() * std::size(sizes));
  EventPool events(session.worker);
  std::vector<CopyEntry> entries;
  for (const Path& path : paths) {
    for (const std::int64_t bytes : sizes) {
      entries.push_back({path.direction, bytes, path.pinned,
                         time_copy(session, events, path.direction, bytes, path.pinned, peer, each)});
    }
  }
  return entries;
}

}  // namespace

std::vector<CopyEntry> measure_copies(Session& session, double seconds) {
  return measure_paths(session,
                       {{"host_to_device", true},
                        {"device_to_host", true},
                        {"host_to_device", false},
                        {"device_to_host", false},
                        {"device_to_device", true}},
                       -1, seconds);
}

std::vector<CopyEntry> measure_peer_copies(Session& session, int peer, double seconds) {
  return measure_paths(session, {{"peer", true}}, peer, seconds);
}

PassTiming measure_input_copy(Session& session, device::Program& program, const Model& model,
                              std::int64_t batch, double event_gap, double seconds) {
  device::Worker& worker = session.worker;
  const auto elements = static_cast<std::size_t>(batch * element_count(model.input));
  std::vector<float> samples(model.tokens > 0 ? 0 : elements);
  std::vector<std::int32_t> tokens(model.tokens > 0 ? elements : 0);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch * model.targets()));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(i % 251) / 125.0F - 1;
  const auto count_up = [](std::vector<std::int32_t>& values, std::int64_t below) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % std::max<std::int64_t>(below, 1));
  };
  count_up(tokens, model.tokens);
  count_up(labels, model.classes);
  const auto give = [&] {
    if (model.tokens > 0) {
      program.set_tokens(tokens, labels);
    } else {
      program.set_input(samples, labels);
    }
  };

  const double reading = reading_cost(session.clock);
  EventPool events(worker);
  std::vector<double> device_times, host_times;
  const StopRule rule{.relative_error = 0.01, .least = 9, .most = 60, .seconds = seconds, .least_in_time = 3};
  give();
  worker.synchronize();
  const double start = session.clock.now();
  while (!rule.done(device_times, session.clock.now() - start)) {
    session.check();
    events.reset();
    const Event from = events.take(), to = events.take();
    worker.record(from, StreamKind::copy);
    const double before = session.clock.now();
    give();
    host_times.push_back(std::max(0.0, session.clock.now() - before - reading));
    worker.record(to, StreamKind::copy);
    worker.synchronize();
    device_times.push_back(worker.seconds_between(from, to));
  }
  PassTiming timing;
  timing.device = less(summarize(std::move(device_times)), event_gap);
  timing.host = summarize(std::move(host_times));
  timing.launches = 2;  // samples and labels
  return timing;
}

}  // namespace foretrain::calibrate
