#include "sim/input/job_schema.hpp"

namespace foretrain {
namespace {

KeySpec above(double bound, KeySpec made) {
  made.above = bound;
  return made;
}
KeySpec at_least(double bound, KeySpec made) {
  made.at_least = bound;
  return made;
}
// A fraction of a whole.
KeySpec part(KeySpec made) {
  made.at_least = 0;
  made.at_most = 1;
  return made;
}
KeySpec words(std::vector<std::string> allowed, KeySpec made) {
  made.allowed = std::move(allowed);
  return made;
}
KeySpec map_of(const Schema& keys, KeySpec made) {
  made.keys = &keys;
  return made;
}
KeySpec every() {
  return above(0, key("every", Type::interval, "how often: epochs, updates or a time", "1 epoch"));
}

}  // namespace

const Schema& dataset_schema() {
  static const Schema schema{
      "dataset",
      "what an epoch passes over",
      {at_least(1, required(key("samples", Type::integer, "samples of an epoch", {}, "1281167")))}};
  return schema;
}

const Schema& input_schema() {
  static const Schema schema{
      "input",
      "samples on their way from storage to a step, on each node; what is not given costs nothing",
      {above(0, key("read", Type::rate, "rate at which a node reads from storage in the first epoch")),
       above(0, key("cached", Type::rate,
                    "the same in later epochs, from memory; as the first where not given")),
       above(0, key("sample", Type::bytes, "stored size of a sample", {}, "110 kB")),
       at_least(0, key("decode", Type::time, "time of one core to decode a sample", "0 ms")),
       at_least(1, key("workers", Type::integer, "cores of a node that decode", "1")),
       at_least(0, key("prefetch", Type::integer,
                       "batches made ready ahead; 0: reading and training alternate", "2")),
       key("prefetch_to_device", Type::boolean,
           "copy a batch to the device beside the step before; else the step waits for its copy", "false")}};
  return schema;
}

const Schema& host_schema() {
  static const Schema schema{
      "host",
      "the host of each node",
      {words({"one", "per_gpu"}, key("processes", Type::text,
                                     "one process for all GPUs of a node, or one for each; left out: one "
                                     "with a thread for each GPU")),
       at_least(1, key("threads", Type::integer,
                       "of a process: on GPUs those that launch, on the cpu backend those of a worker", "1")),
       at_least(1, key("cores", Type::integer, "cores of a node")),
       key("shared", Type::boolean,
           "all nodes are made of one machine (containers, network namespaces): their workers slow each "
           "other "
           "as those of one node do",
           "false")}};
  return schema;
}

const Schema& observed_schema() {
  static const Schema schema{
      "observed",
      "numbers seen on a real run, for explain",
      {above(0, key("step", Type::time, "time of a step")),
       above(0, key("network", Type::rate, "rate seen on a node's network")),
       words({"each", "sum"},
             key("direction", Type::text,
                 "whether the rate counts each direction or the sum of both; open where not given")),
       part(key("gpu_busy", Type::number, "part of the time in which a kernel runs", {}, "0.98")),
       part(key("processor", Type::number, "part of a node's cores that is busy", {}, "0.28")),
       above(0, key("checkpoint", Type::bytes, "size of a checkpoint")),
       above(0, key("tolerance", Type::number, "relative deviation that still counts as agreement", "0.1")),
       key("open", Type::list,
           "what else the document does not settle: batch, gradients, bandwidth, strategy; those whose keys "
           "the "
           "scenario leaves out where not given")}};
  return schema;
}

const Schema& evaluate_schema() {
  static const Schema schema{
      "evaluate",
      "forward passes over held-out samples during the job",
      {every(),
       at_least(1, required(key("samples", Type::integer, "samples of one evaluation", {}, "50000"))),
       at_least(
           1, key("batch_per_worker", Type::integer, "samples of a pass; those of training where not given")),
       words({"all", "one"}, key("workers", Type::text,
                                 "all share the samples, or one has them and all others wait", "all"))}};
  return schema;
}

const Schema& checkpoint_schema() {
  static const Schema schema = [] {
    KeySpec write = required(key("write", Type::rate, "rate at which it is written", {}, "1 GB/s"));
    write.above = 0;
    write.usual_low = 10e6;
    write.usual_high = 100e9;
    return Schema{
        "checkpoint",
        "parameters and optimizer state written during the job",
        {every(), write,
         above(0,
               key("size", Type::bytes, "its size; parameters and optimizer state in fp32 where not given")),
         words({"sync", "async"}, key("mode", Type::text,
                                      "training waits for the writing, or only for a snapshot in "
                                      "host memory (and for the write before)",
                                      "sync")),
         beside("mode", {"async"},
                above(0, key("snapshot", Type::rate, "rate of the snapshot, device to host", "12.5 GB/s"))),
         above(0, key("read", Type::rate,
                      "rate at which a restart reads it; that of writing where not given"))}};
  }();
  return schema;
}

const Schema& log_schema() {
  static const Schema schema{
      "log",
      "what is written during the job beside checkpoints; training waits",
      {every(), at_least(0, required(key("time", Type::job_time, "time of each", {}, "20 ms")))}};
  return schema;
}

const Schema& failures_schema() {
  static const Schema schema{
      "failures",
      "independent failures; each throws training back to the last finished checkpoint",
      {above(0, required(key("mean_time", Type::job_time, "mean time between failures of one unit", {},
                             "50000 h"))),
       words({"gpu", "node", "job"}, key("of", Type::text, "the unit", "gpu")),
       at_least(
           0, key("restart", Type::job_time,
                  "time to replace it and start again, beside start-up and reading the checkpoint", "0 s"))}};
  return schema;
}

const Schema& warmup_schema() {
  static const Schema schema{
      "warmup",
      "slower updates after each start",
      {at_least(1, required(key("updates", Type::integer, "how many", {}, "10"))),
       at_least(1, required(key("factor", Type::number, "how many times as long each takes", {}, "3")))}};
  return schema;
}

const Schema& price_schema() {
  static const Schema schema{"price",
                             "price of one GPU with the day on which it was read",
                             {required(key("amount", Type::price, "price", {}, "2.50 USD/gpu-hour")),
                              key("date", Type::text, "when it was so", {}, "2026-11-01")}};
  return schema;
}

const Schema& workers_schema() {
  static const Schema schema{
      "workers",
      "how many workers train a batch; where several keys are given, the least counts; all of the cluster's "
      "otherwise",
      {at_least(1, key("fixed", Type::integer, "as many at every batch")),
       at_least(
           1, key("samples_per_worker", Type::integer, "samples of each: their number grows with the batch")),
       at_least(1, key("most", Type::integer, "never more")),
       above(0, key("budget", Type::gpu_hours, "as many as the GPU-hours of the whole job allow", {},
                    "50 gpu-hours"))}};
  return schema;
}

const Schema& learning_rate_schema() {
  static const Schema schema{
      "learning_rate",
      "how the learning rate goes, on top of the schedule's; it has no effect on time",
      {words({"constant", "steps", "noam", "cosine"},
             key("law", Type::text,
                 "steps: times `factor` at each of `at`; noam: factor d^-0.5 min(k^-0.5, k w^-1.5) at update "
                 "k; cosine: "
                 "to `least` of it at the end",
                 "constant")),
       beside("law", {"steps", "noam"}, above(0, key("factor", Type::number, "of steps and noam", "1"))),
       beside("law", {"steps"}, key("at", Type::list, "milestones of steps", {}, "[30 epochs, 60 epochs]")),
       beside("law", {"noam"},
              at_least(1, key("dimension", Type::integer, "d of noam, the width of the model", "512"))),
       beside("law", {"cosine"}, at_least(0, key("least", Type::number, "of cosine", "0"))),
       at_least(0,
                key("warmup", Type::interval, "linear from 0 over this; w of noam in updates", "0 epochs"))}};
  return schema;
}

const Schema& samples_schema() {
  static const Schema schema{
      "samples",
      "what a larger batch costs in samples for the same result",
      {words({"fixed_epochs", "critical_batch", "gradient_noise"},
             key("law", Type::text,
                 "fixed_epochs: nothing (the claim of batch-size schedules); critical_batch: (S/Smin - "
                 "1)(E/Emin - 1) = 1 "
                 "with Emin/Smin = `scale`; gradient_noise: efficiency (scale + B0)/(scale + B)",
                 "fixed_epochs")),
       beside("law", {"critical_batch", "gradient_noise"},
              above(0, key("scale", Type::number, "critical batch, or noise scale, in samples"))),
       beside("law", {"critical_batch", "gradient_noise"},
              at_least(1, key("reference_batch", Type::integer,
                              "batch for which `epochs` is meant; the first where not given")))}};
  return schema;
}

const Schema& target_schema() {
  static const Schema schema{
      "target",
      "what is to be reached on the curve: one of the two",
      {key("loss", Type::number, "loss, from above"), key("accuracy", Type::number, "accuracy, from below")}};
  return schema;
}

const Schema& schedule_phase_schema() {
  static const Schema schema{
      "schedule",
      "a phase, which holds until the next begins",
      {required(key("from", Type::interval, "where it begins: epochs or updates")),
       at_least(1, required(key("batch", Type::integer, "global batch"))),
       at_least(1, key("workers", Type::integer, "workers; by job.workers where not given")),
       above(0, key("learning_rate", Type::number, "learning rate"))}};
  return schema;
}

const Schema& schedule_rule_schema() {
  static const Schema schema{
      "schedule",
      "a rule by which the batch grows",
      {required(words(
           {"milestones", "geodamp", "padadamp", "adadamp"},
           key("rule", Type::text,
               "milestones: times `factor` at each of `at`; geodamp: B0 factor^floor(epoch/delay); padadamp: "
               "ceil(B0 + rate k) at update k; adadamp: ceil(B0 F0/Fk) from job.curve"))),
       at_least(1, required(key("batch", Type::integer, "global batch at the beginning"))),
       at_least(1, key("factor", Type::number, "of milestones and geodamp: growth at each change")),
       above(0, key("delay", Type::interval, "of geodamp: between changes", {}, "60 epochs")),
       key("at", Type::list, "of milestones", {}, "[60 epochs, 120 epochs]"),
       above(0, key("rate", Type::number, "of padadamp: samples by which the batch grows an update")),
       at_least(
           1, key("dwell", Type::integer, "of padadamp and adadamp: updates for which a batch is kept", "1")),
       at_least(1, key("loss_samples", Type::integer,
                       "of adadamp: samples over which the loss is evaluated every `dwell` updates; the data "
                       "set where not given")),
       at_least(1, key("max_batch", Type::integer,
                       "largest batch; beyond it the learning rate falls by max/B instead")),
       at_least(1, key("samples_per_worker", Type::integer,
                       "samples of each worker; their number grows with the batch"))}};
  return schema;
}

const Schema& baseline_schema() {
  static const Schema schema = [] {
    KeySpec schedule =
        map_of(schedule_rule_schema(), key("schedule", Type::list | Type::map, "its schedule"));
    schedule.items = &schedule_phase_schema();
    return Schema{"baseline",
                  "the same job with other keys",
                  {above(0, key("epochs", Type::number, "its passes over the data set")), schedule,
                   map_of(workers_schema(), key("workers", Type::map, "how many workers train its batch"))}};
  }();
  return schema;
}

const Schema& job_schema() {
  static const Schema schema = [] {
    KeySpec epochs = required(key("epochs", Type::number, "passes over the data set", {}, "90"));
    epochs.above = 0;
    epochs.at_most = 1e9;
    KeySpec schedule =
        map_of(schedule_rule_schema(), key("schedule", Type::list | Type::map,
                                           "phases of batch and workers, or a rule; in place of `batch`"));
    schedule.items = &schedule_phase_schema();
    return Schema{
        "job",
        "the whole training",
        {epochs,
         words({"keep", "drop", "carry"},
               key("last_batch", Type::text,
                   "a short last batch each epoch, none, or batches that run on across epochs", "keep")),
         schedule,
         map_of(workers_schema(), key("workers", Type::map, "how many workers train a batch", {},
                                      "{ samples_per_worker: 128 }")),
         map_of(evaluate_schema(), key("evaluate", Type::map, "evaluations during the job", {},
                                       "{ every: 1 epoch, samples: 50000 }")),
         map_of(checkpoint_schema(), key("checkpoint", Type::map, "checkpoints during the job", {},
                                         "{ every: 1 epoch, write: 1 GB/s }")),
         map_of(log_schema(),
                key("log", Type::map, "logging during the job", {}, "{ every: 500 updates, time: 20 ms }")),
         at_least(0, key("startup", Type::job_time, "time before the first update", "0 s", "2 min")),
         at_least(0, key("rescale", Type::job_time, "time of each change of workers", "0 s", "30 s")),
         at_least(0,
                  key("rebatch", Type::job_time,
                      "time of each change of the batch alone, where shapes are built anew", "0 s", "2 s")),
         map_of(warmup_schema(), key("warmup", Type::map, "slower updates after each start")),
         map_of(failures_schema(), key("failures", Type::map, "failures and restarts", {},
                                       "{ mean_time: 50000 h, restart: 5 min }")),
         map_of(learning_rate_schema(), key("learning_rate", Type::map, "how the learning rate goes")),
         map_of(samples_schema(), key("samples", Type::map, "what a larger batch costs in samples")),
         map_of(price_schema(),
                key("price", Type::price | Type::map, "price of one GPU", {}, "2.50 USD/gpu-hour")),
         above(0, key("power", Type::power, "power of one GPU with its share of the host", {}, "700 W")),
         map_of(baseline_schema(),
                key("baseline", Type::text | Type::map,
                    "the job that this one is compared with: a scenario, or keys of a job that replace this "
                    "one's; the first phase held throughout where not given")),
         map_of(target_schema(),
                key("target", Type::map, "what is to be reached, on the curve", {}, "{ loss: 1.58 }")),
         key("curve", Type::text,
             "CSV file with loss or accuracy by updates or epochs, several runs by a column `run`")}};
  }();
  return schema;
}

}  // namespace foretrain
