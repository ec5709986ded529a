// Counts of Poisson's and the binomial distribution from one uniform number u each, by inversion of the
// distribution function. tensor/operations/random/counts.py computes the same on the CPU.

#pragma once
#include "incomplete_gamma.cuh"

// The smallest k whose distribution function is at least u, by bisection: about log2(sqrt(rate)) steps.
__device__ inline double poisson_count(double rate, double u) {
    if (!(rate > 0)) return rate == 0 ? 0 : nan("");
    const double deviation = sqrt(rate);
    double low = fmax(floor(rate - 10 * deviation - 10), -1.0), high = ceil(rate + 10 * deviation + 40);
    while (high - low > 1) {
        const double middle = floor((low + high) / 2);
        if (incomplete_gamma(middle + 1, rate, true) >= u) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

// From the most likely number outwards, until the probabilities met exceed u.
__device__ inline double binomial_count(double n, double p, double u) {
    n = floor(n);
    if (n <= 0 || p <= 0) return 0;
    if (p >= 1) return n;
    const double mode = floor((n + 1) * p), odds = p / (1 - p);
    const double logarithm = lgamma(n + 1) - lgamma(mode + 1) - lgamma(n - mode + 1);
    double above = exp(logarithm + mode * log(p) + (n - mode) * log1p(-p)), below = above;
    double upper = mode, lower = mode, rest = u - above;
    if (rest <= 0) return mode;
    for (;;) {
        above = upper < n ? above * (n - upper) / (upper + 1) * odds : 0;
        upper += 1;
        rest -= above;
        if (rest <= 0) return upper;
        below = lower > 0 ? below * lower / (n - lower + 1) / odds : 0;
        lower -= 1;
        rest -= below;
        if (rest <= 0 || (upper >= n && lower <= 0) || above + below < 1e-30) return fmin(fmax(lower, 0.0), n);
    }
}
