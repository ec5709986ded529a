// The regularised incomplete gamma functions, in double precision also for float.
//
// Which formula is exact depends on where the operands are: a power series below a, a continued fraction
// above, another series where both are small, and for large operands that are close together N. M. Temme's
// uniform expansion. tensor/operations/special/incomplete_gamma.py computes the same on the CPU, and says more.

#pragma once

// Coefficients of eta^n / a^k, a row for each k.
__device__ const double temme[7][17] = {
    {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
     0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
     -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
     1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
     -5.830772132550426e-11},
    {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
     0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
     -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
     1.1951628599778148e-08},
    {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
     -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
     1.3721957309062934e-06, -6.298992138380055e-07, 1.4280614206064242e-07},
    {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
     -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05, -5.6749528269915965e-06,
     1.4230900732435883e-06},
    {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902, -1.4638452578843418e-06,
     6.641498215465122e-05, -3.968365047179435e-05, 1.1375726970678419e-05},
    {-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392, -0.00019932570516188847,
     6.797780477937208e-05},
    {0.0005313079364639922}};

// Of the coefficients beyond the first ones: the asymptotic series of lgamma.
__device__ const double stirling[7] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360,
                                       1.0 / 156};

// log(x / a) - (x / a - 1), exact also where that is small.
__device__ inline double log_less(double a, double x) {
    const double u = (x - a) / a;
    if (fabs(u) > 0.4) return log(x / a) - u;
    const double r = u / (2 + u);
    double series = 0;
    for (int k = 13; k >= 0; --k) series = series * (r * r) + 2.0 / (2 * k + 3);
    return series * r * r * r - r * u;
}

// x^a exp(-x) / gamma(a + 1)
__device__ inline double gamma_bell(double a, double x) {
    if (a < 10) {
        const double half = exp(-x / 2);
        return half * pow(x, a) * half / tgamma(a + 1);
    }
    double series = 0;
    for (int k = 6; k >= 0; --k) series = series / (a * a) + stirling[k];
    return exp(a * log_less(a, x) - series / a) / sqrt(2 * 3.14159265358979323846 * a);
}

__device__ inline double gamma_series(double a, double x) {
    double total = 1, term = 1, divisor = a;
    for (int k = 0; k < 600 && term > 1e-17 * total; ++k) {
        divisor += 1;
        term *= x / divisor;
        total += term;
    }
    return gamma_bell(a, x) * total;
}

__device__ inline double gamma_fraction(double a, double x) {
    double b = x + 1 - a, c = 1e300, d = 1 / b, found = d;
    for (int k = 1; k < 600; ++k) {
        const double factor = -k * (k - a);
        b += 2;
        d = 1 / (factor * d + b);
        c = b + factor / c;
        found *= c * d;
        if (fabs(c * d - 1) <= 1e-15) break;
    }
    return gamma_bell(a, x) * a * found;
}

__device__ inline double gamma_small(double a, double x) {
    double total = 0, term = 1;
    for (int k = 1; k < 25; ++k) {
        term *= -x / k;
        total += term / (a + k);
    }
    // lgamma(1 + a) of a small a, where 1 + a has lost digits: Euler's constant and what comes after it.
    const double next = a > 1e-5 ? lgamma(1 + a) : a * (0.82246703342411322 * a - 0.57721566490153286);
    const double exponent = a * log(x) - next;
    return -expm1(exponent) - exp(exponent) * a * total;
}

__device__ inline double gamma_uniform(double a, double x, bool upper) {
    const double square = -log_less(a, x), eta = copysign(sqrt(2 * square), x - a);
    double total = 0;
    for (int k = sizeof(temme) / sizeof(temme[0]) - 1; k >= 0; --k) {
        double row = 0;
        for (int n = sizeof(temme[0]) / sizeof(double) - 1; n >= 0; --n) row = row * eta + temme[k][n];
        total = total / a + row;
    }
    const double rest = exp(-a * square) / sqrt(2 * 3.14159265358979323846 * a) * total;
    const double point = eta * sqrt(a / 2);
    return upper ? 0.5 * erfc(point) + rest : 0.5 * erfc(-point) - rest;
}

__device__ inline double incomplete_gamma(double a, double x, bool upper) {
    if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return nan("");
    if (a == 0 || isinf(x)) return upper ? 0 : 1;
    if (x == 0 || isinf(a)) return upper ? 1 : 0;
    if (a >= 200 && fabs(x - a) <= 0.3 * a) return gamma_uniform(a, x, upper);
    if (upper && a <= 1 && x <= 1.1) return gamma_small(a, x);
    if (x <= a || x <= 1.1) {
        const double lower = gamma_series(a, x);
        return upper ? 1 - lower : lower;
    }
    const double found = gamma_fraction(a, x);
    return upper ? found : 1 - found;
}
