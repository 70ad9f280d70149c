#include "sim/training/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/parse_units.hpp"
#include "sim/network/collective_cost.hpp"

namespace foretrain {
namespace {

// The class of links that is longest on the wire.
std::string busiest_class(std::span<const LinkUse> links) {
  auto seconds = [](const LinkUse& link) {
    return link.bandwidth > 0 ? link.bytes_per_step / link.bandwidth : 0;
  };
  const auto longest = std::max_element(links.begin(), links.end(), [&](const LinkUse& a, const LinkUse& b) {
    return seconds(a) < seconds(b);
  });
  return longest == links.end() ? "" : longest->name;
}

std::string network_text(const Scenario& scenario, const StepSimulation& simulation,
                         const StepOutcome& outcome, double gain) {
  double payload = 0;
  for (const CollectiveUse& use : simulation.collectives()) payload += static_cast<double>(use.bytes.count());
  const Topology& topology = scenario.cluster.topology;
  const char* workers =
      workers_are_cpus(scenario.cluster.topology, scenario.profile.get()) ? "workers" : "GPUs";
  const std::string where =
      topology.nodes > 1 && topology.network.bandwidth.bytes_per_second() > 0
          ? fmt::format("the network of {}", format_bit_rate(topology.network.bandwidth))
          : fmt::format("the links between the {} of the node", workers);
  return fmt::format(
      "The network is the limit: {} of gradients a step over {} keep the {} waiting for {} of {} ({:.0f} "
      "%). With no communication at all a step would take {:.0f} % less.",
      format_bytes(payload), where, workers, format_time(outcome.use.breakdown.exposed_communication),
      format_time(outcome.seconds), 100 * outcome.use.breakdown.exposed_communication / outcome.seconds,
      100 * gain);
}

std::string straggler_text(const Scenario& scenario, const StepSimulation& simulation, double gain) {
  const std::vector<double>& factors = scenario.cluster.topology.compute_factors;
  const auto slowest = std::max_element(factors.begin(), factors.end());
  std::string who = fmt::format("The slowest of {} workers is the limit", simulation.workers());
  if (slowest != factors.end() && *slowest > 1) {
    who += fmt::format(": worker {}, whose kernels take {:.3g} times as long as the profile's",
                       slowest - factors.begin(), *slowest);
    if (const auto alike = std::count(factors.begin(), factors.end(), *slowest); alike > 1)
      who += fmt::format(", as those of {} other{} do", alike - 1, alike == 2 ? "" : "s");
    who += ". The others wait for it.";
  } else {
    who += '.';
  }
  return fmt::format("{} If all were as fast as the typical one, a step would take {:.0f} % less.", who,
                     100 * gain);
}

}  // namespace

Limiting limiting_of(const Scenario& scenario, const StepSimulation& simulation, const StepFactors& factors,
                     const StepOutcome& outcome, std::span<const LinkUse> links) {
  auto gain_of = [&](auto change) {
    StepFactors changed = factors;
    change(changed);
    return std::max(0.0, 1 - simulation.seconds(changed) / outcome.seconds);
  };
  const double network = simulation.collectives().empty() ? 0 : gain_of([](StepFactors& f) {
    f.communication = 0;
    f.interference = false;
  });
  // What of it no network shortens.
  const double waiting = simulation.ranks_wait() ? gain_of([](StepFactors& f) { f.collective_wait = 0; }) : 0;
  const double host = gain_of([](StepFactors& f) { f.host = 0; });
  const double straggler = gain_of([](StepFactors& f) {
    f.slowest_device = f.slowest_host = 1;
    f.even = true;
  });
  const Breakdown& parts = outcome.use.breakdown;

  Limiting out;
  const char* processor =
      workers_are_cpus(scenario.cluster.topology, scenario.profile.get()) ? "processor" : "GPU";
  const double most = std::max({network, host, straggler});
  constexpr double noticeable = 0.05;
  if (most < noticeable) {
    out.kind = "gpu";
    const double faster = std::max(network, host);
    out.text = fmt::format(
        "The {} is the limit: kernels run for {:.0f} % of the step. Faster kernels or fewer operations "
        "would shorten it; a faster network or host would gain {:.1f} % at most{}.",
        processor, 100 * outcome.use.computing / outcome.seconds, 100 * faster,
        straggler > faster ? fmt::format(", workers that are all alike {:.1f} %", 100 * straggler) : "");
  } else if (most == network && waiting > network / 2) {
    out.kind = "straggler";
    out.text = fmt::format(
        "Workers that wait for each other before a collective are the limit: without it a step would take "
        "{:.0f} % less, with no communication at all {:.0f} % less. So it was in calibration's steps; a "
        "faster network does not change it.",
        100 * waiting, 100 * network);
  } else if (most == network) {
    out.kind = "network";
    out.link = busiest_class(links);
    out.text = network_text(scenario, simulation, outcome, network);
  } else if (most == host) {
    out.kind = "host";
    out.text = fmt::format(
        "The host is the limit: launching {:.0f} kernels a step takes longer than running them, and the {} "
        "idles for {:.0f} % of the step. A larger batch costs no time until the kernels take longer than "
        "their launches.",
        simulation.launches(), processor, 100 * parts.host / outcome.seconds);
  } else {
    out.kind = "straggler";
    out.text = straggler_text(scenario, simulation, straggler);
  }
  return out;
}

}  // namespace foretrain
