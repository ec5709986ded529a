"""Random words to numbers of a distribution.

Only operations that every IEEE machine rounds alike are used (add, subtract, multiply, divide, square
root, integer operations), in a fixed order and never fused. The CUDA kernels do the same in the same
order, which is why one seed gives the same numbers on CPU and GPU, bit for bit.

Sources of the normal quantile: M. Giles, "Approximating the erfinv function", GPU Computing Gems (2011), for
single precision: one polynomial for nearly all numbers, so that threads of a warp seldom go different ways. M. Wichura,
"Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16 for double
precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .elementary import logarithm, polynomial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

#: Of single precision, lowest power first: ``log(1 + f) / f`` for f from -1/3 to 1/3; the quantile over ``x``, by
#: ``w - 2.5`` up to 5 and by ``sqrt(w) - 3.5`` from there on, where ``w = -log(1 - x * x)``.
LOGARITHM_32 = (
    0.9999994,
    -0.49999768,
    0.33341226,
    -0.25016963,
    0.19734618,
    -0.16274734,
    0.17428182,
    -0.16048113,
)
CENTRE_32 = (
    2.1233134,
    0.34880272,
    -0.00590766,
    -0.0017730827,
    0.00030874097,
    -6.194818e-06,
    -4.8857314e-06,
    4.8398647e-07,
    3.1963772e-08,
)
TAIL_32 = (
    4.717089,
    1.4246352,
    0.0046327733,
    -0.002925477,
    0.0015556063,
    -0.00092996535,
    0.00058749964,
    -0.00037246617,
    0.00013402819,
    3.4773046e-05,
    -3.14038e-05,
)
#: Coefficients of AS 241, lowest power first: (numerator, denominator) for the centre and two tails.
QUANTILE_64 = (
    (
        (
            3.3871328727963666080,
            133.14166789178437745,
            1971.5909503065514427,
            13731.693765509461125,
            45921.953931549871457,
            67265.770927008700853,
            33430.575583588128105,
            2509.0809287301226727,
        ),
        (
            1.0,
            42.313330701600911252,
            687.18700749205790830,
            5394.1960214247511077,
            21213.794301586595867,
            39307.895800092710610,
            28729.085735721942674,
            5226.4952788528545610,
        ),
    ),
    (
        (
            1.42343711074968357734,
            4.63033784615654529590,
            5.76949722146069140550,
            3.64784832476320460504,
            1.27045825245236838258,
            0.241780725177450611770,
            0.0227238449892691845833,
            7.74545014278341407640e-4,
        ),
        (
            1.0,
            2.05319162663775882187,
            1.67638483018380384940,
            0.689767334985100004550,
            0.148103976427480074590,
            0.0151986665636164571966,
            5.47593808499534494600e-4,
            1.05075007164441684324e-9,
        ),
    ),
    (
        (
            6.65790464350110377720,
            5.46378491116411436990,
            1.78482653991729133580,
            0.296560571828504891230,
            0.0265321895265761230930,
            0.00124266094738807843860,
            2.71155556874348757815e-5,
            2.01033439929228813265e-7,
        ),
        (
            1.0,
            0.599832206555887937690,
            0.136929880922735805310,
            0.0148753612908506148525,
            7.86869131145613259100e-4,
            1.84631831751005468180e-5,
            1.42151175831644588870e-7,
            2.04426310338993978564e-15,
        ),
    ),
)


def joined(words: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """64 bits per two words, low word first."""
    pairs = words.reshape(-1, 2).astype(np.uint64)
    result: NDArray[np.uint64] = pairs[:, 0] | (pairs[:, 1] << np.uint64(32))
    return result


def uniform32(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Multiples of 2**-24 in ``[0, 1)``, one per word."""
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def uniform64(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Multiples of 2**-53 in ``[0, 1)``, one per two words (low word first)."""
    return (joined(words) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _quantile(tail: Floats, negative: NDArray[np.bool_]) -> Floats:
    """Standard normal quantile at the distance ``tail`` in ``(0, 0.5)`` from the nearer end."""
    dtype = tail.dtype.type
    centre, near, far = QUANTILE_64
    q = dtype(0.5) - tail
    r = dtype(0.180625) - q * q
    result = q * polynomial(r, centre[0]) / polynomial(r, centre[1])
    outside = np.flatnonzero(q > dtype(0.425))
    if outside.size:
        r = np.sqrt(-logarithm(tail[outside]))
        beyond = r > dtype(5)
        r_near, r_far = r - dtype(1.6), r - dtype(5)
        close = polynomial(r_near, near[0]) / polynomial(r_near, near[1])
        distant = polynomial(r_far, far[0]) / polynomial(r_far, far[1])
        result[outside] = np.where(beyond, distant, close)
    signed: Floats = np.where(negative, -result, result)
    return signed


def open32(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Numbers in ``(0, 1)``, one per word, with all 32 bits where the numbers are small."""
    result: NDArray[np.float32] = (words.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    return np.minimum(result, np.float32(0.99999994))


def open64(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Numbers in ``(0, 1)``, one per two words, with all 64 bits where the numbers are small."""
    result: NDArray[np.float64] = (joined(words).astype(np.float64) + 0.5) * 2.0**-64
    return np.minimum(result, 0.9999999999999999)


def tail32(words: NDArray[np.uint32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """A number in ``(0, 0.5)``, the distance from an end of the unit interval, and whether from the lower."""
    negative = (words >> np.uint32(31)).astype(np.bool_)
    magnitude = (words & np.uint32(0x7FFFFFFF)).astype(np.float32)
    tail = (magnitude + np.float32(0.5)) * np.float32(2.0**-32)
    return np.minimum(tail, np.float32(0.49999997)), negative


def tail64(words: NDArray[np.uint32]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """As :func:`tail32`, from two words."""
    bits = joined(words)
    negative = (bits >> np.uint64(63)).astype(np.bool_)
    magnitude = (bits & np.uint64(0x7FFFFFFFFFFFFFFF)).astype(np.float64)
    return np.minimum((magnitude + 0.5) * 2.0**-64, 0.49999999999999994), negative


def normal32(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Standard normal numbers, one per word: a bit of sign, 31 bits of distance from the tail.

    They are within 1e-6 of the quantile.
    """
    single = np.float32
    # Twice the distance from the nearer end, and w = -log(1 - x * x).
    tail = ((words & np.uint32(0x7FFFFFFF)).astype(single) + single(0.5)) * single(2.0**-31)
    x = single(1) - tail
    bits = (tail * (single(1) + x)).view(np.int32)
    exponent = (bits - np.int32(0x3F2AAAAB)) & np.int32(-1 << 23)
    f = (bits - exponent).view(single) - single(1)
    w = exponent.astype(single) * single(-8.262958294867817e-8) - f * polynomial(f, LOGARITHM_32)
    result = polynomial(w - single(2.5), CENTRE_32)
    beyond = np.flatnonzero(w >= single(5))
    if beyond.size:
        result[beyond] = polynomial(np.sqrt(w[beyond]) - single(3.5), TAIL_32)
    result *= x
    # The sign bit of the number, which is positive, is that of the word.
    signed: NDArray[np.float32] = (result.view(np.uint32) ^ (words & np.uint32(1 << 31))).view(single)
    return signed


def normal64(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Standard normal numbers, one per two words: a bit of sign, 63 bits of distance from the tail."""
    return _quantile(*tail64(words))
