#include "sim/input/strategy_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/input/fields.hpp"
#include "sim/input/resolved_inputs.hpp"
#include "sim/input/strategy_schema.hpp"

namespace foretrain {
namespace {

struct FusionKey {
  const char* name;
  FusionKind kind;
};
constexpr std::array fusion_keys{
    FusionKey{"bucket", FusionKind::buckets},    FusionKey{"first_bucket", FusionKind::buckets},
    FusionKey{"threshold", FusionKind::horovod}, FusionKey{"cycle", FusionKind::horovod},
    FusionKey{"repack", FusionKind::packs},      FusionKey{"max_bytes", FusionKind::groups},
    FusionKey{"max_group", FusionKind::groups}};

const FusionKey* find_fusion_key(std::string_view name) {
  const auto found = std::find_if(fusion_keys.begin(), fusion_keys.end(),
                                  [&](const FusionKey& key) { return name == key.name; });
  return found == fusion_keys.end() ? nullptr : &*found;
}

// As named, else that of the first of its keys.
FusionKind fusion_kind(const Fields& data, Diagnostics& diagnostics) {
  const bool is_named = data.has("fusion");
  const FusionKey* chosen = nullptr;
  FusionKind kind = word_of(data.text("fusion"), {FusionKind::buckets, FusionKind::horovod, FusionKind::packs,
                                                  FusionKind::groups, FusionKind::none});
  for (const FusionKey& key : fusion_keys) {
    if (!data.has(key.name)) continue;
    if (!is_named && chosen == nullptr) {
      chosen = &key;
      kind = key.kind;
    } else if (key.kind != kind) {
      const std::string other = is_named ? fmt::format("fusion: {}", name_of(kind)) : chosen->name;
      diagnostics.error(data.where(key.name),
                        fmt::format("{}: belongs to fusion {}, and stands beside '{}': give one of the two",
                                    key.name, name_of(key.kind), other));
    }
  }
  return kind;
}

}  // namespace

Strategy read_strategy(const Value* data_map, std::int64_t workers, Diagnostics& diagnostics) {
  const Fields data(data_map, data_parallel_schema());
  Strategy strategy;
  strategy.kind = word_of(data.text("kind"),
                          {StrategyKind::ddp, StrategyKind::parameter_server, StrategyKind::independent});
  Fusion& fusion = strategy.fusion;
  fusion.kind = fusion_kind(data, diagnostics);
  const auto count = [&](const char* key, int otherwise) {
    constexpr std::int64_t most = 1'000'000;
    return static_cast<int>(std::clamp<std::int64_t>(data.integer(key).value_or(otherwise), 1, most));
  };
  fusion.bucket = data.bytes("bucket").value_or(fusion.bucket);
  fusion.first_bucket = data.bytes("first_bucket").value_or(fusion.first_bucket);
  fusion.threshold = data.bytes("threshold").value_or(fusion.threshold);
  fusion.cycle = data.time("cycle").value_or(fusion.cycle);
  fusion.packs = count("repack", fusion.packs);
  fusion.max_bytes = data.bytes("max_bytes").value_or(fusion.max_bytes);
  fusion.max_group = count("max_group", fusion.max_group);
  fusion.embedding =
      word_of(data.text("embedding_gradient"),
              {EmbeddingGradient::dense, EmbeddingGradient::sparse, EmbeddingGradient::tied_sparse});
  strategy.gradients = word_of(data.text("gradients"), {Precision::fp32, Precision::bf16, Precision::fp16});
  strategy.accumulation = count("accumulation", 1);
  if (const auto algorithm = data.text("algorithm"); algorithm && *algorithm != "auto") {
    strategy.algorithm = *algorithm;
  }
  if (const auto servers = data.integer("servers"); servers && *servers >= 1 && workers > 0) {
    if (*servers > workers) {
      diagnostics.error(data.where("servers"),
                        fmt::format("servers: {} of {} workers cannot be", *servers, workers));
    }
    strategy.servers = static_cast<int>(std::min(*servers, workers));
  }
  return strategy;
}

void make_room(Value& data, std::string_view key, std::string_view value) {
  const FusionKey* own = find_fusion_key(key);
  if ((own == nullptr && key != "fusion") || value == "null") return;
  std::erase_if(data.members, [&](const Member& member) {
    const FusionKey* other = find_fusion_key(member.key);
    if (own == nullptr) return other != nullptr && value != name_of(other->kind);
    if (member.key == "fusion") return member.value.text != name_of(own->kind);
    return other != nullptr && other->kind != own->kind;
  });
}

void add_strategy_inputs(const Value* data, const Strategy& strategy, std::vector<ResolvedInput>& inputs) {
  Schema used = data_parallel_schema();
  std::erase_if(used.keys, [&](const KeySpec& key) {
    const FusionKey* fusion = find_fusion_key(key.name);
    return fusion != nullptr && fusion->kind != strategy.fusion.kind;
  });
  add_inputs("strategy.data", data, used, inputs);
}

}  // namespace foretrain
