"""The quantile of the standard normal distribution, with bits that are the same on every machine.

Double precision has the rational functions of M. Wichura, "Algorithm AS 241: the percentage points of the normal
distribution", Applied Statistics 37 (1988), PPND16. Single precision has a table of segments, which is computed from them:
a number takes two values of it and three multiplications, where a polynomial for all numbers takes twenty.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from .elementary import logarithm, polynomial

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Coefficients of AS 241, lowest power first: (numerator, denominator) for the centre and two tails.
_COEFFICIENTS = (
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

#: Bits of a single precision number below those of a segment: there are 32 from each power of two to the next.
SEGMENT_BITS = 18
#: The segment of the number 1, and how many there are up to ``2**32``.
FIRST_SEGMENT, SEGMENTS = 127 << 5, (32 << 5) + 1


def quantile(tail: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far out a ``tail`` of the standard normal distribution begins: positive up to a half, within 1e-13 there."""
    centre, near, far = _COEFFICIENTS
    q = 0.5 - tail
    r = 0.180625 - q * q
    result: NDArray[np.float64] = q * polynomial(r, centre[0]) / polynomial(r, centre[1])
    outside = np.flatnonzero(q > 0.425)
    if outside.size:
        r = np.sqrt(-logarithm(tail[outside]))
        r_near, r_far = r - 1.6, r - 5.0
        close = polynomial(r_near, near[0]) / polynomial(r_near, near[1])
        distant = polynomial(r_far, far[0]) / polynomial(r_far, far[1])
        result[outside] = np.where(r > 5, distant, close)
    return result


@functools.cache
def segments() -> NDArray[np.float32]:
    """``(2, SEGMENTS)``: half of the value, and the slope, of the quantile in the middle of each segment.

    A number is ``tail * 2**33``, from 1 to ``2**32``, and its segment the nearest one. Its quantile is
    ``value + step + value * step**2 / 2``, where ``step`` is ``slope`` times the distance from the middle: the second
    derivative of this quantile is its value times the square of the first. That is within 4e-7 of it before rounding.
    """
    power, part = np.divmod(np.arange(SEGMENTS), 32)
    middle = np.ldexp(1 + part / 32, power)
    # Where the term of third degree, which is left out, has its zeros beside the middle.
    away = np.ldexp(np.sqrt(0.75) / 64, power)
    before, after = quantile((middle - away) * 2.0**-33), quantile((middle + away) * 2.0**-33)
    step = (after - before) / 2
    half = (after + before) / (4 + 2 * step * step)
    result = np.stack([half, step / away]).astype(np.float32)
    result.flags.writeable = False
    return result
