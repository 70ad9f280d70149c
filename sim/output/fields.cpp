#include "sim/output/fields.hpp"

namespace foretrain {
namespace {

void known_number(FieldVisitor& visitor, std::string_view name, double value) {
  if (value > 0) {
    visitor.number(name, value);
  } else {
    visitor.none(name);
  }
}

void known_text(FieldVisitor& visitor, std::string_view name, std::string_view value) {
  if (value.empty()) {
    visitor.none(name);
  } else {
    visitor.text(name, value);
  }
}

void visit_inputs(const Result& result, FieldVisitor& visitor) {
  visitor.begin_group("inputs");
  for (const ResolvedInput& input : result.inputs) {
    visitor.begin_group(input.path);
    visitor.text("value", input.value);
    visitor.text("origin", name_of(input.origin));
    visitor.flag("default", input.is_default);
    visitor.end_group();
  }
  visitor.end_group();
}

void visit_step(const StepPrediction& step, FieldVisitor& visitor) {
  visitor.begin_group("step");
  visitor.number("time_s", step.time);
  visitor.number("mean_s", step.mean);
  visitor.number("p05_s", step.p05);
  visitor.number("p50_s", step.p50);
  visitor.number("p95_s", step.p95);
  visitor.number("low_s", step.low);
  visitor.number("high_s", step.high);
  visitor.begin_group("breakdown_s");
  visitor.number("forward", step.breakdown.forward);
  visitor.number("backward", step.breakdown.backward);
  visitor.number("optimizer", step.breakdown.optimizer);
  visitor.number("exposed_communication", step.breakdown.exposed_communication);
  visitor.number("waiting", step.breakdown.waiting);
  visitor.number("host", step.breakdown.host);
  visitor.number("input", step.breakdown.input);
  visitor.end_group();
  visitor.end_group();
}

void visit_speed(const Result& result, FieldVisitor& visitor) {
  visitor.begin_group("throughput");
  visitor.number("samples_per_s", result.samples_per_second);
  visitor.text("unit", result.unit);
  visitor.number("units_per_s", result.units_per_second);
  visitor.end_group();
  visitor.begin_group("scaling");
  visitor.number("speedup", result.speedup);
  visitor.number("efficiency", result.efficiency);
  visitor.integer("baseline_workers", result.baseline_workers);
  visitor.end_group();
}

void visit_communication(const Result& result, FieldVisitor& visitor) {
  visitor.begin_group("communication");
  visitor.number("bytes_per_worker", result.communication.bytes_per_worker);
  visitor.integer("collectives", result.communication.collectives);
  visitor.number("busy_s", result.communication.busy);
  visitor.number("exposed_s", result.communication.exposed);
  visitor.number("overlap", result.communication.overlap);
  visitor.end_group();
  visitor.begin_list("links");
  for (const LinkUse& link : result.links) {
    visitor.begin_group("");
    visitor.text("name", link.name);
    visitor.integer("count", link.count);
    visitor.number("bandwidth_Bps", link.bandwidth);
    visitor.number("bytes_per_step", link.bytes_per_step);
    visitor.number("utilisation", link.utilisation);
    visitor.end_group();
  }
  visitor.end_list();
}

void visit_advice(const Result& result, FieldVisitor& visitor) {
  visitor.begin_group("limiting");
  visitor.text("kind", result.limiting.kind);
  known_text(visitor, "link", result.limiting.link);
  visitor.text("text", result.limiting.text);
  visitor.end_group();
  visitor.begin_list("remedies");
  for (const Remedy& remedy : result.remedies) {
    visitor.begin_group("");
    visitor.text("change", remedy.change);
    visitor.number("step_s", remedy.step);
    visitor.number("speedup", remedy.speedup);
    visitor.text("cost", remedy.cost);
    visitor.end_group();
  }
  visitor.end_list();
  if (result.break_even) {
    visitor.begin_group("break_even");
    known_number(visitor, "bandwidth_Bps_next_node", result.break_even->bandwidth_next_node);
    known_number(visitor, "bandwidth_Bps_hidden", result.break_even->bandwidth_hidden);
    visitor.end_group();
  } else {
    visitor.none("break_even");
  }
  visitor.begin_list("sensitivity");
  for (const Sensitivity& each : result.sensitivity) {
    visitor.begin_group("");
    visitor.text("input", each.input);
    visitor.text("change", each.change);
    visitor.number("step_s", each.step);
    visitor.number("speedup", each.speedup);
    visitor.flag("critical", each.critical);
    visitor.end_group();
  }
  visitor.end_list();
}

void visit_device(const Result& result, FieldVisitor& visitor) {
  visitor.begin_group("gpu");
  visitor.number("busy", result.gpu.busy);
  visitor.number("computing", result.gpu.computing);
  visitor.number("communicating", result.gpu.communicating);
  known_number(visitor, "launches", result.gpu.launches);
  known_number(visitor, "launching_s", result.gpu.launching);
  visitor.end_group();
  visitor.begin_group("memory");
  known_number(visitor, "peak_bytes_per_gpu", result.memory.peak);
  visitor.number("parameters", result.memory.parameters);
  visitor.number("gradients", result.memory.gradients);
  visitor.number("optimizer", result.memory.optimizer);
  known_number(visitor, "activations", result.memory.activations);
  visitor.number("workspace", result.memory.workspace);
  visitor.number("buckets", result.memory.buckets);
  known_number(visitor, "capacity_bytes", result.memory.capacity);
  if (result.memory.capacity > 0) {
    visitor.flag("fits", result.memory.fits);
  } else {
    visitor.none("fits");
  }
  visitor.end_group();
}

void visit_sequences(const std::optional<SequenceUse>& use, FieldVisitor& visitor) {
  if (!use) return visitor.none("sequences");
  visitor.begin_group("sequences");
  visitor.text("batching", use->batching);
  visitor.number("useful_length", use->useful_length);
  visitor.number("row_length", use->row_length);
  visitor.number("padding", use->padding);
  visitor.number("useful_units_per_s", use->useful_per_second);
  visitor.number("padded_units_per_s", use->padded_per_second);
  visitor.number("waiting_s", use->waiting);
  visitor.end_group();
}

void visit_speedup(const JobSpeedup& speedup, FieldVisitor& visitor) {
  visitor.begin_group("speedup");
  visitor.text("baseline", speedup.baseline);
  visitor.number("time", speedup.time);
  visitor.number("updates", speedup.updates);
  visitor.number("gpu_hours", speedup.gpu_hours);
  if (speedup.cost) {
    visitor.number("cost", *speedup.cost);
  } else {
    visitor.none("cost");
  }
  visitor.end_group();
}

void visit_target(const JobTarget& target, FieldVisitor& visitor) {
  visitor.begin_group("target");
  visitor.text("what", target.what);
  visitor.number("value", target.value);
  visitor.flag("reached", target.reached);
  known_number(visitor, "updates", target.updates);
  known_number(visitor, "time_s", target.time);
  known_number(visitor, "low_s", target.low);
  known_number(visitor, "high_s", target.high);
  visitor.integer("runs", target.runs);
  visitor.end_group();
}

void visit_progress(const std::vector<JobPoint>& points, FieldVisitor& visitor) {
  visitor.begin_list("progress");
  for (const JobPoint& point : points) {
    visitor.begin_group("");
    visitor.number("time_s", point.time);
    visitor.number("epochs", point.epochs);
    visitor.integer("updates", point.updates);
    visitor.integer("batch", point.batch);
    visitor.integer("workers", point.workers);
    visitor.number("learning_rate", point.learning_rate);
    if (point.value) {
      visitor.number("value", *point.value);
    } else {
      visitor.none("value");
    }
    visitor.end_group();
  }
  visitor.end_list();
}

void visit_job_answers(const JobPrediction& job, FieldVisitor& visitor) {
  if (job.speedup) {
    visit_speedup(*job.speedup, visitor);
  } else {
    visitor.none("speedup");
  }
  if (job.target) {
    visit_target(*job.target, visitor);
  } else {
    visitor.none("target");
  }
  if (job.failures) {
    visitor.begin_group("failures");
    visitor.number("count", job.failures->count);
    visitor.number("lost_s", job.failures->lost);
    visitor.number("restarting_s", job.failures->restarting);
    visitor.integer("draws", job.failures->draws);
    visitor.end_group();
  } else {
    visitor.none("failures");
  }
  known_number(visitor, "checkpoint_bytes", job.checkpoint_bytes);
  known_text(visitor, "samples_law", job.samples_law);
  visitor.text("origin", name_of(job.origin));
  known_text(visitor, "assumption", job.assumption);
  visitor.begin_list("answers");
  for (const std::string& answer : job.answers) visitor.text("", answer);
  visitor.end_list();
  visit_progress(job.progress, visitor);
}

void visit_job(const JobPrediction& job, FieldVisitor& visitor) {
  visitor.begin_group("job");
  visitor.number("time_s", job.time);
  visitor.number("low_s", job.low);
  visitor.number("high_s", job.high);
  visitor.integer("updates", job.updates);
  visitor.number("epochs", job.epochs);
  visitor.number("samples", job.samples);
  visitor.number("gpu_hours", job.gpu_hours);
  if (job.cost) {
    visitor.number("cost", *job.cost);
  } else {
    visitor.none("cost");
  }
  known_text(visitor, "currency", job.currency);
  known_text(visitor, "price_date", job.price_date);
  if (job.energy) {
    visitor.number("energy_J", *job.energy);
  } else {
    visitor.none("energy_J");
  }
  visitor.begin_group("parts_s");
  visitor.number("training", job.training);
  visitor.number("evaluation", job.evaluation);
  visitor.number("checkpoint", job.checkpoint);
  visitor.number("startup", job.startup);
  visitor.number("rescale", job.rescale);
  visitor.number("input", job.input);
  visitor.number("logging", job.logging);
  visitor.number("adaptation", job.adaptation);
  visitor.number("failures", job.failing);
  visitor.end_group();
  visitor.begin_list("phases");
  for (const JobPhase& phase : job.phases) {
    visitor.begin_group("");
    visitor.number("epochs", phase.epochs);
    visitor.integer("batch", phase.batch);
    visitor.integer("workers", phase.workers);
    visitor.number("step_s", phase.step);
    visitor.integer("updates", phase.updates);
    visitor.number("time_s", phase.time);
    visitor.number("samples", phase.samples);
    visitor.number("learning_rate", phase.learning_rate);
    visitor.number("learning_rate_end", phase.learning_rate_end);
    visitor.end_group();
  }
  visitor.end_list();
  visit_job_answers(job, visitor);
  visitor.end_group();
}

}  // namespace

void visit_fields(const Result& result, FieldVisitor& visitor) {
  visitor.text("schema", Result::schema);
  visitor.text("version", FORETRAIN_VERSION);
  visitor.text("scenario", result.scenario);
  known_text(visitor, "question", result.question);
  visitor.text("model", result.model);
  visitor.text("profile", result.profile);
  visitor.text("precision", result.precision);
  visitor.text("strategy", result.strategy);
  visitor.text("topology", result.topology);
  known_text(visitor, "kind", result.kind);
  visitor.integer("seed", static_cast<std::int64_t>(result.seed));
  visitor.flag("complete", result.complete);
  visit_inputs(result, visitor);
  visitor.integer("workers", result.workers);
  visitor.integer("nodes", result.nodes);
  visitor.begin_group("batch");
  visitor.integer("global", result.batch_global);
  visitor.integer("per_worker", result.batch_per_worker);
  visitor.end_group();
  visit_step(result.step, visitor);
  visit_speed(result, visitor);
  visit_communication(result, visitor);
  visit_advice(result, visitor);
  visit_device(result, visitor);
  visit_sequences(result.sequences, visitor);
  if (result.job) {
    visit_job(*result.job, visitor);
  } else {
    visitor.none("job");
  }
  visitor.begin_list("warnings");
  for (const std::string& warning : result.warnings) visitor.text("", warning);
  visitor.end_list();
  visitor.begin_list("extrapolated");
  for (const Extrapolation& extrapolation : result.extrapolated) {
    visitor.begin_group("");
    visitor.text("what", extrapolation.what);
    visitor.text("asked", extrapolation.asked);
    visitor.text("range", extrapolation.range);
    visitor.end_group();
  }
  visitor.end_list();
}

}  // namespace foretrain
