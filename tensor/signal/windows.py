"""Window functions, symmetric unless ``sym=False`` asks for one period of them.

All take the number of elements, ``M``, and the keywords ``sym``, ``dtype`` (float32 or float64), ``layout``,
``device`` and ``requires_grad``, as :func:`bartlett` explains; the result has shape ``(M,)``. The largest value
is 1 where an element lies there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import float32, float64
from tensor.core.creation_arguments import dtype_of_argument as _dtype_of_argument
from tensor.core.dtypes.default import get_default_dtype
from tensor.core.memory_format import strided
from tensor.core.names.absent import hints as _hints
from tensor.operations.creation import window_shapes as shapes

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _checked(name: str, M: int, dtype: dtype | None, layout: Any) -> dtype:  # noqa: N803 - PyTorch's name
    if isinstance(M, bool) or not hasattr(M, "__index__"):
        raise TypeError(f"{name}(): argument 'M' must be int, not {type(M).__name__}")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    result = get_default_dtype() if dtype is None else _dtype_of_argument(dtype, name)
    if result not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {result!r}")
    return result


def _step(M: int, sym: bool) -> float:  # noqa: N803 - PyTorch's name
    """2 divided by the period."""
    return 2 / (M - 1 if sym else M) if M > 1 else 0.0


def _center(M: int, sym: bool) -> float:  # noqa: N803 - PyTorch's name
    return (M if not sym and M > 1 else M - 1) / 2


def bartlett(
    M: int,  # noqa: N803 - PyTorch's name
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Triangle: ``1 - |2 n / (M - 1) - 1|``, a tensor of shape ``(M,)``.

    >>> tensor.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])

    Parameters
    ----------
    M : int
        Number of elements; not negative.
    sym : bool
        Whether the window is symmetric; else it is one period of a periodic one, as for a Fourier transform: the first
        ``M`` elements of the symmetric window of ``M + 1``.
    dtype : dtype, optional
        float32 or float64; the default dtype if not given.
    layout
        ``tensor.strided``, the only one there is.
    device : device, optional
        Where the result is; the CPU if not given.
    requires_grad : bool
        Whether operations on the result are recorded.

    Raises
    ------
    TypeError
        If ``M`` is not an int.
    ValueError
        If it is negative, or for another dtype or layout.
    """
    element_dtype = _checked("bartlett", M, dtype, layout)
    shape = shapes.TRIANGLE if M > 1 else None
    return shapes.window("bartlett", shape, M, (_step(M, sym),), element_dtype, layout, device, requires_grad)


def cosine(
    M: int,  # noqa: N803 - PyTorch's name
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a sine wave: ``sin(pi (n + 0.5) / M)``, a tensor of shape ``(M,)``.

    The parameters are those of :func:`bartlett`, and so are the errors: TypeError and ValueError for ``M``, ``dtype`` and
    ``layout``.
    """
    element_dtype = _checked("cosine", M, dtype, layout)
    numbers = (1 / max(M + 1 if not sym and M > 1 else M, 1),)
    return shapes.window("cosine", shapes.SINE, M, numbers, element_dtype, layout, device, requires_grad)


def exponential(
    M: int,  # noqa: N803 - PyTorch's name
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-|n - center| / tau)``, a tensor of shape ``(M,)``.

    Parameters
    ----------
    M, sym, dtype, layout, device, requires_grad
        See :func:`bartlett`.
    center : float, optional
        By default ``(M - 1) / 2``, or ``M / 2`` if not ``sym``; only the latter may have another.
    tau : float
        Elements in which it falls to ``1 / e``.

    Raises
    ------
    TypeError
        If ``M`` is not an int.
    ValueError
        If ``tau`` is not positive, or a symmetric window is to have its center elsewhere; and as :func:`bartlett`.
    """
    element_dtype = _checked("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    numbers = (_center(M, sym) if center is None else float(center), float(tau))
    return shapes.window(
        "exponential", shapes.EXPONENTIAL, M, numbers, element_dtype, layout, device, requires_grad
    )


def gaussian(
    M: int,  # noqa: N803 - PyTorch's name
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-(n / std) ** 2 / 2)``, with ``n`` counted from the middle: a tensor of shape ``(M,)``.

    Parameters
    ----------
    M, sym, dtype, layout, device, requires_grad
        See :func:`bartlett`.
    std : float
        Standard deviation, in elements.

    Raises
    ------
    TypeError
        If ``M`` is not an int.
    ValueError
        If ``std`` is not positive; and as :func:`bartlett`.
    """
    element_dtype = _checked("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    numbers = (_center(M, sym), float(std))
    return shapes.window(
        "gaussian", shapes.GAUSSIAN, M, numbers, element_dtype, layout, device, requires_grad
    )


def kaiser(
    M: int,  # noqa: N803 - PyTorch's name
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``I0(beta sqrt(1 - (2 n / (M - 1) - 1) ** 2)) / I0(beta)``, of the modified Bessel function of order 0.

    Parameters
    ----------
    M, sym, dtype, layout, device, requires_grad
        See :func:`bartlett`.
    beta : float
        Shape: 0 for a rectangle, more for a narrower window.

    Raises
    ------
    TypeError
        If ``M`` is not an int.
    ValueError
        If ``beta`` is negative; and as :func:`bartlett`.
    """
    element_dtype = _checked("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    shape = shapes.KAISER if M > 1 else None
    numbers = (_step(M, sym), float(beta))
    return shapes.window("kaiser", shape, M, numbers, element_dtype, layout, device, requires_grad)


def general_cosine(
    M: int,  # noqa: N803 - PyTorch's name
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``a[0] - a[1] cos(z) + a[2] cos(2 z) - ...`` with ``z = 2 pi n / (M - 1)``: shape ``(M,)``.

    Parameters
    ----------
    M, sym, dtype, layout, device, requires_grad
        See :func:`bartlett`.
    a : iterable of float
        The weights of the cosines.

    Raises
    ------
    TypeError
        If ``a`` is not an iterable, or ``M`` not an int.
    ValueError
        If ``a`` is empty; and as :func:`bartlett`.
    """
    element_dtype = _checked("general_cosine", M, dtype, layout)
    if not isinstance(a, Iterable):
        raise TypeError(f"Coefficients must be a list/tuple, got {type(a).__name__}")
    weights = tuple([float(each) for each in a])
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    shape = shapes.cosines(len(weights)) if M > 1 else None
    numbers = (_step(M, sym), *weights)
    return shapes.window("general_cosine", shape, M, numbers, element_dtype, layout, device, requires_grad)


def general_hamming(
    M: int,  # noqa: N803 - PyTorch's name
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha - (1 - alpha) cos(2 pi n / (M - 1))``, a tensor of shape ``(M,)``.

    The other parameters are those of :func:`bartlett`, and so are the errors: TypeError and ValueError for ``M``, ``dtype`` and
    ``layout``.
    """
    return general_cosine(
        M,
        a=[alpha, 1 - alpha],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def _cosines(name: str, weights: tuple[float, ...], formula: str) -> Any:
    """A window that differs from others in its weights alone."""

    def compute(
        M: int,  # noqa: N803 - PyTorch's name
        *,
        sym: bool = True,
        dtype: dtype | None = None,
        layout: Any = strided,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return general_cosine(
            M,
            a=weights,
            sym=sym,
            dtype=dtype,
            layout=layout,
            device=device,
            requires_grad=requires_grad,
        )

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = (
        f"{formula}, with ``z = 2 pi n / (M - 1)``: a tensor of shape ``(M,)``.\n\n"
        "    The parameters are those of :func:`bartlett`, and so are the errors: TypeError and ValueError for ``M``,\n"
        "    ``dtype`` and ``layout``.\n    "
    )
    return compute


blackman = _cosines("blackman", (0.42, 0.5, 0.08), "``0.42 - 0.5 cos(z) + 0.08 cos(2 z)``")
hamming = _cosines("hamming", (0.54, 0.46), "``0.54 - 0.46 cos(z)``")
hann = _cosines("hann", (0.5, 0.5), "``0.5 - 0.5 cos(z)``")
nuttall = _cosines(
    "nuttall", (0.3635819, 0.4891775, 0.1365995, 0.0106411), "The four terms of Nuttall's window of 1981"
)

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
