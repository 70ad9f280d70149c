#include "sim/job/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/input/job.hpp"
#include "sim/input/observed.hpp"
#include "sim/job/host_cores.hpp"
#include "sim/training/predict.hpp"
#include "sim/training/remedies.hpp"

namespace foretrain {
namespace {

using Direction = Observed::Direction;

bool is_default(const Scenario& scenario, const std::string& path) {
  for (const ResolvedInput& input : scenario.inputs) {
    if (input.path == path) return input.is_default;
  }
  return false;
}

double network_efficiency(const Scenario& scenario) {
  for (const Link& link : scenario.cluster.topology.links) {
    if (link.kind == LinkKind::network) return link.efficiency;
  }
  return 1;
}

class Explainer {
 public:
  explicit Explainer(const Scenario& scenario) : scenario_(scenario), seen_(*scenario.observed) {
    step_ = seen_.step.value_or(0);
    efficiency_ = network_efficiency(scenario);
    workers_ = static_cast<std::int64_t>(scenario.cluster.topology.workers.size());
  }

  Explanation explain() {
    for (const std::int64_t batch : batches()) {
      for (const Precision gradients : precisions()) {
        for (const Way& way : ways()) {
          for (const Direction direction : directions()) {
            for (const double line : lines(direction)) hold(batch, gradients, way, direction, line);
          }
        }
      }
    }
    std::stable_sort(out_.readings.begin(), out_.readings.end(), [](const Reading& a, const Reading& b) {
      return std::tuple(!a.consistent, !a.besides.empty(), a.misfit) <
             std::tuple(!b.consistent, !b.besides.empty(), b.misfit);
    });
    conclude();
    measure();
    remark();
    return std::move(out_);
  }

 private:
  bool is_open(const std::string& what, const std::string& path) const {
    if (!seen_.open.empty()) return std::find(seen_.open.begin(), seen_.open.end(), what) != seen_.open.end();
    return is_default(scenario_, path);
  }

  // Samples a worker: as the scenario has it, and its global batch taken for that of one worker.
  std::vector<std::int64_t> batches() const {
    std::vector<std::int64_t> all{scenario_.batch_per_worker};
    const bool named = std::find(seen_.open.begin(), seen_.open.end(), "batch") != seen_.open.end();
    if (named && workers_ > 1) all.push_back(scenario_.batch_global);
    return all;
  }
  std::vector<Precision> precisions() const {
    if (!is_open("gradients", "strategy.data.gradients")) return {scenario_.strategy.gradients};
    return {Precision::fp32, Precision::fp16};
  }
  // How gradients are combined: kind and algorithm.
  struct Way {
    StrategyKind kind;
    std::string algorithm;
  };
  std::vector<Way> ways() const {
    std::vector<StrategyKind> kinds{scenario_.strategy.kind};
    if (is_open("strategy", "strategy.data.kind"))
      kinds = {StrategyKind::ddp, StrategyKind::parameter_server};
    std::vector<Way> all;
    for (const StrategyKind kind : kinds) {
      const bool is_chosen =
          !scenario_.strategy.algorithm.empty() || kind != StrategyKind::ddp || workers_ == 1;
      if (is_chosen) {
        all.push_back({kind, scenario_.strategy.algorithm});
      } else {
        for (const char* algorithm : {"ring", "tree"}) all.push_back({kind, algorithm});
      }
    }
    return all;
  }
  std::vector<Direction> directions() const {
    if (!seen_.network) return {Direction::unknown};
    if (seen_.direction != Direction::unknown) return {seen_.direction};
    return {Direction::each, Direction::sum};
  }
  // The rate seen in one direction.
  double seen_rate(Direction direction) const {
    if (!seen_.network) return 0;
    return seen_.network->bytes_per_second() / (direction == Direction::sum ? 2 : 1);
  }
  // Line rates in bytes per second: as stated, the one that carries what was seen, and usual ones above.
  std::vector<double> lines(Direction direction) const {
    const double stated = scenario_.cluster.topology.network.bandwidth.bytes_per_second();
    std::vector<double> all{stated};
    if (stated <= 0 || !is_open("bandwidth", "cluster.network.bandwidth")) return all;
    const double carried = seen_rate(direction) / efficiency_;
    if (carried > 0 && std::fabs(carried / stated - 1) > 0.02) all.push_back(carried);
    for (const double gigabits : {10.0, 25.0}) {
      const double rate = gigabits * 1e9 / 8;
      if (rate > 1.2 * std::max(stated, carried)) all.push_back(rate);
    }
    return all;
  }

  std::string line_text(double line, Direction direction) const {
    const double stated = scenario_.cluster.topology.network.bandwidth.bytes_per_second();
    if (stated <= 0) return "";
    const double carried = seen_rate(direction) / efficiency_;
    const std::string rate = format_bit_rate(Rate(line));
    if (line == stated) return rate + " as stated";
    return line == carried ? rate + ", which carries what was seen" : rate;
  }

  void hold(std::int64_t batch, Precision gradients, const Way& way, Direction direction, double line) {
    Scenario changed = batch == scenario_.batch_per_worker ? scenario_ : with_batch(scenario_, batch);
    changed.strategy.gradients = gradients;
    changed.strategy.kind = way.kind;
    changed.strategy.algorithm = way.algorithm;
    const double stated = scenario_.cluster.topology.network.bandwidth.bytes_per_second();
    if (stated > 0 && line != stated) changed = with_network(changed, line / stated);
    PredictOptions options;
    options.remedies = false;
    const Result result = predict(changed, options);

    Reading reading;
    reading.batch = fmt::format("{} a worker", batch);
    reading.gradients = name_of(gradients);
    reading.strategy = way.kind == StrategyKind::ddp                ? "all-reduce"
                       : way.kind == StrategyKind::parameter_server ? "parameter server"
                                                                    : name_of(way.kind);
    if (way.kind == StrategyKind::ddp && !way.algorithm.empty()) reading.strategy += " by a " + way.algorithm;
    reading.line = line_text(line, direction);
    reading.direction = direction == Direction::each ? "each" : direction == Direction::sum ? "sum" : "";
    reading.step = result.step.time;
    reading.low = result.step.low;
    reading.high = result.step.high;
    reading.gpu_busy = result.gpu.busy;
    reading.limiting = result.limiting.kind;
    double capacity = 0;
    for (const LinkUse& link : result.links) {
      if (link.name == network_class()) {
        reading.wire_bytes = link.bytes_per_step;
        capacity = link.bandwidth;
      }
    }
    const bool is_only_short = judge(reading, direction, capacity);
    if (!is_only_short) {
      out_.readings.push_back(std::move(reading));
      return;
    }
    // Too fast by itself: something else may hold the step up.
    for (const char* what : {"input", "a straggler"}) {
      Reading with = reading;
      with.besides = what;
      with.excluded_by.clear();
      const double added = step_ - reading.step;
      with.misfit = added / step_;
      const double idle = added / step_;
      const bool shows_idle = std::string(what) == "input";
      if (shows_idle && seen_.gpu_busy && *seen_.gpu_busy > 1 - idle + seen_.tolerance) {
        with.excluded_by = fmt::format(
            "GPUs seen busy for {:.0f} % of the time: waiting {} a step for samples would "
            "leave them idle for {:.0f} %",
            100 * *seen_.gpu_busy, format_time(added), 100 * idle);
      }
      with.consistent = with.excluded_by.empty();
      out_.readings.push_back(std::move(with));
    }
  }

  // The class of the links between nodes.
  std::string network_class() const {
    for (const Link& link : scenario_.cluster.topology.links) {
      if (link.kind == LinkKind::network) return class_of(scenario_.cluster.topology, link);
    }
    return "";
  }

  // Whether nothing speaks against the reading but that its step is too short.
  bool judge(Reading& reading, Direction direction, double capacity) {
    const double tolerance = seen_.tolerance;
    bool is_short = false;
    auto exclude = [&](std::string why, double misfit) {
      if (reading.excluded_by.empty()) reading.excluded_by = std::move(why);
      reading.misfit += misfit;
    };
    const double rate = seen_rate(direction);
    if (rate > 0) {
      if (capacity > 0 && rate > capacity * (1 + tolerance)) {
        exclude(fmt::format("traffic seen: {} in each direction, and the line carries {} at most",
                            format_byte_rate(Rate(rate)), format_byte_rate(Rate(capacity))),
                rate / capacity);
      }
      if (step_ > 0 && reading.wire_bytes > 0) {
        reading.wire_busy = reading.wire_bytes / (rate * step_);
        if (reading.wire_busy > 1 + tolerance / 2) {
          exclude(fmt::format("traffic seen: {} a step need {} at {}, the step takes {}",
                              format_bytes(reading.wire_bytes), format_time(reading.wire_bytes / rate),
                              format_byte_rate(Rate(rate)), format_time(step_)),
                  reading.wire_busy - 1);
        }
        if (reading.wire_busy < 1 - 2 * tolerance) {
          exclude(fmt::format("traffic seen: {} a step at {} leave the wire idle for {:.0f} % of the step, "
                              "which was not seen",
                              format_bytes(reading.wire_bytes), format_byte_rate(Rate(rate)),
                              100 * (1 - reading.wire_busy)),
                  1 - reading.wire_busy);
        }
      }
    }
    if (step_ > 0) {
      if (reading.low > step_ * (1 + tolerance)) {
        exclude(fmt::format("step seen: {}, and this one takes {}", format_time(step_),
                            format_time(reading.step)),
                reading.low / step_ - 1);
      } else if (reading.high < step_ * (1 - tolerance)) {
        is_short = reading.excluded_by.empty();
        exclude(fmt::format("step seen: {}, and this one takes {} by itself", format_time(step_),
                            format_time(reading.step)),
                1 - reading.high / step_);
      } else {
        reading.misfit += 0.1 * std::fabs(reading.step / step_ - 1);
      }
    }
    reading.consistent = reading.excluded_by.empty();
    return is_short;
  }

  void conclude() {
    const auto consistent = [](const Reading& reading) { return reading.consistent; };
    const auto count = std::count_if(out_.readings.begin(), out_.readings.end(), consistent);
    const auto alone = std::count_if(out_.readings.begin(), out_.readings.end(),
                                     [](const Reading& r) { return r.consistent && r.besides.empty(); });
    const auto by_network = std::count_if(out_.readings.begin(), out_.readings.end(), [](const Reading& r) {
      return r.consistent && r.besides.empty() && r.limiting == "network";
    });
    out_.verdict.push_back(
        fmt::format("{} of {} readings agree with everything seen, {} of them without a further cause.",
                    count, out_.readings.size(), alone));
    if (alone > 0 && by_network == alone) {
      const Reading& best = out_.readings.front();
      out_.verdict.push_back(fmt::format(
          "In each of these the network is the limit: {} a step{}. GPUs that spin in a collective count as "
          "busy, so "
          "that busy GPUs do not speak against it: this reading has them busy for {:.0f} % of the step.",
          format_bytes(best.wire_bytes),
          best.wire_busy > 0 ? fmt::format(" keep the wire busy for {:.0f} % of it", 100 * best.wire_busy)
                             : "",
          100 * best.gpu_busy));
    }
    if (count == 0)
      out_.verdict.push_back(
          "No reading agrees: a number is wrong, or something is at work that is not modelled.");
  }

  // What the readings that remain differ in, and what tells them apart.
  void measure() {
    struct Question {
      std::string Reading::*part;
      const char* text;
    };
    static const std::array<Question, 6> questions{
        {{&Reading::line,
          "the line rate: what the NIC reports (ethtool), and the rate of a bare transfer between two nodes"},
         {&Reading::gradients, "the bytes on the wire a step: the NIC's counters before and after 100 steps"},
         {&Reading::direction,
          "whether the traffic seen is of one direction or the sum of both: the NIC's two counters apart"},
         {&Reading::strategy, "each node's traffic by itself: equal under all-reduce, more at a server"},
         {&Reading::batch,
          "samples a second, which the framework logs: a batch a worker trains as many times more as there "
          "are workers"},
         {&Reading::besides,
          "the step of one worker alone at the same batch: what it lacks to the step seen is communication "
          "or "
          "waiting"}}};
    for (const Question& question : questions) {
      std::set<std::string> values;
      for (const Reading& reading : out_.readings) {
        if (reading.consistent) values.insert(reading.*question.part);
      }
      if (values.size() < 2) continue;
      std::string all;
      for (const std::string& value : values)
        all += (all.empty() ? "" : " or ") + (value.empty() ? std::string("nothing else") : value);
      out_.measure_next.push_back(fmt::format("{} ({})", question.text, all));
    }
  }

  void remark() {
    const double parameters = scenario_.model        ? static_cast<double>(scenario_.model->parameter_count())
                              : scenario_.step_times ? scenario_.step_times->gradient_bytes / 4
                                                     : 0;
    if (seen_.checkpoint && parameters > 0) {
      const auto bytes = static_cast<double>(seen_.checkpoint->count());
      struct Content {
        int bytes;
        const char* text;
      };
      static constexpr std::array contents{Content{4, "fp32 weights alone"},
                                           Content{8, "fp32 weights and a momentum"},
                                           Content{12, "fp32 weights and Adam's two moments"},
                                           Content{14, "these and a copy of the weights in half precision"},
                                           Content{16, "fp32 weights, moments and gradients"}};
      const Content* nearest = &contents[0];
      for (const Content& content : contents) {
        if (std::fabs(content.bytes * parameters - bytes) < std::fabs(nearest->bytes * parameters - bytes))
          nearest = &content;
      }
      out_.remarks.push_back(
          fmt::format("A checkpoint of {} is {:.1f} bytes a parameter: nearest is {} ({} bytes, {}).",
                      format_bytes(bytes), bytes / parameters, nearest->text, nearest->bytes,
                      format_bytes(nearest->bytes * parameters)));
    }
    if (seen_.processor && scenario_.host && scenario_.host->cores > 0) {
      const double busy = *seen_.processor * scenario_.host->cores;
      const int needed = whole_cores(busy);
      out_.remarks.push_back(
          fmt::format("{:.0f} % of {} cores are {:.1f} cores of work: {} would do, {} per cent busy.",
                      100 * *seen_.processor, scenario_.host->cores, busy, std::max(1, needed),
                      std::lround(100 * busy / std::max(1, needed))));
    }
  }

  const Scenario& scenario_;
  const Observed& seen_;
  double step_ = 0, efficiency_ = 1;
  std::int64_t workers_ = 1;
  Explanation out_;
};

}  // namespace

Explanation explain(const Scenario& scenario) {
  if (!scenario.observed) {
    throw Error(
        ErrorKind::input,
        "explain: the scenario has no 'observed', as in 'observed: { step: 2.04 s, network: 200 MB/s }'");
  }
  if (!scenario.observed->step && !scenario.observed->network) {
    throw Error(ErrorKind::input, "explain: needs at least the step or the traffic that was seen");
  }
  return Explainer(scenario).explain();
}

}  // namespace foretrain
