"""Special functions by the names that SciPy has for them, as in ``torch.special``.

Missing are Airy's function and derivatives of Bessel functions other than the modified ones of the first kind.
"""

from __future__ import annotations

from .operations.call_forms import complete_functions as _complete_functions
from .operations.normalization.softmax import log_softmax, softmax
from .operations.pointwise.powers import exp2, expm1, log1p
from .operations.pointwise.rounding import round
from .operations.reductions.sums import logsumexp
from .operations.special.bessel import (
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    i0,
    i0e,
    i1,
    i1e,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from .operations.special.error_and_gamma import digamma, erf, erfc, erfinv, logit, polygamma, sinc, xlogy
from .operations.special.error_and_gamma import digamma as psi
from .operations.special.error_and_gamma import lgamma as gammaln
from .operations.special.error_and_gamma import sigmoid as expit
from .operations.special.incomplete_gamma import igamma as gammainc
from .operations.special.incomplete_gamma import igammac as gammaincc
from .operations.special.incomplete_gamma import mvlgamma as multigammaln
from .operations.special.incomplete_gamma import zeta
from .operations.special.normal import entr, erfcx, log_ndtr, ndtr, ndtri, xlog1py
from .operations.special.orthogonal_polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)

__all__ = [
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]
_complete_functions(globals())
