#include "execute/measured_job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "execute/noise_scale.hpp"

namespace foretrain {
namespace {

void add(MeasuredPart& part, double seconds) {
  part.time += seconds;
  ++part.count;
}

std::string each(const MeasuredPart& part) {
  return fmt::format("{:.6f} s", part.time / std::max(1, part.count));
}

// By so much that a prediction begins a phase (sim/job/timeline).
bool has_grown(std::int64_t from, std::int64_t to) {
  constexpr double grown = 1.1;
  return static_cast<double>(to) >= grown * static_cast<double>(from);
}

}  // namespace

MeasuredJob measured_job(const RunRecord& record) {
  MeasuredJob out;
  std::int64_t done = record.resumed_after, updates = 0;
  for (const RankRecord& rank : record.ranks)
    updates = std::max(updates, static_cast<std::int64_t>(rank.step.size()));
  std::vector<const RunEvent*> phases;
  for (const RunEvent& event : record.events) {
    if (event.what == "phase") phases.push_back(&event);
  }
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const RunEvent& phase = *phases[i];
    MeasuredPhase made{phase.batch, 0, phase.workers, phase.end - phase.begin};
    out.total = phase.end;
    made.updates = i + 1 < phases.size() ? phases[i + 1]->step - phase.step : updates - (phase.step - done);
    for (const RunEvent& event : record.events) {
      const bool pauses = event.what == "evaluation" || event.what == "checkpoint" ||
                          event.what == "noise scale" || event.what == "adaptation";
      if (pauses && event.begin >= phase.begin && event.end <= phase.end)
        made.time -= event.end - event.begin;
    }
    if (!out.phases.empty() && phase.phase >= 0 && phase.phase == phases[i - 1]->phase &&
        made.workers == out.phases.back().workers && !has_grown(out.phases.back().batch, made.batch)) {
      out.phases.back().updates += made.updates;
      out.phases.back().time += made.time;
      continue;
    }
    out.phases.push_back(made);
  }
  int workers = out.phases.empty() ? 0 : out.phases.front().workers;
  for (const RunEvent& event : record.events) {
    const double seconds = event.end - event.begin;
    if (event.what == "evaluation") add(out.evaluation, seconds);
    if (event.what == "noise scale") add(out.noise, seconds);
    if (event.what == "adaptation") add(out.adaptation, seconds);
    if (event.what == "startup") add(out.startup, seconds);
    if (event.what == "checkpoint") {
      add(out.checkpoint, seconds);
      if (event.bytes == 0) --out.checkpoint.count;  // the wait for the last one
      out.checkpoint_bytes += event.bytes;
      if (seconds > 0) out.snapshot_rate = std::max(out.snapshot_rate, event.bytes / seconds);
    }
    if (event.what == "checkpoint write") {
      add(out.write, seconds);
      out.write_bytes += event.bytes;
    }
    if (event.what == "rescale") {
      add(event.workers != workers ? out.rescale : out.rebatch, seconds);
      workers = event.workers;
    }
  }
  return out;
}

std::vector<std::string> cost_settings(const RunRecord& record, const Job& job) {
  const MeasuredJob measured = measured_job(record);
  std::vector<std::string> out;
  if (measured.startup.count > 0) out.push_back("job.startup=" + each(measured.startup));
  if (measured.rescale.count > 0) out.push_back("job.rescale=" + each(measured.rescale));
  if (measured.rebatch.count > 0) out.push_back("job.rebatch=" + each(measured.rebatch));
  const bool beside = measured.write.time > 0;
  if (job.checkpoint && measured.checkpoint.time > 0 && beside == job.checkpoint->asynchronous) {
    const double rate = beside ? measured.write_bytes / measured.write.time
                               : measured.checkpoint_bytes / measured.checkpoint.time;
    out.push_back(fmt::format("job.checkpoint.write={:.3f} MB/s", rate / 1e6));
    if (beside)
      out.push_back(fmt::format("job.checkpoint.snapshot={:.3f} MB/s", measured.snapshot_rate / 1e6));
    out.push_back(
        fmt::format("job.checkpoint.size={:.0f} B", measured.checkpoint_bytes / measured.checkpoint.count));
  }
  const auto noise = noise_scale(record.noise_looks);
  if (noise && job.samples.kind == SamplesLaw::Kind::gradient_noise)
    out.push_back(fmt::format("job.samples.scale={:.6g}", noise->scale));
  return out;
}

}  // namespace foretrain
