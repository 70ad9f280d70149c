#include "sim/input/strategy_schema.hpp"

namespace foretrain {

const std::vector<NotModelled>& other_parallelism() {
  static const std::vector<NotModelled> all{
      {"fsdp", "ddp"},     {"zero", "ddp"},   {"tensor", "ddp"},
      {"pipeline", "ddp"}, {"expert", "ddp"}, {"context", "ddp"},
  };
  return all;
}

const Schema& data_parallel_schema() {
  static const Schema schema{
      .name = "strategy",
      .description = "data parallelism: each worker has the whole model and a part of the batch",
      .keys = {{.name = "kind",
                .type = Type::text,
                .description = "how gradients are combined: by all-reduce, over servers, or not at all",
                .default_value = "ddp",
                .allowed = {"ddp", "parameter_server", "independent"},
                .not_modelled = other_parallelism()},
               {.name = "bucket",
                .type = Type::bytes,
                .description = "of fusion buckets: a bucket closes when it has this size",
                .default_value = "25 MiB",
                .above = 0,
                .usual_low = 65536,
                .usual_high = 1073741824},
               {.name = "first_bucket",
                .type = Type::bytes,
                .description = "the same for the first bucket",
                .default_value = "1 MiB",
                .above = 0,
                .usual_low = 1024,
                .usual_high = 1073741824},
               {.name = "fusion",
                .type = Type::text,
                .description =
                    "how gradients are put together: in buckets as PyTorch's DistributedDataParallel "
                    "does, by Horovod's cycles, in a fixed number of packs, small ones in groups, or each "
                    "by itself (where it is not given, what the keys below belong to, else buckets)",
                .allowed = {"buckets", "horovod", "packs", "groups", "none"}},
               {.name = "threshold",
                .type = Type::bytes,
                .description = "of fusion horovod: gradients are joined up to this size",
                .default_value = "128 MiB",
                .above = 0,
                .usual_low = 65536,
                .usual_high = 4294967296},
               {.name = "cycle",
                .type = Type::time,
                .description = "of fusion horovod: time from one look at what is complete to the next",
                .default_value = "1 ms",
                .above = 0,
                .usual_low = 1e-5,
                .usual_high = 0.1},
               {.name = "repack",
                .type = Type::integer,
                .description = "of fusion packs: equal parts that all gradients together are cut into",
                .default_value = "4",
                .at_least = 1,
                .at_most = 4096},
               {.name = "max_bytes",
                .type = Type::bytes,
                .description = "of fusion groups: gradients up to this size are small, and joined with small "
                               "neighbours",
                .default_value = "64 KiB",
                .above = 0,
                .usual_low = 256,
                .usual_high = 67108864},
               {.name = "max_group",
                .type = Type::integer,
                .description = "of fusion groups: small gradients that are joined, at most",
                .default_value = "10",
                .at_least = 1,
                .at_most = 1e6},
               {.name = "embedding_gradient",
                .type = Type::text,
                .description =
                    "of an embedding's table: as any other; as rows that all ranks gather; the same of "
                    "a table that the output shares",
                .default_value = "dense",
                .allowed = {"dense", "sparse", "tied_sparse"}},
               {.name = "gradients",
                .type = Type::text,
                .description = "precision in which gradients are combined",
                .default_value = "fp32",
                .allowed = {"fp32", "bf16", "fp16"}},
               {.name = "algorithm",
                .type = Type::text,
                .description = "of all-reduces: what the library picks, or one of its own; bcube: Gloo's",
                .default_value = "auto",
                .allowed = {"auto", "ring", "tree", "bcube"},
                .beside = "kind",
                .beside_words = {"ddp"}},
               {.name = "servers",
                .type = Type::integer,
                .description =
                    "of kind parameter_server: workers among which the buckets are dealt out (1 where "
                    "it is not given)",
                .at_least = 1,
                .beside = "kind",
                .beside_words = {"parameter_server"}},
               {.name = "accumulation",
                .type = Type::integer,
                .description =
                    "micro-batches that a worker's batch is split into, one after the other, before "
                    "the update (1 where it is not given)",
                .at_least = 1}},
      .not_modelled = other_parallelism()};
  return schema;
}

const Schema& strategy_schema() {
  static const Schema schema{
      .name = "strategy",
      .description = "kinds of parallelism side by side; { kind: ddp } is short for { data: { kind: ddp } }",
      .keys = {{.name = "data",
                .type = Type::map,
                .description = "data parallelism",
                .keys = &data_parallel_schema()}},
      .not_modelled = other_parallelism()};
  return schema;
}

}  // namespace foretrain
