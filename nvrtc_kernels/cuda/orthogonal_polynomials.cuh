// Orthogonal polynomials from their recurrences, in double precision.

#pragma once

const double highest_order = 1 << 20;

// The polynomial of order n (its whole part; 0 for a negative one, NaN beyond the highest) of those that begin with 1 and
// `first`, where step(k, p, q) follows p, of order k, and q, of the order before.
template <class Step>
__device__ inline double three_term(double n, double first, Step step) {
    n = trunc(n);
    if (n < 0) return 0;
    double q = 1, p = first;
    if (n == 0) return q;
    if (!(n <= highest_order)) return nan("");
    // What has become NaN, too large for double precision, stays so.
    for (double k = 1; k < n && !isnan(p); k += 1) {
        const double next = step(k, p, q);
        q = p;
        p = next;
    }
    return p;
}
