#include "sim/input/scenario_schema.hpp"

#include "sim/input/job_schema.hpp"
#include "sim/input/model_schema.hpp"
#include "sim/input/strategy_schema.hpp"

namespace foretrain {
namespace {

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
                .at_most = 0.99},
               {.name = "launches",
                .type = Type::integer,
                .description = "kernel launches of a step, where they were counted: shown, without effect",
                .example = "1281",
                .at_least = 1,
                .at_most = 1e9}}};
  return schema;
}

const Schema& ranks_schema() {
  static const Schema schema{
      .name = "gpus",
      .description = "the workers of another job, by their ranks in the whole cluster",
      .keys = {
          {.name = "from",
           .type = Type::integer,
           .description = "first rank",
           .required = true,
           .at_least = 0},
          {.name = "to", .type = Type::integer, .description = "last rank", .required = true, .at_least = 0},
          {.name = "every",
           .type = Type::integer,
           .description = "one rank in so many, from the first on",
           .default_value = "1",
           .at_least = 1}}};
  return schema;
}

const Schema& other_job_schema() {
  static const Schema schema{
      .name = "others",
      .description = "another job on the cluster; what it does not say is as in this one",
      .keys = {
          {.name = "gpus",
           .type = Type::map,
           .description = "its workers, which this job does not have",
           .required = true,
           .example = "{ from: 8, to: 15 }",
           .keys = &ranks_schema()},
          {.name = "model", .type = Type::text | Type::map, .description = "as a scenario's"},
          {.name = "profile", .type = Type::text | Type::list | Type::map, .description = "as a scenario's"},
          {.name = "precision",
           .type = Type::text,
           .description = "of its computation",
           .allowed = {"fp32", "tf32", "bf16", "fp16"}},
          {.name = "batch",
           .type = Type::map,
           .description = "samples of its step",
           .example = "{ per_worker: 64 }",
           .keys = &batch_schema()},
          {.name = "strategy", .type = Type::map, .description = "as a scenario's"}}};
  return schema;
}

const Schema& sequence_schema() {
  static const Schema schema{
      .name = "sequence",
      .description = "samples of unequal lengths, and how they come together in the rows of a batch",
      .keys = {
          {.name = "lengths",
           .type = Type::map | Type::text,
           .description = "numbers of samples by their length; or a file with a line for each length, or for "
                          "each sample",
           .required = true,
           .example = "{ 16: 900, 64: 100 }"},
          {.name = "batching",
           .type = Type::text,
           .description = "rows as long as the longest of all; as the longest of their batch; of batches of "
                          "samples alike; or filled with several samples",
           .default_value = "pad_batch",
           .allowed = {"pad_global", "pad_batch", "bucketed", "packed"}},
          {.name = "buckets",
           .type = Type::integer,
           .description = "of batching bucketed: buckets of equally many samples (10 where it is not given)",
           .at_least = 1,
           .at_most = 10000},
          {.name = "multiple",
           .type = Type::integer,
           .description = "rows are padded up to a multiple of so many positions",
           .default_value = "1",
           .at_least = 1,
           .at_most = 100000}}};
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
                .type = Type::integer | Type::map,
                .description =
                    "length of a sequence, where the model has one; or how unequal ones come together",
                .example = "{ lengths: { 16: 900, 64: 100 }, batching: pad_batch }",
                .at_least = 1,
                .keys = &sequence_schema()},
               {.name = "cluster",
                .type = Type::map,
                .description = "a family of topologies with its keys, or a file",
                .required = true,
                .example = "{ topology: nvlink-node, gpus_per_node: 8 }"},
               {.name = "others",
                .type = Type::list,
                .description = "other jobs on the same cluster, whose collectives share its links with ours",
                .example = "[{ gpus: { from: 8, to: 15 }, batch: { per_worker: 64 } }]",
                .items = &other_job_schema()},
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
                .keys = &host_schema()},
               {.name = "input",
                .type = Type::map,
                .description = "samples on their way from storage to a step, on each node",
                .example = "{ read: 1 GB/s, sample: 110 kB, decode: 8 ms, workers: 8 }",
                .keys = &input_schema()},
               {.name = "observed",
                .type = Type::map,
                .description = "numbers seen on a real run, which `explain` reads",
                .keys = &observed_schema()},
               {.name = "execution",
                .type = Type::map,
                .description = "how the run is executed",
                .keys = &execution_schema()},
               {.name = "workload",
                .type = Type::text,
                .description = "a file of import kineto in place of model, precision, batch and the profile; "
                               "a profile beside "
                               "it adds collectives",
                .example = "trace.json"}},
      .not_modelled = other_parallelism()};
  return schema;
}

}  // namespace foretrain
