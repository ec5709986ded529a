// digamma, polygamma, zeta and the multivariate lgamma, which CUDA's library lacks; lgamma, erf and erfinv it has.
//
// They are computed in double precision, also for float: near their zeros single precision would be lost.
// Steps of 1 lead to where the asymptotic series (of Bernoulli numbers) is exact; negative numbers are
// reflected. tensor/operations/special/gamma.py computes the same on the CPU.

#pragma once

__device__ const double bernoulli[8] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6,
                                        -3617.0 / 510};

__device__ inline double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }

__device__ inline double digamma(double x) {
    const double pi = 3.14159265358979323846;
    if (x == 0) return copysign(infinity(), -x);
    double result = 0, z = x;
    if (x < 0) {
        const double fraction = x - trunc(x);
        if (fraction == 0 || isinf(x)) return nan("");
        result = -pi / tan(pi * fraction);
        z = 1 - x;
    }
    if (isinf(z)) return z;
    for (; z < 10; z += 1) result -= 1 / z;
    const double inverse = 1 / (z * z);
    double series = 0;
    for (int k = 8; k > 0; --k) series = series * inverse + bernoulli[k - 1] / (2 * k);
    return result + log(z) - 0.5 / z - series * inverse;
}

// The sum of (x + k)^-s over all k >= 0, for s > 1, by Euler and Maclaurin's formula.
__device__ inline double hurwitz_zeta(double s, double x) {
    double total = 0, z = x;
    for (; z < 10 + s; z += 1) {
        const double term = pow(z, -s);
        total += term;
        // Large powers vanish long before, or are infinite.
        if (z > 0 && !(term > 1e-18 * fabs(total))) return total;
    }
    const double power = pow(z, -s);
    total += power * z / (s - 1) + power / 2;
    double factor = s, term = power / z, factorial = 2;
    for (int k = 1; k <= 8; ++k) {
        total += bernoulli[k - 1] * factor / factorial * term;
        factor *= (s + 2 * k - 1) * (s + 2 * k);
        factorial *= (2 * k + 1) * (2 * k + 2);
        term /= z * z;
    }
    return total;
}

__device__ inline double zeta(double s, double x) {
    if (s == 1) return infinity();
    if (!(s > 1) || isnan(x)) return nan("");
    if (x <= 0 && x == floor(x)) return infinity();
    if (isinf(s) || (x < 0 && s != floor(s))) return nan("");
    return isinf(x) ? 0 : hurwitz_zeta(s, x);
}

// The logarithm of the multivariate gamma function of dimension p.
__device__ inline double multivariate_lgamma(double x, double p) {
    double total = p * (p - 1) / 4 * log(3.14159265358979323846);
    for (double j = 0; j < p; j += 1) total += lgamma(x - j / 2);
    return total;
}

// The derivative of digamma of order n >= 1.
__device__ inline double polygamma(double x, double n) {
    const bool odd = fmod(n, 2.0) == 1;
    if (isnan(x)) return x;
    if (isinf(x)) return x > 0 ? 0 : nan("");
    if (x <= 0 && x == floor(x)) return odd ? infinity() : -infinity();
    if (n == 1) {
        if (x >= 0.5) return hurwitz_zeta(2, x);
        const double ratio = 3.14159265358979323846 / sinpi(x);  // spares the sum over all numbers up to 0
        return ratio * ratio - hurwitz_zeta(2, 1 - x);
    }
    double factorial = odd ? 1 : -1;
    for (double k = 2; k <= n && k <= 171; k += 1) factorial *= k;  // that of 171 is infinite
    return factorial * hurwitz_zeta(n + 1, x);
}
