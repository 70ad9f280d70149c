// Order statistics of noise: a step waits for the slowest of N ranks.
#pragma once

namespace foretrain {

// Quantile of the standard normal distribution (Acklam's rational approximation, one step of Halley; |error|
// < 1e-9).
double normal_quantile(double probability);

// The factor on the slowest rank's time that a step exceeds with probability 1 - quantile, where the
// logarithms of N ranks' times are independent and normal: exp(sigma x normal_quantile(quantile^(1/N))).
double slowest_factor(double sigma, double ranks, double quantile);

}  // namespace foretrain
