"""The reductions there are: how an element is mapped, how the results are combined, and what is written.

Each is a row of names and expressions of CUDA C++; :mod:`.reduction` makes kernels of them. A new one over
the same elements is a copy of a row with other fields: ``SUM._replace(name="dot", code="a * b")`` reads
two inputs, and ``MEAN._replace(name="mse_loss", code="(a - b) * (a - b)")`` stores no differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .dtypes import dtype
    from .lookups import Lookup


class Reducer(NamedTuple):
    """What a reduction computes.

    Attributes
    ----------
    name : str
        Name of the operation, which its kernels are called by.
    state : str
        Template of ``cuda/reducers.cuh`` that gathers values.
    state_of_half : str
        The one that gathers them for results that are all of half precision, where fewer digits are less work.
    code : str
        CUDA C++ expression of the value that is gathered: of the inputs ``a``, ``b``, ... (half precision
        widened to float) and of the scalars.
    results : tuple of str
        An expression for each output: of the final state ``x``, of ``count``, the number of elements, of the
        scalars, and of what the epilogue declares. Converted to the output's type. An output without one ("") is only read,
        by the epilogue.
    scalars : tuple of (name, code)
        Numbers that are given at the launch, with their type as a code of :mod:`struct`.
    compute : dtype, optional
        What all inputs are converted to before; by default each keeps its own type.
    identity : bool
        Whether a reduction of nothing has a value.
    ordered : bool
        Whether values are compared, which complex numbers cannot be.
    with_indices : bool
        Whether it matters which of the values is the first: they are counted in row-major order over the reduced
        dimensions.
    epilogue : tuple of str
        Statements in front of the results: they declare values, of ``x``, ``count``, the scalars, and ``out0[at[0]]``,
        ``out1[at[1]]``, ..., the elements of the outputs that belong to the row.
    include : str
        Header in ``cuda/`` that the expressions need, or several with spaces between.
    lookups : tuple of Lookup
        Inputs that are read by an index.
    declarations : tuple of str
        What the epilogue needs besides headers.
    """

    name: str
    state: str
    code: str = "a"
    results: tuple[str, ...] = ("x",)
    scalars: tuple[tuple[str, str | int], ...] = ()
    compute: dtype | None = None
    identity: bool = True
    ordered: bool = False
    with_indices: bool = False
    include: str = ""
    state_of_half: str = ""
    epilogue: tuple[str, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    declarations: tuple[str, ...] = ()


_CORRECTION = (("correction", "d"),)
_VARIANCE = "x.variance(count, correction)"

SUM = Reducer("sum", "Sum")
MEAN = Reducer("mean", "Sum", results=("over(x, count)",))
PROD = Reducer("prod", "Product")
NANSUM = Reducer("nansum", "Sum", "nan_to_zero(a)")
NANMEAN = Reducer("nanmean", "CountedSum", results=("over(x.sum, x.count)",))
COUNT_NONZERO = Reducer("count_nonzero", "Sum", "truth(a)")
ANY = Reducer("any", "Any")
ALL = Reducer("all", "All")

AMAX = Reducer("amax", "Largest", identity=False, ordered=True)
AMIN = Reducer("amin", "Smallest", identity=False, ordered=True)
AMINMAX = Reducer("aminmax", "Extremes", results=("x.low", "x.high"), identity=False, ordered=True)
MAX = Reducer(
    "max", "LargestPlace", results=("x.value", "x.index"), identity=False, ordered=True, with_indices=True
)
MIN = Reducer(
    "min", "SmallestPlace", results=("x.value", "x.index"), identity=False, ordered=True, with_indices=True
)
ARGMAX = Reducer(
    "argmax", "LargestPlace", results=("x.index",), identity=False, ordered=True, with_indices=True
)
ARGMIN = Reducer(
    "argmin", "SmallestPlace", results=("x.index",), identity=False, ordered=True, with_indices=True
)

#: Floating point and complex numbers. The scalar ``correction`` is what the number of elements is lowered by.
VAR = Reducer("var", "Moments", results=(_VARIANCE,), scalars=_CORRECTION)
STD = Reducer("std", "Moments", results=(f"sqrt({_VARIANCE})",), scalars=_CORRECTION)
VAR_MEAN = Reducer("var_mean", "Moments", results=(_VARIANCE, "x.center()"), scalars=_CORRECTION)
STD_MEAN = Reducer("std_mean", "Moments", results=(f"sqrt({_VARIANCE})", "x.center()"), scalars=_CORRECTION)

#: Floating point.
LOGSUMEXP = Reducer(
    "logsumexp", "LogSumExp", results=("x.value()",), ordered=True, state_of_half="QuickLogSumExp"
)

_NORM_0 = Reducer("norm_0", "Sum", "truth(a)")
_NORM_1 = Reducer("norm_1", "Sum", "magnitude(a)")
_NORM_2 = Reducer("norm_2", "Sum", "real_product(a, a)", ("sqrt(x)",))
_NORM_HIGH = Reducer("norm_inf", "Largest", "magnitude(a)", identity=False)
_NORM_LOW = Reducer("norm_minus_inf", "Smallest", "magnitude(a)", identity=False)
_POWER = "static_cast<decltype({})>(p)"
_NORM_P = Reducer(
    "norm_p",
    "Sum",
    f"pow(magnitude(a), {_POWER.format('magnitude(a)')})",
    (f"pow(x, 1 / {_POWER.format('x')})",),
    (("p", "d"),),
)
_NORMS = {0.0: _NORM_0, 1.0: _NORM_1, 2.0: _NORM_2, float("inf"): _NORM_HIGH, float("-inf"): _NORM_LOW}


def norm(p: float) -> tuple[Reducer, tuple[float, ...]]:
    """What computes the ``p``-norm of floating point or complex numbers, and the scalars to launch it with.

    Orders 0 (how many are not zero), 1, 2 and the infinite ones need no powers.
    """
    reducer = _NORMS.get(float(p))
    return (_NORM_P, (float(p),)) if reducer is None else (reducer, ())
