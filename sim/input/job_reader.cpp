#include "sim/input/job_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/input/job_schema.hpp"
#include "sim/input/scalars.hpp"

namespace foretrain {
namespace {

class JobReader {
 public:
  JobReader(const Fields& job, const JobContext& context, Diagnostics& diagnostics)
      : job_(job), context_(context), diagnostics_(diagnostics) {}

  Job read() {
    made_.epochs = job_.number("epochs").value_or(0);
    const std::string last = job_.text("last_batch").value_or("keep");
    made_.last_batch = last == "drop"    ? LastBatch::drop
                       : last == "carry" ? LastBatch::carry
                                         : LastBatch::keep;
    made_.startup = seconds(job_, "startup");
    made_.rescale = seconds(job_, "rescale");
    made_.rebatch = seconds(job_, "rebatch");
    read_events();
    read_price();
    made_.power = job_.power("power");
    read_workers(job_.fields("workers"), made_.workers);
    if (made_.workers.fixed && context_.workers > 0 && *made_.workers.fixed > context_.workers)
      refuse(job_.fields("workers").where("fixed"),
             fmt::format("fixed: {} workers, the cluster has {}", *made_.workers.fixed, context_.workers));
    read_curve();
    read_schedule();
    read_learning_rate();
    read_samples();
    read_target();
    return std::move(made_);
  }

 private:
  static double seconds(const Fields& fields, const char* key) {
    return fields.job_time(key).value_or(JobTime()).in_seconds();
  }
  void refuse(const SourceLocation& where, std::string what) { diagnostics_.error(where, std::move(what)); }

  void read_events() {
    if (job_.has("evaluate")) {
      const Fields from = job_.fields("evaluate");
      made_.evaluate =
          Evaluation{from.interval("every").value_or(Interval()), from.integer("samples").value_or(0),
                     from.integer("batch_per_worker").value_or(0), from.text("workers") == "one"};
    }
    if (job_.has("checkpoint")) {
      const Fields from = job_.fields("checkpoint");
      Checkpoint made{from.interval("every").value_or(Interval()),
                      from.rate("write").value_or(Rate()),
                      from.bytes("size"),
                      false,
                      Rate(),
                      Rate()};
      made.asynchronous = from.text("mode") == "async";
      made.snapshot = from.rate("snapshot").value_or(Rate());
      made.read = from.rate("read").value_or(made.write);
      made_.checkpoint = made;
    }
    if (job_.has("log")) {
      const Fields from = job_.fields("log");
      made_.log = Logging{from.interval("every").value_or(Interval()), seconds(from, "time")};
    }
    if (job_.has("failures")) {
      const Fields from = job_.fields("failures");
      const std::string of = from.text("of").value_or("gpu");
      made_.failures = Failures{seconds(from, "mean_time"),
                                of == "node"  ? Failures::Unit::node
                                : of == "job" ? Failures::Unit::job
                                              : Failures::Unit::gpu,
                                seconds(from, "restart")};
    }
    if (job_.has("warmup")) {
      const Fields from = job_.fields("warmup");
      made_.warmup = WarmUp{from.integer("updates").value_or(0), from.number("factor").value_or(1)};
    }
  }

  void read_price() {
    const Value* price = job_.find("price");
    if (price == nullptr) return;
    const Fields map = job_.fields("price");
    const std::string text = price->is_map() ? map.text("amount").value_or("") : price->text;
    const auto parsed = parse_price(text);
    if (const auto* read = std::get_if<Price>(&parsed)) {
      made_.price = *read;
      if (price->is_map()) made_.price->date = map.text("date").value_or("");
    }
  }

  static void read_workers(const Fields& from, WorkerRule& rule) {
    if (const auto fixed = from.integer("fixed")) rule.fixed = clamped(*fixed);
    if (const auto share = from.integer("samples_per_worker")) rule.samples_per_worker = share;
    if (const auto most = from.integer("most")) rule.most = clamped(*most);
    if (const auto budget = from.gpu_hours("budget")) rule.budget = budget;
  }

  static int clamped(std::int64_t workers) {
    constexpr std::int64_t many = 1 << 20;
    return static_cast<int>(std::clamp<std::int64_t>(workers, 1, many));
  }

  void read_curve() {
    const auto name = job_.text("curve");
    if (!name || !job_.has("curve")) return;
    const SourceLocation where = job_.where("curve");
    const std::filesystem::path path = path_beside(where.file, *name);
    try {
      made_.curve = parse_curve(read_file_limited(path), path.string(), diagnostics_);
    } catch (const Error& wrong) {
      refuse(where, fmt::format("curve: {}", wrong.what()));
    }
  }

  void check_batch(std::int64_t batch, const SourceLocation& where) {
    if (context_.samples > 0 && batch > context_.samples) {
      refuse(where, fmt::format("the global batch of {} samples is above the data set of {}", batch,
                                context_.samples));
    }
  }

  void read_schedule() {
    const Value* schedule = job_.find("schedule");
    if (schedule == nullptr) return;
    made_.schedule.emplace();
    if (schedule->is_sequence()) {
      read_phases(*schedule);
    } else if (schedule->is_map()) {
      read_rule(Fields(schedule, schedule_rule_schema()));
    }
    for (const SchedulePhase& phase : made_.schedule->phases) {
      if (phase.workers && context_.workers > 0 && *phase.workers > context_.workers) {
        refuse(schedule->where(), fmt::format("workers: a phase wants {}, the cluster has {}", *phase.workers,
                                              context_.workers));
      }
      if (phase.workers && *phase.workers > phase.batch) {
        refuse(schedule->where(),
               fmt::format("workers: {} of them cannot share a batch of {}", *phase.workers, phase.batch));
      }
    }
  }

  void read_phases(const Value& list) {
    if (list.items.empty()) refuse(list.where(), "schedule: the list is empty");
    for (const Value& item : list.items) {
      const Fields from(&item, schedule_phase_schema());
      SchedulePhase phase;
      phase.from = from.interval("from").value_or(Interval());
      phase.batch = from.integer("batch").value_or(1);
      if (const auto workers = from.integer("workers")) phase.workers = clamped(*workers);
      phase.learning_rate = from.number("learning_rate");
      if (phase.from.unit == Interval::Unit::time) {
        refuse(from.where("from"), "from: a phase begins at an epoch or an update, as in '60 epochs'");
      }
      check_batch(phase.batch, from.where("batch"));
      auto& phases = made_.schedule->phases;
      if (phases.empty() && phase.from.amount != 0) {
        refuse(from.where("from"), "from: the first phase begins at '0 epoch'");
      } else if (!phases.empty() &&
                         (phase.from.unit == phases.back().from.unit || phases.back().from.amount == 0)
                     ? !phases.empty() && phase.from.amount <= phases.back().from.amount
                     : !phases.empty()) {
        refuse(from.where("from"), "from: phases follow each other, all in epochs or all in updates");
      }
      phases.push_back(phase);
    }
  }

  // A batch that has grown, rounded up and at most the largest; the learning rate falls beyond.
  void add_grown(const Interval& from, double grown, std::optional<std::int64_t> most) {
    constexpr double beyond_any = 1e15;
    SchedulePhase phase;
    phase.from = from;
    // A product of factors such as 1.1 may lie a rounding above a whole number.
    phase.batch = static_cast<std::int64_t>(std::ceil(std::min(grown, beyond_any) * (1 - 1e-12)));
    if (most && phase.batch > *most) {
      phase.learning_rate_factor = static_cast<double>(*most) / static_cast<double>(phase.batch);
      phase.batch = *most;
    }
    made_.schedule->phases.push_back(phase);
  }

  void read_rule(const Fields& from) {
    Schedule& schedule = *made_.schedule;
    schedule.name = from.text("rule").value_or("");
    schedule.batch = from.integer("batch").value_or(1);
    schedule.max_batch = from.integer("max_batch");
    schedule.rate = from.number("rate").value_or(0);
    schedule.dwell = from.integer("dwell").value_or(1);
    schedule.loss_samples = from.integer("loss_samples").value_or(context_.samples);
    if (const auto share = from.integer("samples_per_worker")) made_.workers.samples_per_worker = share;
    check_batch(schedule.batch, from.where("batch"));
    if (schedule.max_batch) check_batch(*schedule.max_batch, from.where("max_batch"));
    if (schedule.max_batch && *schedule.max_batch < schedule.batch) {
      refuse(from.where("max_batch"), "max_batch: is below the batch at the beginning");
    }
    auto need = [&](const char* key) {
      if (from.has(key)) return true;
      refuse(from.where("rule"), fmt::format("schedule: {} needs '{}'", schedule.name, key));
      return false;
    };
    const bool is_geo = schedule.name == "geodamp", is_milestones = schedule.name == "milestones";
    const std::vector<std::pair<const char*, bool>> belongs{{"factor", is_geo || is_milestones},
                                                            {"delay", is_geo},
                                                            {"at", is_milestones},
                                                            {"rate", schedule.name == "padadamp"},
                                                            {"dwell", !is_geo && !is_milestones},
                                                            {"loss_samples", schedule.name == "adadamp"}};
    for (const auto& [key, belonging] : belongs) {
      if (!belonging && from.has(key)) {
        refuse(from.where(key), fmt::format("{}: {} has none", key, schedule.name));
      }
    }
    if (is_geo && need("factor") && need("delay")) grow_by_delay(from);
    if (is_milestones && need("factor") && need("at")) grow_at_milestones(from);
    if (schedule.name == "padadamp") {
      need("rate");
      schedule.rule = Schedule::Rule::padadamp;
    }
    if (schedule.name == "adadamp") {
      schedule.rule = Schedule::Rule::adadamp;
      // Without a curve the job cannot be predicted; a run sees the loss itself.
      if (made_.curve && made_.curve->is_accuracy) {
        refuse(job_.where("curve"), "curve: adadamp needs a loss, this is an accuracy");
      }
    }
  }

  void grow_by_delay(const Fields& from) {
    const Interval delay = from.interval("delay").value_or(Interval());
    const double factor = from.number("factor").value_or(1);
    if (delay.unit != Interval::Unit::epochs) {
      refuse(from.where("delay"), "delay: in epochs, as in '60 epochs'");
      return;
    }
    constexpr double most_turns = 100'000;
    const double turns = made_.epochs / delay.amount;
    if (turns > most_turns) {
      refuse(from.where("delay"),
             "delay: the batch would change more than 100,000 times: take a longer delay");
      return;
    }
    double grown = static_cast<double>(made_.schedule->batch);
    for (int turn = 0; turn < turns; ++turn, grown *= factor) {
      add_grown({Interval::Unit::epochs, turn * delay.amount}, grown, made_.schedule->max_batch);
      if (turn > 0 && !made_.schedule->max_batch)
        check_batch(made_.schedule->phases.back().batch, from.where("factor"));
    }
  }

  void grow_at_milestones(const Fields& from) {
    const double factor = from.number("factor").value_or(1);
    double grown = static_cast<double>(made_.schedule->batch);
    add_grown({}, grown, made_.schedule->max_batch);
    for (const Interval& at : milestones(from, "at")) {
      grown *= factor;
      add_grown(at, grown, made_.schedule->max_batch);
      if (!made_.schedule->max_batch) check_batch(made_.schedule->phases.back().batch, from.where("at"));
    }
  }

  std::vector<Interval> milestones(const Fields& from, const char* key) {
    std::vector<Interval> all;
    const Value* list = from.find(key);
    if (list == nullptr || !list->is_sequence()) return all;
    for (const Value& item : list->items) {
      const auto parsed = parse_interval(item.text);
      const auto* read = std::get_if<Interval>(&parsed);
      if (read == nullptr) {
        refuse(item.where(), fmt::format("{}: {}", key, std::get<UnitError>(parsed).what));
      } else if (read->unit == Interval::Unit::time) {
        refuse(item.where(), fmt::format("{}: takes epochs or updates", key));
      } else if (!all.empty() && (read->unit != all.back().unit || read->amount <= all.back().amount)) {
        refuse(item.where(), fmt::format("{}: milestones ascend, all in epochs or all in updates", key));
      } else {
        all.push_back(*read);
      }
    }
    return all;
  }

  void read_learning_rate() {
    const Fields from = job_.fields("learning_rate");
    LearningRateLaw& law = made_.learning_rate;
    const std::string name = from.text("law").value_or("constant");
    law.kind = name == "steps"    ? LearningRateLaw::Kind::steps
               : name == "noam"   ? LearningRateLaw::Kind::noam
               : name == "cosine" ? LearningRateLaw::Kind::cosine
                                  : LearningRateLaw::Kind::constant;
    law.factor = from.number("factor").value_or(1);
    law.dimension = static_cast<double>(from.integer("dimension").value_or(512));
    law.least = from.number("least").value_or(0);
    law.warmup = from.interval("warmup").value_or(Interval());
    law.at = milestones(from, "at");
    if (law.warmup.unit == Interval::Unit::time) {
      refuse(from.where("warmup"), "warmup: takes epochs or updates");
    }
    if (law.kind == LearningRateLaw::Kind::noam &&
        (law.warmup.unit != Interval::Unit::updates || law.warmup.amount < 1)) {
      refuse(from.where("law"),
             "learning_rate: noam needs its warm-up in updates, as in 'warmup: 8000 updates'");
    }
    if (law.kind == LearningRateLaw::Kind::steps && law.at.empty()) {
      refuse(from.where("law"), "learning_rate: steps needs 'at', as in 'at: [30 epochs, 60 epochs]'");
    }
  }

  void read_samples() {
    const Fields from = job_.fields("samples");
    const std::string name = from.text("law").value_or("fixed_epochs");
    SamplesLaw& law = made_.samples;
    law.given = job_.has("samples");
    law.kind = name == "critical_batch"   ? SamplesLaw::Kind::critical_batch
               : name == "gradient_noise" ? SamplesLaw::Kind::gradient_noise
                                          : SamplesLaw::Kind::fixed_epochs;
    law.scale = from.number("scale").value_or(0);
    law.reference_batch = from.integer("reference_batch").value_or(0);
    if (law.kind != SamplesLaw::Kind::fixed_epochs && law.scale <= 0) {
      refuse(from.where("law"), fmt::format("samples: {} needs its 'scale' in samples", name));
    }
  }

  void read_target() {
    if (!job_.has("target")) return;
    const Fields from = job_.fields("target");
    if (from.has("loss") == from.has("accuracy")) {
      refuse(job_.where("target"), "target: give 'loss' or 'accuracy'");
      return;
    }
    made_.target =
        Target{from.has("accuracy"), from.number(from.has("loss") ? "loss" : "accuracy").value_or(0)};
    if (!job_.has("curve")) {
      refuse(job_.where("target"), "target: needs the curve on which it is found: add 'curve: FILE.csv'");
    } else if (made_.curve && made_.curve->is_accuracy != made_.target->is_accuracy) {
      refuse(job_.where("target"), "target: the curve is of the other kind");
    }
  }

  const Fields& job_;
  const JobContext& context_;
  Diagnostics& diagnostics_;
  Job made_;
};

}  // namespace

Job read_job(const Fields& job, const JobContext& context, Diagnostics& diagnostics) {
  return JobReader(job, context, diagnostics).read();
}

InputPipeline read_input(const Fields& input, Diagnostics& diagnostics) {
  InputPipeline made;
  made.read = input.rate("read").value_or(Rate());
  made.cached = input.rate("cached").value_or(made.read);
  made.sample = input.bytes("sample").value_or(Bytes());
  made.decode = input.time("decode").value_or(Time()).in_seconds();
  made.workers = static_cast<int>(std::min<std::int64_t>(input.integer("workers").value_or(1), 1 << 20));
  made.prefetch = static_cast<int>(std::min<std::int64_t>(input.integer("prefetch").value_or(2), 1 << 20));
  made.to_device = input.boolean("prefetch_to_device").value_or(false);
  if ((input.has("read") || input.has("cached")) && !input.has("sample")) {
    diagnostics.error(input.where("read"),
                      "input: a rate needs the size of a sample, as in 'sample: 110 kB'");
  }
  return made;
}

HostDescription read_host(const Fields& host) {
  HostDescription made;
  made.one_process = host.text("processes") == "one";
  made.process_a_worker = host.text("processes") == "per_gpu";
  made.threads = static_cast<int>(std::min<std::int64_t>(host.integer("threads").value_or(1), 1 << 20));
  made.cores = static_cast<int>(std::min<std::int64_t>(host.integer("cores").value_or(0), 1 << 20));
  made.shared = host.boolean("shared").value_or(false);
  return made;
}

Observed read_observed(const Fields& observed, Diagnostics& diagnostics) {
  Observed made;
  if (const auto step = observed.time("step")) made.step = step->in_seconds();
  made.network = observed.rate("network");
  const std::string direction = observed.text("direction").value_or("");
  made.direction = direction == "each"  ? Observed::Direction::each
                   : direction == "sum" ? Observed::Direction::sum
                                        : Observed::Direction::unknown;
  made.gpu_busy = observed.number("gpu_busy");
  made.processor = observed.number("processor");
  made.checkpoint = observed.bytes("checkpoint");
  made.tolerance = observed.number("tolerance").value_or(0.1);
  if (const Value* open = observed.find("open"); open != nullptr && open->is_sequence()) {
    for (const Value& item : open->items) {
      const std::vector<std::string> known{"batch", "gradients", "bandwidth", "strategy"};
      if (std::find(known.begin(), known.end(), item.text) == known.end()) {
        diagnostics.error(
            item.where(),
            fmt::format("open: '{}' is unknown: allowed are batch, gradients, bandwidth, strategy",
                        item.text));
      } else {
        made.open.push_back(item.text);
      }
    }
  }
  return made;
}

}  // namespace foretrain
