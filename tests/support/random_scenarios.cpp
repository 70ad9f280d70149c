#include "tests/support/random_scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/input/scenario_schema.hpp"
#include "sim/input/strategy_schema.hpp"
#include "sim/input/topology_schema.hpp"

namespace foretrain::test {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, Ranges ranges) : random_(seed, {90}), ranges_(ranges) {}

  std::string scenario() {
    has_steps_ = chance(0.5);
    std::string text = has_steps_ ? steps_and_model()
                                  : fmt::format("model: {}\nprofile: {}\nprecision: {}\n",
                                                one_of({"resnet50", "vgg16", "wrn-16-4", "wrn-28-10"}),
                                                one_of({"h100", "h200"}), one_of({"bf16", "tf32"}));
    text += fmt::format("cluster: {}\n", cluster());
    text += fmt::format("dataset: {{ samples: {} }}\n", whole(ranges_ == Ranges::all ? 1 : 5000, 1e7));
    const bool has_schedule = chance(0.25);
    if (!has_schedule)
      text += fmt::format("batch: {{ {}: {} }}\n", chance(0.95) ? "per_worker" : "global",
                          whole(1, ranges_ == Ranges::all ? 1e9 : 64));
    if (chance(0.6)) text += fmt::format("strategy: {}\n", strategy());
    if (has_schedule || chance(0.4)) text += fmt::format("job: {}\n", job(has_schedule));
    if (chance(0.2)) {
      text += fmt::format(
          "optimizer: {{ {} }}\n",
          one_of({"kind: sgd, momentum: 0.9", "kind: adam, beta2: 0.99", "kind: adamw, clip_norm: 1"}));
    }
    for (const char* key : {"host", "input", "execution"}) {
      if (chance(0.2)) text += fmt::format("{}: {}\n", key, map(*scenario_schema().find(key)->keys, 0.5));
    }
    return text;
  }

 private:
  bool chance(double probability) { return random_.uniform() < probability; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(random_.next() % all.size())];
  }
  std::string one_of(std::initializer_list<const char*> all) {
    return all.begin()[random_.next() % all.size()];
  }
  // Evenly by magnitude; the ends themselves now and then.
  double between(double low, double high) {
    if (ranges_ == Ranges::all && chance(0.1)) return chance(0.5) ? low : high;
    return low * std::pow(high / low, random_.uniform());
  }
  std::int64_t whole(double low, double high) {
    return std::max(static_cast<std::int64_t>(low),
                    static_cast<std::int64_t>(std::llround(between(std::max(low, 0.5), high))));
  }
  std::string amount(double usual_low, double usual_high, double low, double high) {
    const bool is_usual = ranges_ == Ranges::usual;
    return fmt::format("{:.4g}", between(is_usual ? usual_low : low, is_usual ? usual_high : high));
  }

  std::string steps_and_model() {
    const bool has_model = chance(0.6);
    std::string steps;
    double batch = 1, seconds = std::stod(amount(1e-3, 1e-2, 1e-12, 1e4));
    for (std::int64_t points = whole(1, 3); points > 0; --points, batch *= 4, seconds *= between(1, 4))
      steps += fmt::format("{}[{}, {:.3f} ps]", steps.empty() ? "" : ", ", batch, seconds * 1e12);
    std::string text = fmt::format("profile: {{ steps: [{}]", steps);
    if (!has_model) text += fmt::format(", gradients: {} B", amount(1e5, 1e9, 1, 1e18));
    text += " }\n";
    if (!has_model) return text;
    return text +
           (chance(0.5)
                ? fmt::format("model: {}\n", one_of({"resnet18", "resnet50", "wrn-16-4"}))
                : fmt::format("model: {{ parameters: {} }}\n",
                              whole(ranges_ == Ranges::all ? 1 : 1e5, ranges_ == Ranges::all ? 1e15 : 1e9)));
  }

  std::string cluster() {
    const Schema& family = *one_of(family_schemas());
    std::string text = fmt::format("{{ topology: {}", family.name);
    const bool is_torus = family.name == "torus";
    const std::int64_t x = whole(2, 4), y = whole(1, 3);
    for (const KeySpec& key : family.keys) {
      if (key.name == "topology") continue;
      std::string value;
      if (key.name == "nodes") {
        value = std::to_string(is_torus ? x * y : family.name == "wan" ? 4 : workers(9));
      } else if (is_torus && (key.name == "x" || key.name == "y")) {
        value = std::to_string(key.name == "x" ? x : y);
      } else if (is_torus && key.name == "z") {
        continue;
      } else if (key.name == "gpus_per_node" || key.name == "hosts" || key.name == "workers") {
        value = std::to_string(workers(8));
      } else if (!key.required && !chance(key.name == "network" ? 1 : 0.15)) {
        continue;
      } else {
        value = value_of(key, 0.4);
      }
      text += fmt::format(", {}: {}", key.name, value);
    }
    return text + " }";
  }
  std::int64_t workers(double most) {
    const bool is_large = ranges_ == Ranges::all && chance(0.1);
    return whole(1, is_large ? 500 : most);
  }

  // With the keys of one kind of fusion.
  std::string strategy() {
    static const std::vector<std::vector<std::string>> fusions{
        {"bucket", "first_bucket"}, {"threshold", "cycle"}, {"repack"}, {"max_bytes", "max_group"}};
    const auto& own = one_of(fusions);
    Schema schema = data_parallel_schema();
    std::erase_if(schema.keys, [&](const KeySpec& key) {
      if (key.name == "fusion" || key.name == "embedding_gradient") return true;
      const auto has = [&](const auto& names) {
        return std::find(names.begin(), names.end(), key.name) != names.end();
      };
      return std::any_of(fusions.begin(), fusions.end(), has) && !has(own);
    });
    return map(schema, 0.4);
  }

  std::string job(bool has_schedule) {
    std::string text = fmt::format("{{ epochs: {}", amount(0.1, 30, 1e-6, 1e9));
    for (const KeySpec& key : scenario_schema().find("job")->keys->keys) {
      const bool is_other = key.name == "epochs" || key.name == "schedule" || key.name == "baseline" ||
                            key.name == "curve" || key.name == "target";
      if (!is_other && chance(0.2)) text += fmt::format(", {}: {}", key.name, value_of(key, 0.4));
    }
    if (!has_schedule) return text + " }";
    if (chance(0.4)) {
      static constexpr const char* rules[] = {"rule: geodamp, factor: {:.3f}, delay: {:.3f} epochs",
                                              "rule: milestones, factor: {:.3f}, at: [{:.3f} epochs]",
                                              "rule: padadamp, rate: {:.3f}, dwell: 10"};
      text += fmt::format(", schedule: {{ batch: {}, max_batch: {}, ", whole(1, 512), whole(512, 4000));
      const char* const rule = rules[random_.next() % 3];
      const double first = between(1, 5), second = between(0.5, 20);
      return text + fmt::format(fmt::runtime(rule), first, second) + " } }";
    }
    text += ", schedule: [";
    double from = 0;
    for (std::int64_t phases = whole(1, 3), p = 0; p < phases; ++p, from += between(0.5, 10))
      text += fmt::format("{}{{ from: {:.2f} epochs, batch: {} }}", p > 0 ? ", " : "", from, whole(1, 2000));
    return text + "] }";
  }

  // The keys that must be there, and each other with this probability.
  std::string map(const Schema& schema, double probability) {
    std::string text = "{";
    for (const KeySpec& key : schema.keys) {
      const bool is_needed = key.required || key.name == "sample" || key.name == "scale";
      if (!is_needed && !chance(probability)) continue;
      if (includes(key.type, Type::anything)) continue;
      text += fmt::format("{} {}: {}", text.size() > 1 ? "," : "", key.name, value_of(key, probability));
    }
    return text + " }";
  }

  std::string value_of(const KeySpec& key, double probability) {
    if (key.keys != nullptr && includes(key.type, Type::map)) return map(*key.keys, probability);
    if (key.items != nullptr) return '[' + map(*key.items, probability) + ']';
    if (!key.allowed.empty()) return one_of(key.allowed);
    return scalar_of(key);
  }

  std::string scalar_of(const KeySpec& key) {
    if (key.name == "profile") return one_of({"h100", "h200"});
    if (key.name == "name") return one_of({"\"*\"", "\"*\"", "\"*\"", "nvlink", "nic", "\"node1.*\""});
    if (key.name == "at") return "[5 epochs, 10 epochs]";
    if (key.name == "servers" || key.name == "accumulation") return chance(0.7) ? "1" : "2";
    if (key.name == "from" || key.name == "to" || key.name == "host") return chance(0.9) ? "0" : "1";
    if (key.name == "date") return "2026-11-01";
    if (key.name == "half_duplex" || key.name == "failed") return chance(0.9) ? "false" : "true";
    const bool is_usual = ranges_ == Ranges::usual;
    const double low = std::max({key.at_least, key.above, 0.0});
    const double high = std::min({key.at_most, is_usual ? std::max(8.0, 4 * low) : 1e12});
    const double usual_low = std::max(key.usual_low, 1e-6), usual_high = std::min(key.usual_high, 1e15);
    const auto with = [](const std::string& number, const char* unit) { return number + ' ' + unit; };
    if (includes(key.type, Type::boolean)) return chance(0.5) ? "true" : "false";
    if (includes(key.type, Type::integer)) return std::to_string(whole(low, std::max(low, high)));
    if (includes(key.type, Type::number))
      return fmt::format("{:.4g}", between(std::max(low, 0.01), std::max(high, 0.02)));
    if (includes(key.type, Type::time)) return with(amount(1, 1000, 1e-6, 1e12), "us");
    if (includes(key.type, Type::job_time)) return with(amount(0.1, 1000, 1e-9, 1e9), "s");
    if (includes(key.type, Type::bytes))
      return with(amount(std::max(usual_low, 1e3), std::min(usual_high, 1e9), 1, 1e18), "B");
    if (includes(key.type, Type::rate))
      return with(amount(std::max(usual_low, 1e6) * 8, std::min(usual_high, 1e12) * 8, 1, 1e14), "bit/s");
    if (includes(key.type, Type::interval))
      return with(amount(0.5, 20, 1e-3, 1e6), chance(0.7) ? "epochs" : "s");
    if (includes(key.type, Type::power)) return with(amount(100, 1000, 1, 1e9), "W");
    if (includes(key.type, Type::gpu_hours)) return with(amount(1, 1000, 1e-6, 1e12), "gpu-hours");
    if (includes(key.type, Type::price)) return with(amount(0.1, 10, 1e-9, 1e12), "USD/gpu-hour");
    return "word";
  }

  RandomStream random_;
  Ranges ranges_;
  bool has_steps_ = false;
};

}  // namespace

std::string random_scenario(std::uint64_t seed, Ranges ranges) {
  return Generator(seed, ranges).scenario();
}

}  // namespace foretrain::test
