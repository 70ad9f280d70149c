#include "execute/job_validation.hpp"

#include <fmt/format.h>

#include "execute/measured_job.hpp"
#include "execute/resource_use.hpp"
#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/output/result_reader.hpp"

namespace foretrain {
namespace {

std::optional<JobPrediction> stored_job(const FiledRecord& filed, JobRow& row) {
  const auto& prediction = filed.record.prediction;
  if (!prediction || prediction->json.empty()) return std::nullopt;
  try {
    return read_results(prediction->json, filed.file).front().job;
  } catch (const Error& error) {
    row.notes.push_back(fmt::format("the prediction made before cannot be read: {}", error.what()));
    return std::nullopt;
  }
}

class PartRows {
 public:
  PartRows(JobRow& row, const std::optional<JobPrediction>& before, const std::optional<JobPrediction>& now)
      : row_(row), before_(before), now_(now) {}

  // `predicted` reads the part's seconds from a prediction, or nothing.
  template <typename Predicted>
  void add(std::string what, int count, double measured, const Predicted& predicted) {
    JobPartRow part;
    part.what = std::move(what);
    part.count = count;
    part.measured = measured;
    if (before_) part.predicted_before = predicted(*before_);
    if (now_) part.predicted = predicted(*now_);
    const auto judged = part.predicted_before ? part.predicted_before : part.predicted;
    if (judged && measured > 0) part.error = *judged / measured - 1;
    if (measured == 0 && judged.value_or(0) == 0) return;
    row_.parts.push_back(std::move(part));
  }

 private:
  JobRow& row_;
  const std::optional<JobPrediction>&before_, &now_;
};

}  // namespace

std::optional<JobRow> job_row(const FiledRecord& filed, const Repredict& repredict) {
  const MeasuredJob measured = measured_job(filed.record);
  if (measured.phases.empty()) return std::nullopt;
  JobRow row;
  row.file = filed.file;
  row.scenario = filed.record.scenario_name;
  const std::optional<JobPrediction> before = stored_job(filed, row);
  const std::optional<JobPrediction> now = repredict(filed).job;
  const bool is_whole = filed.record.complete && filed.record.resumed_after == 0;
  if (!is_whole) row.notes.emplace_back("only a part of the job was run here: its parts are not judged");
  static const std::optional<JobPrediction> none;
  PartRows rows(row, is_whole ? before : none, is_whole ? now : none);
  for (std::size_t i = 0; i < measured.phases.size(); ++i) {
    const MeasuredPhase& phase = measured.phases[i];
    rows.add(fmt::format("phase {}: batch {} on {}", i + 1, phase.batch, phase.workers),
             static_cast<int>(phase.updates), phase.time,
             [&](const JobPrediction& job) -> std::optional<double> {
               if (job.phases.size() != measured.phases.size() || job.phases[i].updates != phase.updates)
                 return std::nullopt;
               return job.phases[i].time;
             });
  }
  using Part = double JobPrediction::*;
  const auto part = [](Part member) {
    return [member](const JobPrediction& job) { return std::optional(job.*member); };
  };
  rows.add("evaluation", measured.evaluation.count, measured.evaluation.time,
           part(&JobPrediction::evaluation));
  rows.add("checkpoint", measured.checkpoint.count, measured.checkpoint.time,
           part(&JobPrediction::checkpoint));
  rows.add("looks at the loss", measured.adaptation.count, measured.adaptation.time,
           part(&JobPrediction::adaptation));
  rows.add("startup", measured.startup.count, measured.startup.time, part(&JobPrediction::startup));
  rows.add("rescale", measured.rescale.count + measured.rebatch.count,
           measured.rescale.time + measured.rebatch.time, part(&JobPrediction::rescale));
  rows.add("noise scale", measured.noise.count, measured.noise.time,
           [](const JobPrediction&) -> std::optional<double> { return std::nullopt; });
  rows.add("total", 1, measured.total, part(&JobPrediction::time));
  if (const auto memory = checkpoint_memory(filed.record))
    row.notes.push_back(
        fmt::format("while checkpoints were written, resident memory was up to {} above its "
                    "median before them",
                    format_bytes(*memory)));
  if (measured.checkpoint.count == 0 && before && before->checkpoint > 0)
    row.notes.emplace_back("its checkpoints were predicted and not written: run with --checkpoint FILE");
  return row;
}

}  // namespace foretrain
