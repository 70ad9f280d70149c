#include "execute/monitor.hpp"

#include <algorithm>
#include <sstream>

#include "execute/process_usage.hpp"
#include "sim/base/quantile.hpp"

namespace foretrain {

Monitor::Monitor(device::Backend& backend, std::vector<int> devices, int node, double interval,
                 std::chrono::steady_clock::time_point begin)
    : backend_(backend),
      devices_(std::move(devices)),
      node_(std::max(0, node)),
      begin_(begin),
      thread_([this, interval] { run(interval); }) {}

Monitor::~Monitor() {
  if (thread_.joinable()) stop(0);
}

void Monitor::run(double interval) {
  std::unique_lock lock(mutex_);
  auto next = std::chrono::steady_clock::now();
  while (!stopped_) {
    if (paused_) {
      time_before_ = -1;
    } else {
      // What the others have used until now belongs to no interval.
      if (watches_others_) time_before_ = -1;
      watches_others_ = false;
      const std::vector<int> watched = watched_;
      lock.unlock();
      sample(watched);
      lock.lock();
    }
    next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(interval));
    next = std::max(next, std::chrono::steady_clock::now());
    changed_.wait_until(lock, next, [this] { return stopped_; });
  }
}

void Monitor::watch(std::vector<int> processes) {
  const std::scoped_lock lock(mutex_);
  if (watched_ == processes) return;
  watched_ = std::move(processes);
  watches_others_ = true;
}

MonitorSeries& Monitor::series(const char* what, const char* unit, int device) {
  const auto found = std::find_if(series_.begin(), series_.end(), [&](const MonitorSeries& each) {
    return each.what == what && each.device == device;
  });
  if (found != series_.end()) return *found;
  MonitorSeries added;
  added.what = what;
  added.unit = unit;
  added.node = node_;
  added.device = device;
  series_.push_back(std::move(added));
  return series_.back();
}

void Monitor::sample(const std::vector<int>& watched) {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const auto add = [&](const char* what, const char* unit, int device, double value) {
    MonitorSeries& to = series(what, unit, device);
    to.time.push_back(now);
    to.value.push_back(value);
  };
  for (int device : devices_) {
    const device::Clocks clocks = backend_.clocks(device);
    if (clocks.use >= 0) add("gpu_use", "fraction", device, clocks.use);
    if (clocks.memory_used >= 0) add("gpu_memory", "bytes", device, clocks.memory_used);
    if (clocks.sm_hz <= 0) continue;
    add("gpu_clock", "Hz", device, clocks.sm_hz);
    add("gpu_clock_max", "Hz", device, clocks.sm_max_hz);
    if (clocks.power_watts > 0) add("gpu_power", "W", device, clocks.power_watts);
    if (clocks.temperature > 0) add("gpu_temperature", "C", device, clocks.temperature);
    if (clocks.throttled) throttles_.push_back({now, device, clocks.throttle_reason});
  }
  const ProcessUsage usage = process_usage(watched);
  const NetworkBytes network = network_bytes();
  add("resident", "bytes", -1, usage.resident_bytes);
  if (time_before_ >= 0 && now > time_before_) {
    const double span = now - time_before_;
    // Children that have ended unawaited, and interfaces that have gone, make a count fall.
    const auto rate = [span](double value, double before) { return std::max(0.0, (value - before) / span); };
    add("cpu", "cores", -1, rate(usage.cpu_seconds, cpu_before_));
    add("network_sent", "bytes/s", -1, rate(network.sent, sent_before_));
    add("network_received", "bytes/s", -1, rate(network.received, received_before_));
  }
  cpu_before_ = usage.cpu_seconds;
  sent_before_ = network.sent;
  received_before_ = network.received;
  time_before_ = now;
}

std::vector<MonitorSeries> Monitor::stop(double first_counted) {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (MonitorSeries& each : series_) {
    for (double& time : each.time) time -= first_counted;
  }
  for (Throttle& each : throttles_) each.time -= first_counted;
  return std::move(series_);
}

std::vector<ClockRecord> clock_records(const std::vector<MonitorSeries>& series,
                                       const std::vector<Monitor::Throttle>& throttles, double end) {
  const auto counts = [end](double time) { return time >= 0 && time <= end; };
  const auto counted = [&](const char* what, int device) {
    std::vector<double> values;
    for (const MonitorSeries& each : series) {
      if (each.what != what || each.device != device) continue;
      for (std::size_t i = 0; i < each.time.size(); ++i)
        if (counts(each.time[i])) values.push_back(each.value[i]);
    }
    return values;
  };
  std::vector<ClockRecord> records;
  for (const MonitorSeries& each : series) {
    if (each.what != "gpu_clock") continue;
    std::vector<double> clocks = counted("gpu_clock", each.device);
    if (clocks.empty()) continue;
    std::sort(clocks.begin(), clocks.end());
    ClockRecord record;
    record.node = each.node;
    record.device = each.device;
    record.samples = static_cast<int>(clocks.size());
    record.sm_hz = quantile(clocks, 0.5);
    record.sm_low_hz = quantile(clocks, 0.05);
    record.sm_max_hz = median(counted("gpu_clock_max", each.device));
    record.power_watts = median(counted("gpu_power", each.device));
    record.temperature = median(counted("gpu_temperature", each.device));
    for (const Monitor::Throttle& throttle : throttles) {
      if (throttle.device != each.device || !counts(throttle.time)) continue;
      record.throttled += 1.0 / record.samples;
      std::istringstream reasons(throttle.reasons);
      for (std::string reason; std::getline(reasons >> std::ws, reason, ',');) {
        auto& known = record.throttle_reasons;
        if (std::find(known.begin(), known.end(), reason) == known.end()) known.push_back(reason);
      }
    }
    record.throttled = std::min(1.0, record.throttled);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace foretrain
