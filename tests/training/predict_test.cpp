#include "sim/training/predict.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/input/job.hpp"
#include "sim/network/changes.hpp"
#include "sim/network/families.hpp"
#include "sim/training/gpu_types.hpp"
#include "sim/training/remedies.hpp"
#include "sim/training/step_simulation.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"

using namespace foretrain;

namespace {

NetworkDescription ethernet(double gbit) {
  NetworkDescription network;
  network.bandwidth = network.reported = Rate::bits_per_second(gbit * 1e9);
  network.latency = Time::microseconds(15);
  return network;
}

Topology nvlink_node(int gpus) {
  NvlinkNode family;
  family.gpus_per_node = gpus;
  return make_topology(family);
}

Topology ethernet_nodes(int nodes, int gpus_per_node, const NetworkDescription& network) {
  EthernetNodes family;
  family.nodes = nodes;
  family.gpus_per_node = gpus_per_node;
  family.network = network;
  return make_topology(family);
}

Scenario scenario_of(Topology topology, std::int64_t batch = 32) {
  static const auto model = std::make_shared<const Model>(test::resnet18());
  static const auto profile = std::make_shared<const Profile>(test::made_profile(*model, {16, 32, 64}));
  Scenario scenario;
  scenario.name = "made";
  scenario.model = model;
  scenario.profile = profile;
  scenario.profile_names = {"made"};
  scenario.precision = Precision::bf16;
  scenario.optimizer.momentum = 0.9;
  scenario.cluster.topology = std::move(topology);
  scenario.cluster.family = scenario.cluster.topology.name;
  scenario.batch_per_worker = batch;
  scenario.batch_global = batch * static_cast<std::int64_t>(scenario.cluster.topology.workers.size());
  return scenario;
}

// Each doubt replayed by itself; on either side of the median they add in quadrature. Returns how much of the
// square of the upper side is the network's, the host's and the interference's.
std::map<std::string, double> check_interval(const Scenario& scenario) {
  const StepSimulation simulation(scenario);
  const StepPrediction step = predict(scenario, {.remedies = false}).step;
  const StepFactors median = simulation.at_quantile(0.5);
  const auto squared = [&](double StepFactors::*factor, double by) {
    StepFactors factors = median;
    factors.*factor *= by;
    return std::pow(simulation.seconds(factors) - step.time, 2);
  };
  double doubt = 0, weight = 0;
  bool interferes = false;
  for (const CollectiveUse& use : simulation.collectives()) {
    doubt += use.cost.time.in_seconds() * use.cost.relative_uncertainty;
    weight += use.cost.time.in_seconds();
    interferes = interferes || use.beside.compute > 1;
  }
  const double network = weight > 0 ? doubt / weight : 0, beside = interferes ? 0.5 : 0;
  const StepTimes& times = simulation.times();
  std::map<std::string, double> above{
      {"device", squared(&StepFactors::device, 1 + times.device_uncertainty)},
      {"host", squared(&StepFactors::host, 1 + times.host_slower)},
      {"network", squared(&StepFactors::communication, 1 + network)},
      {"interference", squared(&StepFactors::compute_interference, 1 + beside)}};
  const double below =
      squared(&StepFactors::device, 1 - std::max(times.device_uncertainty, times.device_faster)) +
      squared(&StepFactors::host, 1 - times.host_faster) + squared(&StepFactors::communication, 1 - network) +
      squared(&StepFactors::compute_interference, 1 - beside);
  double sum = 0;
  for (const auto& [what, square] : above) sum += square;
  REQUIRE(sum > 0);
  CHECK(step.high - step.time == test::approx(std::sqrt(sum)).epsilon(1e-6));
  CHECK(step.time - step.low == test::approx(std::sqrt(below)).epsilon(1e-6));
  CHECK(step.p05 == simulation.seconds(simulation.at_quantile(0.05)));
  CHECK(step.p50 == simulation.seconds(median));
  CHECK(step.p95 == simulation.seconds(simulation.at_quantile(0.95)));
  for (auto& [what, square] : above) square /= sum;
  return above;
}

}  // namespace

TEST_CASE("one worker: the step is the sum of its kernels, and parts sum to it") {
  const Scenario scenario = scenario_of(nvlink_node(1));
  const Result result = predict(scenario);
  const int layers = test::timed_layers(*scenario.model);
  CHECK(result.step.time == test::approx(layers * 3 * 42e-6 + 100e-6).epsilon(1e-6));
  CHECK(result.step.breakdown.total() == test::approx(result.step.time).epsilon(1e-9));
  CHECK(result.step.low <= result.step.time);
  CHECK(result.step.high >= result.step.time);
  CHECK(result.limiting.kind == "gpu");
  CHECK(result.efficiency == test::approx(1));
  CHECK(result.communication.collectives == 0);
}

TEST_CASE("two nodes on a slow network: the network is the limit, and parts sum to the step") {
  const Scenario scenario = scenario_of(ethernet_nodes(2, 1, ethernet(1)));
  const Result result = predict(scenario);
  CHECK(result.limiting.kind == "network");
  CHECK(result.communication.bytes_per_worker == test::approx(11'689'512 * 4));
  CHECK(result.communication.collectives == 3);
  CHECK(result.step.breakdown.total() == test::approx(result.step.time).epsilon(1e-9));
  // 46.8 MB at 125 MB/s take 374 ms at line rate; a ring of two puts the whole on the wire once each way.
  CHECK(result.step.time > 0.374);
  CHECK(result.step.time < 0.5);
  CHECK(result.efficiency < 0.1);
  CHECK_FALSE(result.remedies.empty());
  CHECK(result.remedies.front().speedup > 1.5);
  REQUIRE(result.break_even.has_value());
  CHECK(result.break_even->bandwidth_next_node > 1e9 / 8);
  bool nic = false;
  for (const LinkUse& link : result.links) {
    CHECK(link.utilisation <= 1);
    nic = nic || link.utilisation > 0.8;
  }
  CHECK(nic);
}

TEST_CASE("where the host is the limit a CUDA graph is the first remedy") {
  Scenario scenario = scenario_of(nvlink_node(1));
  Profile slow_host = *scenario.profile;
  for (OperatorEntry& entry : slow_host.operators) {
    for (PassTiming& pass : entry.passes) pass.host.median = 2 * pass.device.median;
  }
  scenario.profile = std::make_shared<const Profile>(std::move(slow_host));
  const Result result = predict(scenario);
  CHECK(result.limiting.kind == "host");
  REQUIRE_FALSE(result.remedies.empty());
  CHECK(result.remedies.front().change == "the step as a CUDA graph");
  const StepSimulation simulation(scenario);
  StepFactors factors = simulation.at_quantile(0.5);
  factors.host = 0;
  CHECK(result.remedies.front().step == test::approx(simulation.seconds(factors)).epsilon(0.02));
  CHECK(result.remedies.front().step < 0.9 * result.step.time);
}

TEST_CASE("more bandwidth is never slower where the choice of algorithm is the same") {
  double before = 1e9;
  for (double gbit : {1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0}) {
    const Scenario scenario = scenario_of(ethernet_nodes(2, 1, ethernet(gbit)));
    const double step = predict(scenario, {.remedies = false}).step.time;
    CHECK(step <= before * (1 + 1e-9));
    before = step;
  }
}

TEST_CASE("the symmetric shortcut and the plain replay of all ranks give the same step") {
  const StepSimulation simulation(scenario_of(ethernet_nodes(4, 2, ethernet(10))));
  StepFactors plain;
  plain.plain = true;
  CHECK(simulation.run().replay.step == simulation.run(plain).replay.step);
}

TEST_CASE("a few speeds that stand for many give the step of all of them") {
  for (const double interference : {1.0, 1.2}) {
    Scenario scenario = scenario_of(ethernet_nodes(25, 4, ethernet(25)));
    auto profile = std::make_shared<Profile>(*scenario.profile);
    for (InterferenceEntry& entry : profile->interference) entry.collective_slowdown.median = interference;
    scenario.profile = profile;
    RandomStream random(3);
    for (int rank = 0; rank < 100; ++rank) {
      scenario.cluster.topology.compute_factors.push_back(1 + 0.3 * random.uniform());
    }
    for (const double host : {1.0, 4.0}) {
      for (const double network : {0.1, 1.0, 4.0}) {
        StepFactors factors;
        factors.host = host;
        factors.wires.network = network;
        const StepSimulation asked(scenario), fresh(scenario);
        asked.run();  // finds that few suffice
        const StepOutcome few = asked.run(factors), all = fresh.run(factors);
        CHECK(all.input.classes.size() == 100);
        CHECK(few.input.classes.size() < 20);
        CHECK(few.seconds == test::approx(all.seconds).epsilon(1e-6));
        CHECK(few.use.breakdown.exposed_communication ==
              test::approx(all.use.breakdown.exposed_communication).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("sensitivity: what limits gains most, what does not is not critical") {
  auto of = [](const Scenario& scenario) {
    std::map<std::string, Sensitivity> all;
    for (const Sensitivity& each : predict(scenario).sensitivity) all[each.input] = each;
    return all;
  };
  const auto slow = of(scenario_of(ethernet_nodes(2, 2, ethernet(1))));
  CHECK(slow.size() == 5);
  CHECK(slow.at("network bandwidth").critical);
  CHECK(slow.at("network bandwidth").speedup > 1.07);
  CHECK(slow.at("network bandwidth").speedup < 1.1);
  CHECK_FALSE(slow.at("host").critical);
  CHECK_FALSE(slow.at("links within nodes").critical);
  const auto one = of(scenario_of(nvlink_node(1)));
  CHECK(one.size() == 2);
  CHECK(one.at("kernels").speedup == test::approx(1.1).epsilon(0.01));
  CHECK_FALSE(one.at("host").critical);
}

// GPU 0 of each of two nodes trains one model, GPU 1 another: they share the NICs. Two equal jobs do the same
// at the same time, so that each of their collectives has half the wire all the time.
TEST_CASE("two equal jobs over one network: each gets half while both communicate") {
  const Scenario both = scenario_of(ethernet_nodes(2, 2, ethernet(0.1)));
  auto job_on = [&](std::vector<bool> kept) {
    Scenario job = both;
    keep_workers(job.cluster.topology, kept);
    job.batch_global = 2 * job.batch_per_worker;
    return job;
  };
  Scenario ours = job_on({true, false, true, false});
  const StepSimulation alone(ours);
  const StepOutcome before = alone.run();
  ours.others = {std::make_shared<const Scenario>(job_on({false, true, false, true}))};
  const StepSimulation beside(ours);
  const StepOutcome after = beside.run();
  CHECK(after.use.collective_running == test::approx(2 * before.use.collective_running).epsilon(0.01));
  CHECK(after.use.breakdown.total() == test::approx(after.seconds).epsilon(1e-9));
  CHECK(after.use.breakdown.backward == test::approx(before.use.breakdown.backward).epsilon(0.01));
  // Twice the bandwidth for both is what one had alone.
  StepFactors twice;
  twice.wires.network = 2;
  CHECK(beside.run(twice).use.collective_running ==
        test::approx(before.use.collective_running).epsilon(0.02));
  // On nodes of their own they do not meet.
  Scenario apart = scenario_of(ethernet_nodes(4, 1, ethernet(0.1)));
  Scenario other = apart;
  keep_workers(apart.cluster.topology, {true, true, false, false});
  keep_workers(other.cluster.topology, {false, false, true, true});
  const double lonely = StepSimulation(apart).run().seconds;
  apart.others = {std::make_shared<const Scenario>(other)};
  CHECK(StepSimulation(apart).run().seconds == test::approx(lonely).epsilon(1e-6));
}

TEST_CASE("two predictions with one seed are equal in every number; a trace does not change them") {
  const Scenario scenario = scenario_of(ethernet_nodes(2, 2, ethernet(10)));
  Timeline timeline;
  PredictOptions options;
  options.timeline = &timeline;
  const Result a = predict(scenario), b = predict(scenario, options);
  CHECK(a.step.time == b.step.time);
  CHECK(a.step.low == b.step.low);
  CHECK(a.remedies.size() == b.remedies.size());
  CHECK_FALSE(timeline.slices.empty());
  int ranks = 0;
  for (const Slice& slice : timeline.slices) {
    CHECK(slice.start >= Time());
    ranks = std::max(ranks, slice.rank + 1);
  }
  CHECK(ranks == 4);
}

TEST_CASE("a small batch on a slow host is bound by the host") {
  Scenario scenario = scenario_of(nvlink_node(1));
  auto slow = std::make_shared<Profile>(*scenario.profile);
  for (OperatorEntry& entry : slow->operators) {
    for (PassTiming& pass : entry.passes) pass.host.median = 60e-6;
  }
  scenario.profile = slow;
  const Result result = predict(scenario);
  CHECK(result.limiting.kind == "host");
  CHECK(result.step.breakdown.host > 0);
}

TEST_CASE("noise makes a step wait for the slowest of many workers") {
  Scenario few = scenario_of(nvlink_node(2)), many = scenario_of(nvlink_node(8));
  auto noisy = std::make_shared<Profile>(*few.profile);
  noisy->noise.push_back({"device", "", Precision::fp32, 0, 0, 0.05, 0, 1});
  few.profile = many.profile = noisy;
  const Result two = predict(few), eight = predict(many);
  CHECK(two.step.p05 < two.step.p50);
  CHECK(two.step.p50 < two.step.p95);
  CHECK(eight.step.p50 > two.step.p50);
}

// A step that the device bounds takes (1 + u) and (1 - u) times as long where the device is off by u.
TEST_CASE("the interval of one worker is the doubt of its device") {
  const Scenario scenario = scenario_of(nvlink_node(1));
  const StepTimes times = StepSimulation(scenario).times();
  const double u = times.device_uncertainty;
  REQUIRE(u > 0);
  const StepPrediction step = predict(scenario, {.remedies = false}).step;
  CHECK(step.high == test::approx((1 + u) * step.time).epsilon(1e-3));
  CHECK(step.low == test::approx((1 - std::max(u, times.device_faster)) * step.time).epsilon(1e-3));
}

TEST_CASE("the interval adds the doubts of device, host, network and interference in quadrature") {
  CHECK(check_interval(scenario_of(ethernet_nodes(2, 1, ethernet(1))))["network"] > 0.5);
  Scenario scenario = scenario_of(ethernet_nodes(2, 1, ethernet(25)), 24);
  auto profile = std::make_shared<Profile>(*scenario.profile);
  scenario.profile = profile;
  profile->noise.push_back({"device", "", Precision::fp32, 0, 0, 0.05, 0, 1});
  CHECK(check_interval(scenario)["device"] > 0);
  // Of kernels beside collectives within a node.
  InterferenceEntry interference;
  interference.model = scenario.model->name;
  interference.precision = scenario.precision;
  interference.batch = 32;
  interference.ranks = 2;
  interference.bytes = 1 << 24;
  interference.compute_slowdown = {1.4, 1.4, 1.4, 0, 30};
  interference.collective_slowdown = {1.1, 1.1, 1.1, 0, 30};
  profile->interference.push_back(interference);
  Scenario inside = scenario_of(nvlink_node(2));
  inside.profile = std::make_shared<const Profile>(*profile);
  CHECK(check_interval(inside)["interference"] > 0.01);
}

// The host was seen up to 5 % faster and 30 % slower than its median, at three times: another time may be
// farther by 0.587 of that range (see host_speed).
TEST_CASE("where the host is the limit the interval reaches beyond the farthest that it was seen to stray") {
  Scenario scenario = scenario_of(nvlink_node(1));
  auto profile = std::make_shared<Profile>(*scenario.profile);
  for (OperatorEntry& entry : profile->operators) {
    for (PassTiming& pass : entry.passes) pass.host.median = 100e-6;
  }
  const double launches = 3.0 * test::timed_layers(*scenario.model) + 1;
  for (const auto& [batch, factor] : std::map<std::int64_t, double>{{16, 0.95}, {32, 1.0}, {64, 1.3}}) {
    StepEntry entry;
    entry.model = scenario.model->name;
    entry.precision = scenario.precision;
    entry.batch = batch;
    entry.launches = launches;
    entry.host = entry.step = {100e-6 * launches * factor, 0, 0, 0, 30};
    profile->steps.push_back(entry);
  }
  scenario.profile = profile;
  const StepTimes times = StepSimulation(scenario).times();
  CHECK(times.host_slower == test::approx(0.3 + 0.587 * 0.35).epsilon(0.001));
  CHECK(times.host_faster == test::approx(0.05 + 0.587 * 0.35).epsilon(0.001));
  CHECK(check_interval(scenario)["host"] > 0.9);
}

TEST_CASE("one slow worker is the limit, and is named") {
  Topology topology = nvlink_node(8);
  slow_workers(topology, 3, 3, 1.4);
  const Result result = predict(scenario_of(std::move(topology)));
  CHECK(result.limiting.kind == "straggler");
  CHECK(result.limiting.text.find("worker 3, whose kernels take 1.4 times") != std::string::npos);
  Topology all = nvlink_node(8);
  slow_workers(all, 0, 7, 1.4);
  CHECK(predict(scenario_of(std::move(all))).limiting.kind == "gpu");  // none is slower than the others
}

TEST_CASE("workers on GPUs of another type take the times of its profile") {
  const Scenario alike = scenario_of(ethernet_nodes(2, 2, ethernet(100)));
  Profile slower = *alike.profile;
  for (OperatorEntry& entry : slower.operators) {
    for (PassTiming& pass : entry.passes) pass.device.median *= 1.5;
  }
  for (OptimizerEntry& entry : slower.optimizers) entry.update.device.median *= 1.5;
  slower.runs.resize(1);
  slower.runs.back().machine.memory_bytes = 1.1e9;  // little more than a context takes
  Scenario by_profile = alike, by_factor = alike;
  by_profile.gpu_types =
      std::make_shared<const GpuTypes>(GpuTypes{{std::make_shared<const Profile>(slower)}, {0, 0, 1, 1}});
  by_factor.cluster.topology.compute_factors = {1, 1, 1.5, 1.5};
  const Result mixed = predict(by_profile);
  CHECK(mixed.step.time == test::approx(predict(by_factor).step.time).epsilon(1e-6));
  CHECK(mixed.step.time > 1.15 * predict(alike).step.time);
  CHECK_FALSE(mixed.memory.fits);  // on the smaller of the two
  // Workers of a slower type are meant to be so; those of a factor are stragglers.
  CHECK(mixed.limiting.kind == "network");
  CHECK(predict(by_factor).limiting.kind == "straggler");
  // Where the other type is the faster one the step is that of the first.
  by_profile.profile = by_profile.gpu_types->profiles[0];
  by_profile.gpu_types = std::make_shared<const GpuTypes>(GpuTypes{{alike.profile}, {0, 0, 1, 1}});
  CHECK(predict(by_profile).step.time == test::approx(mixed.step.time).epsilon(1e-6));
  // The plain replay of all ranks agrees.
  const StepSimulation simulation(by_profile);
  StepFactors plain;
  plain.plain = true;
  CHECK(simulation.run().replay.step == simulation.run(plain).replay.step);
}

TEST_CASE("workers of nodes that are made of one machine slow each other as those of one node do") {
  auto crowded = std::make_shared<Profile>(*scenario_of(nvlink_node(1)).profile);
  crowded->device = "cpu";
  const std::string model = scenario_of(nvlink_node(1)).model->name;
  StepEntry step;
  step.model = model;
  step.precision = Precision::bf16;
  step.batch = 32;
  step.step.median = predict(scenario_of(nvlink_node(1)), {.remedies = false}).step.time;
  OverlapEntry four;
  four.model = model;
  four.precision = Precision::bf16;
  four.batch = 32;
  four.ranks = 4;
  four.alone.median = 1.6 * step.step.median;  // 0.2 for each other
  crowded->steps.push_back(step);
  crowded->overlaps.push_back(four);
  const auto kernels = [&](int nodes, int workers, bool is_shared) {
    Scenario scenario = scenario_of(ethernet_nodes(nodes, workers, ethernet(100)));
    scenario.profile = crowded;
    scenario.strategy.kind = StrategyKind::independent;
    scenario.host = std::make_shared<const HostDescription>(HostDescription{.shared = is_shared});
    return predict(scenario, {.remedies = false}).step.time / step.step.median;
  };
  CHECK(kernels(2, 1, false) == test::approx(1.0).epsilon(1e-3));
  CHECK(kernels(2, 1, true) == test::approx(1.2).epsilon(1e-3));
  CHECK(kernels(2, 2, false) == test::approx(1.2).epsilon(1e-3));
  CHECK(kernels(2, 2, true) == test::approx(1.6).epsilon(1e-3));
  CHECK(kernels(4, 1, true) == test::approx(1.6).epsilon(1e-3));
  CHECK(kernels(1, 4, true) == test::approx(1.6).epsilon(1e-3));
}

// Drift of the device and what workers did to each other are doubts of the same kernels: 0.8 of them each,
// and in quadrature 1.13 of the step.
TEST_CASE("the interval of the median begins above nothing however large the doubts are") {
  Scenario scenario = scenario_of(make_topology(OneNode{.workers = 2}));
  Profile noisy = *scenario.profile;
  noisy.device = "cpu";
  const std::string& model = scenario.model->name;
  for (OperatorEntry& entry : noisy.operators) {
    for (PassTiming& pass : entry.passes) {
      pass.device.low = 0.2 * pass.device.median;
      pass.device.high = 1.8 * pass.device.median;
    }
  }
  for (const double whole : {1.0, 9.0}) {
    StepEntry step;
    step.model = model;
    step.precision = scenario.precision;
    step.batch = whole > 1 ? 64 : 32;
    const Result alone = predict(scenario_of(nvlink_node(1), step.batch), {.remedies = false});
    step.step.median = whole * alone.step.time;
    noisy.steps.push_back(step);
    OverlapEntry both;
    both.model = model;
    both.precision = scenario.precision;
    both.batch = step.batch;
    both.ranks = 2;
    both.alone.median = (whole > 1 ? 1 : 9) * step.step.median;
    noisy.overlaps.push_back(both);
  }
  scenario.profile = std::make_shared<const Profile>(std::move(noisy));
  const StepPrediction step = predict(scenario, {.remedies = false}).step;
  CHECK(step.low > 0);
  CHECK(step.low < 0.3 * step.p50);
  CHECK(step.high > 1.5 * step.p50);
}

TEST_CASE("of workers that are CPUs words and remedies are a CPU's") {
  const auto text_of = [](const Scenario& scenario) {
    const Result result = predict(scenario);
    std::string text = result.limiting.text;
    for (const Remedy& remedy : result.remedies) text += "; " + remedy.change + ", " + remedy.cost;
    return text;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string gpus = text_of(scenario_of(ethernet_nodes(2, 1, ethernet(1))));
  CHECK(has(gpus, "gradients in bf16"));
  CHECK(has(gpus, "keep the GPUs waiting"));
  CHECK(has(gpus, "fewer GPUs"));
  Scenario scenario = scenario_of(ethernet_nodes(2, 1, ethernet(1)));
  Profile profile = *scenario.profile;
  profile.device = "cpu";
  scenario.profile = std::make_shared<const Profile>(std::move(profile));
  const std::string cpus = text_of(scenario);
  CAPTURE(cpus);
  CHECK_FALSE(has(cpus, "bf16"));
  CHECK_FALSE(has(cpus, "GPU"));
  CHECK(has(cpus, "keep the workers waiting"));
  CHECK(has(cpus, "fewer workers"));
  scenario.cluster.topology = make_topology(OneNode{.workers = 1});
  CHECK(has(text_of(scenario), "The processor is the limit"));
}
