#include "calibrate/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace foretrain::calibrate {
namespace {

// Largest k (from 1) such that P(Binomial(n, 1/2) < k) <= 2.5 %: [x(k), x(n + 1 - k)] holds the median with
// at least 95 %. 0 where there is none (n < 6).
int bound_rank(int n) {
  if (n > 500) return static_cast<int>(std::floor(n / 2.0 - 1.959964 * std::sqrt(n) / 2));  // normal limit
  double mass = std::ldexp(1.0, -n);                                                        // P(X = 0)
  double below = 0;
  int k = 0;
  while (k < n && below + mass <= 0.025) {
    below += mass;
    mass *= static_cast<double>(n - k) / (k + 1);
    ++k;
  }
  return k;
}

}  // namespace

Sample summarize(std::vector<double> values) {
  Sample sample;
  sample.repetitions = static_cast<int>(values.size());
  if (values.empty()) return sample;
  std::sort(values.begin(), values.end());
  sample.median = quantile(values, 0.5);
  sample.spread = quantile(values, 0.75) - quantile(values, 0.25);
  const std::size_t k = static_cast<std::size_t>(std::max(bound_rank(sample.repetitions), 1));
  sample.low = values[k - 1];
  sample.high = values[values.size() - k];
  return sample;
}

Sample less(const Sample& sample, double correction) {
  Sample result = sample;
  for (double Sample::*part : {&Sample::median, &Sample::low, &Sample::high})
    result.*part = std::max(0.0, sample.*part - correction);
  return result;
}

bool StopRule::done(std::span<const double> values, double seconds_spent) const {
  const int count = static_cast<int>(values.size());
  if (count >= most) return true;
  if (seconds_spent >= seconds && count >= least_in_time) return true;
  if (count < least) return false;
  return foretrain::relative_error(summarize({values.begin(), values.end()})) <= relative_error;
}

int repetitions_in(double seconds, double each, int least, int most) {
  if (!(each > 0)) return most;
  return static_cast<int>(std::clamp(seconds / each, static_cast<double>(least), static_cast<double>(most)));
}

void append_log_deviations(std::span<const double> values, std::vector<double>& deviations) {
  const double middle = median({values.begin(), values.end()});
  if (!(middle > 0)) return;
  for (const double value : values)
    if (value > 0) deviations.push_back(std::log(value / middle));
}

NoiseEntry noise_of(const std::string& what, std::vector<double> log_deviations) {
  NoiseEntry noise;
  noise.what = what;
  if (log_deviations.size() < 2) return noise;
  std::sort(log_deviations.begin(), log_deviations.end());
  const double robust = (quantile(log_deviations, 0.75) - quantile(log_deviations, 0.25)) / 1.349;
  const double limit = 6 * robust;
  double squares = 0, tail = 0;
  int inside = 0, outside = 0;
  for (const double deviation : log_deviations) {
    if (deviation > limit && robust > 0) {
      tail += std::exp(deviation);
      ++outside;
    } else {
      squares += deviation * deviation;
      ++inside;
    }
  }
  noise.sigma = inside > 0 ? std::sqrt(squares / inside) : 0;
  noise.tail_probability = static_cast<double>(outside) / static_cast<double>(log_deviations.size());
  noise.tail_factor = outside > 0 ? tail / outside : 1;
  return noise;
}

}  // namespace foretrain::calibrate
