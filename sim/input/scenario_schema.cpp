#include "sim/input/scenario_schema.hpp"

#include "sim/input/model_schema.hpp"
#include "sim/input/strategy_schema.hpp"

namespace foretrain {
namespace {

const std::string not_yet = "is not simulated yet: leave it out";
const std::string no_effect = "has no effect on the prediction yet";

const Schema& dataset_schema() {
  static const Schema schema{.name = "dataset",
                             .description = "what an epoch passes over",
                             .keys = {{.name = "samples",
                                       .type = Type::integer,
                                       .description = "samples of an epoch",
                                       .required = true,
                                       .example = "1281167",
                                       .at_least = 1}}};
  return schema;
}

const Schema& evaluate_schema() {
  static const Schema schema{.name = "evaluate",
                             .description = "forward passes over held-out samples during the job",
                             .keys = {{.name = "every",
                                       .type = Type::epochs,
                                       .description = "how often",
                                       .default_value = "1 epoch",
                                       .above = 0},
                                      {.name = "samples",
                                       .type = Type::integer,
                                       .description = "samples of one evaluation",
                                       .required = true,
                                       .example = "50000",
                                       .at_least = 1}}};
  return schema;
}

const Schema& checkpoint_schema() {
  static const Schema schema{
      .name = "checkpoint",
      .description = "parameters and optimizer state written during the job, which waits",
      .keys = {{.name = "every",
                .type = Type::epochs,
                .description = "how often",
                .default_value = "1 epoch",
                .above = 0},
               {.name = "write",
                .type = Type::rate,
                .description = "rate at which it is written",
                .required = true,
                .example = "1 GB/s",
                .above = 0,
                .usual_low = 10e6,
                .usual_high = 100e9}}};
  return schema;
}

const Schema& target_schema() {
  static const Schema schema{
      .name = "target",
      .description = "what ends the job",
      .keys = {
          {.name = "loss", .type = Type::number, .description = "loss to be reached", .required = true}}};
  return schema;
}

const Schema& host_schema() {
  static const Schema schema{
      .name = "host",
      .description = "the host of each node",
      .keys = {
          {.name = "processes",
           .type = Type::text,
           .description = "one process for all GPUs of a node, or one for each",
           .default_value = "per_gpu",
           .allowed = {"one", "per_gpu"}},
          {.name = "threads", .type = Type::integer, .description = "threads of a process", .at_least = 1},
          {.name = "cores", .type = Type::integer, .description = "cores of a node", .at_least = 1}}};
  return schema;
}

const Schema& observed_schema() {
  static const Schema schema{
      .name = "observed",
      .description = "numbers seen on a real run, for explain",
      .keys = {
          {.name = "step", .type = Type::time, .description = "time of a step", .above = 0},
          {.name = "network", .type = Type::rate, .description = "rate seen on a node's network", .above = 0},
          {.name = "direction",
           .type = Type::text,
           .description = "whether the rate counts each direction or the sum of both",
           .allowed = {"each", "sum"}},
          {.name = "gpu_busy",
           .type = Type::number,
           .description = "part of the time in which a kernel runs",
           .at_least = 0,
           .at_most = 1}}};
  return schema;
}

const Schema& execution_schema() {
  static const Schema schema{.name = "execution",
                             .description = "how the run is executed",
                             .keys = {{.name = "deterministic",
                                       .type = Type::boolean,
                                       .description = "only kernels that give the same bits each time",
                                       .default_value = "false"},
                                      {.name = "cuda_graph",
                                       .type = Type::boolean,
                                       .description = "launch a step as one captured graph",
                                       .default_value = "false"}}};
  return schema;
}

}  // namespace

const Schema& batch_schema() {
  static const Schema schema{.name = "batch",
                             .description = "samples of a step: one of the two keys",
                             .keys = {{.name = "per_worker",
                                       .type = Type::integer,
                                       .description = "samples of each worker",
                                       .at_least = 1,
                                       .at_most = 1e9},
                                      {.name = "global",
                                       .type = Type::integer,
                                       .description = "samples of all workers; a multiple of their number",
                                       .at_least = 1,
                                       .at_most = 1e12}}};
  return schema;
}

const Schema& step_profile_schema() {
  static const Schema schema{
      .name = "profile",
      .description = "a step-time profile: measured whole steps of one worker, without calibration",
      .keys = {{.name = "steps",
                .type = Type::list,
                .description = "pairs of batch and time of a step; a third entry is its standard deviation",
                .required = true,
                .example = "[[32, 71 ms], [64, 130 ms]]"},
               {.name = "gradients",
                .type = Type::bytes,
                .description = "size of the gradients, where there is no model",
                .example = "94 MB",
                .above = 0,
                .usual_low = 1e3,
                .usual_high = 1e13},
               {.name = "backward_fraction",
                .type = Type::number,
                .description = "part of a step that is the backward pass; 2/3 is assumed",
                .above = 0,
                .at_most = 0.99}}};
  return schema;
}

const Schema& schedule_phase_schema() {
  static const Schema schema{
      .name = "schedule",
      .description = "a phase, which holds until the next begins",
      .keys = {{.name = "from", .type = Type::epochs, .description = "where it begins", .required = true},
               {.name = "batch",
                .type = Type::integer,
                .description = "global batch",
                .required = true,
                .at_least = 1},
               {.name = "workers", .type = Type::integer, .description = "workers", .at_least = 1},
               {.name = "learning_rate", .type = Type::number, .description = "learning rate", .above = 0}}};
  return schema;
}

const Schema& schedule_rule_schema() {
  static const Schema schema{
      .name = "schedule",
      .description = "a rule by which the batch grows",
      .keys = {{.name = "rule",
                .type = Type::text,
                .description = "name of the rule",
                .required = true,
                .allowed = {"geodamp"}},
               {.name = "batch",
                .type = Type::integer,
                .description = "global batch at the beginning",
                .required = true,
                .at_least = 1},
               {.name = "factor",
                .type = Type::number,
                .description = "growth at each change",
                .required = true,
                .at_least = 1},
               {.name = "delay",
                .type = Type::epochs,
                .description = "epochs between changes",
                .required = true,
                .above = 0},
               {.name = "max_batch", .type = Type::integer, .description = "largest batch", .at_least = 1},
               {.name = "samples_per_worker",
                .type = Type::integer,
                .description = "samples of each worker; their number grows with the batch",
                .at_least = 1}}};
  return schema;
}

const Schema& job_schema() {
  static const Schema schema{
      .name = "job",
      .description = "the whole training",
      .keys = {{.name = "epochs",
                .type = Type::number,
                .description = "passes over the data set",
                .required = true,
                .example = "90",
                .above = 0,
                .at_most = 1e9},
               {.name = "last_batch",
                .type = Type::text,
                .description = "a short last batch each epoch, none, or batches that run on across epochs",
                .default_value = "keep",
                .allowed = {"keep", "drop", "carry"}},
               {.name = "evaluate",
                .type = Type::map,
                .description = "evaluations during the job",
                .example = "{ every: 1 epoch, samples: 50000 }",
                .keys = &evaluate_schema()},
               {.name = "checkpoint",
                .type = Type::map,
                .description = "checkpoints during the job",
                .example = "{ every: 1 epoch, write: 1 GB/s }",
                .keys = &checkpoint_schema()},
               {.name = "schedule",
                .type = Type::list | Type::map,
                .description = "phases of batch and workers, or a rule; in place of `batch`",
                .keys = &schedule_rule_schema(),
                .items = &schedule_phase_schema(),
                .not_simulated = not_yet + " and give `batch`"},
               {.name = "price",
                .type = Type::price,
                .description = "price of one GPU",
                .example = "2.50 USD/gpu-hour"},
               {.name = "baseline",
                .type = Type::text | Type::map,
                .description = "the job that this one is compared with",
                .without_effect = no_effect},
               {.name = "target",
                .type = Type::map,
                .description = "what ends the job",
                .example = "{ loss: 1.58 }",
                .keys = &target_schema(),
                .without_effect = no_effect},
               {.name = "curve",
                .type = Type::text,
                .description = "file with the loss by updates, to find the target on",
                .without_effect = no_effect}}};
  return schema;
}

const Schema& scenario_schema() {
  static const Schema schema{
      .name = "scenario",
      .description = "one training run: what is trained, on what, and how",
      .keys = {{.name = "model",
                .type = Type::text | Type::map,
                .description = "a name in models/, a file, or inline as in { parameters: 60880896 }",
                .example = "resnet50"},
               {.name = "profile",
                .type = Type::text | Type::list | Type::map,
                .description = "a name in profiles/, a file, or a list of them of which later ones win; or a "
                               "step-time profile",
                .example = "h100"},
               {.name = "precision",
                .type = Type::text,
                .description = "of the computation: fp32 is without TF32, bf16 and fp16 keep fp32 weights",
                .default_value = "fp32",
                .allowed = {"fp32", "tf32", "bf16", "fp16"}},
               {.name = "batch",
                .type = Type::map,
                .description = "samples of a step",
                .example = "{ per_worker: 64 }",
                .keys = &batch_schema()},
               {.name = "sequence",
                .type = Type::integer,
                .description = "length of a sequence, where the model has one",
                .at_least = 1},
               {.name = "cluster",
                .type = Type::map,
                .description = "a family of topologies with its keys, or a file",
                .required = true,
                .example = "{ topology: nvlink-node, gpus_per_node: 8 }"},
               {.name = "strategy",
                .type = Type::map,
                .description = "how the work is divided among workers",
                .example = "{ kind: ddp }"},
               {.name = "optimizer",
                .type = Type::map,
                .description = "the update of the parameters; default in the model's file",
                .example = "{ kind: sgd, momentum: 0.9 }",
                .keys = &optimizer_schema()},
               {.name = "dataset",
                .type = Type::map,
                .description = "what an epoch passes over",
                .example = "{ samples: 1281167 }",
                .keys = &dataset_schema()},
               {.name = "job",
                .type = Type::map,
                .description = "the whole training; without it only the step is predicted",
                .example = "{ epochs: 90 }",
                .keys = &job_schema()},
               {.name = "host",
                .type = Type::map,
                .description = "the host of each node",
                .keys = &host_schema(),
                .not_simulated = "is not simulated yet: leave it out, the host is that of the profile"},
               {.name = "observed",
                .type = Type::map,
                .description = "numbers seen on a real run",
                .keys = &observed_schema(),
                .without_effect = no_effect + ": `explain` will read it"},
               {.name = "execution",
                .type = Type::map,
                .description = "how the run is executed",
                .keys = &execution_schema()},
               {.name = "workload",
                .type = Type::text,
                .description = "an imported trace in place of model, profile, precision and batch",
                .not_simulated = "is not simulated yet: give model, profile and batch"}},
      .not_modelled = other_parallelism()};
  return schema;
}

}  // namespace foretrain
