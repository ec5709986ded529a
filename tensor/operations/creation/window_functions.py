"""Window functions under the names that old scripts know: periodic unless ``periodic=False``.

Like :mod:`tensor.signal.windows`, but for any floating point dtype, and with the symmetric form as the exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.dtypes.default import get_default_dtype
from tensor.operations.definition import operation

from . import window_shapes as shapes

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor


def _window(
    name: str,
    shape: shapes.Shape,
    window_length: int,
    periodic: bool,
    numbers: tuple[float, ...],
    dtype: dtype | None,
    layout: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
) -> Tensor:
    """A window whose first number is 2 divided by its period."""
    if isinstance(window_length, bool) or not hasattr(window_length, "__index__"):
        raise TypeError(f"{name}(): argument 'window_length' must be int, not {type(window_length).__name__}")
    length = window_length.__index__()
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    result_dtype = get_default_dtype() if dtype is None else dtype_of_argument(dtype, name)
    if not result_dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {result_dtype!r}")
    step = 2 / (length if periodic else length - 1) if length > 1 else 0.0
    return shapes.window(
        name,
        shape if length > 1 else None,
        length,
        (step, *numbers),
        result_dtype,
        layout,
        device,
        requires_grad,
        pin_memory,
    )


@operation(method=False)
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Triangular window: ``1 - abs(2 n / (M - 1) - 1)``.

    Here ``M`` is ``window_length``, or ``window_length + 1`` with ``periodic``, when the last element is left out.

    Raises
    ------
    RuntimeError
        For a negative length, or a dtype that is not a floating one.
    TypeError
        If the length is not an integer.

    Examples
    --------
    >>> tensor.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(
        "bartlett_window",
        shapes.TRIANGLE,
        window_length,
        periodic,
        (),
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )


@operation(method=False)
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman window: ``0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))``.

    Here ``M`` is ``window_length``, or ``window_length + 1`` with ``periodic``, when the last element is left out.

    Raises
    ------
    RuntimeError
        For a negative length, or a dtype that is not a floating one.
    TypeError
        If the length is not an integer.

    Examples
    --------
    >>> tensor.blackman_window(4)[2]
    tensor(1.)
    """
    return _window(
        "blackman_window",
        shapes.cosines(3),
        window_length,
        periodic,
        (0.42, 0.5, 0.08),
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )


@operation(method=False)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Hamming window: ``alpha - beta cos(2 pi n / (M - 1))``.

    Here ``M`` is ``window_length``, or ``window_length + 1`` with ``periodic``, when the last element is left out.

    Raises
    ------
    RuntimeError
        For a negative length, or a dtype that is not a floating one.
    TypeError
        If the length is not an integer.

    Examples
    --------
    >>> tensor.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _window(
        "hamming_window",
        shapes.cosines(2),
        window_length,
        periodic,
        (float(alpha), float(beta)),
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )


@operation(method=False)
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Hann window: ``0.5 - 0.5 cos(2 pi n / (M - 1))``.

    Here ``M`` is ``window_length``, or ``window_length + 1`` with ``periodic``, when the last element is left out.

    Raises
    ------
    RuntimeError
        For a negative length, or a dtype that is not a floating one.
    TypeError
        If the length is not an integer.

    Examples
    --------
    >>> tensor.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    >>> tensor.hann_window(4, periodic=False)
    tensor([0.0000, 0.7500, 0.7500, 0.0000])
    """
    return _window(
        "hann_window",
        shapes.cosines(2),
        window_length,
        periodic,
        (0.5, 0.5),
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )


@operation(method=False)
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser window: ``I0(beta sqrt(1 - (2 n / (M - 1) - 1)**2)) / I0(beta)``, with the Bessel function ``I0``.

    Here ``M`` is ``window_length``, or ``window_length + 1`` with ``periodic``, when the last element is left out.

    Parameters
    ----------
    beta : float
        The larger, the narrower the window.

    Raises
    ------
    RuntimeError
        For a negative length, or a dtype that is not a floating one.
    TypeError
        If the length is not an integer.

    Examples
    --------
    >>> tensor.kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """
    return _window(
        "kaiser_window",
        shapes.KAISER,
        window_length,
        periodic,
        (float(beta),),
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )
