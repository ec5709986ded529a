"""Dropout: elements, or whole features, that are left out at random.

Which ones follows from the generator's seed and its count of calls, as for all random numbers, and is worked out
again for the gradient: no mask is stored, and the CPU drops the same elements as a device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dropout as kernels
from tensor.autograd.recording.inplace import check_in_place, record_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import empty
from tensor.core.host.memory import empty_array
from tensor.core.host.native_loops import address
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.plans import planned
from tensor.core.plans.copies import copied
from tensor.operations.definition import operation
from tensor.operations.normalization.row_normalization import in_compute_dtype, tensor_of
from tensor.operations.pointwise.selection import zero_where

from .fills import source
from .philox import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

_WORDS = 1 << 32
#: Elements that are computed at a time on the host.
_BLOCK = 1 << 15
#: What elements that are dropped become where means and variances are to stay (Klambauer et al., 2017).
_ALPHA = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


@dataclass(frozen=True, slots=True)
class Drop:
    """Of a call: kept elements become ``x * scale + shift``, others ``otherwise``."""

    seed: int
    call: int
    below: int
    scale: float
    shift: float = 0.0
    otherwise: float = 0.0

    @property
    def slope(self) -> Drop:
        """The derivative, which is of the same form."""
        return replace(self, shift=0.0, otherwise=0.0)


def _operation_plan(layout: Layout, inner: int) -> Callable[[Drop, Tensor, Tensor], None]:
    """What drops elements of tensors of ``layout``.

    ``device_state.plans[operation, layout, inner](drop, input, out)``, both of the same contiguous layout.
    """
    device_state = layout.device_state
    count = layout.numel
    if not device_state.is_cuda:

        def on_host(drop: Drop, input: Tensor, out: Tensor) -> None:
            array, into = in_compute_dtype(input).reshape(-1, inner), out._writable
            own = into.dtype == array.dtype
            result = into.reshape(-1, inner) if own else empty_array(array.shape, array.dtype)
            _drop_elements(drop, array, result)
            if not own:
                into[...] = tensor_of(result.reshape(layout.shape), layout, fresh=True)._host

        loop = kernels.plan_on_host(count, inner, layout.dtype)
        if loop is None:
            return on_host

        def in_loop(drop: Drop, input: Tensor, out: Tensor) -> None:
            loop(
                address(out, writes=True), address(input),
                drop.seed, drop.call, drop.below, drop.scale, drop.shift, drop.otherwise,
            )  # fmt: skip

        return in_loop
    run = kernels.plan(device_state.native, count, inner, layout.dtype)
    local = device_state.local

    def on_device(drop: Drop, input: Tensor, out: Tensor) -> None:
        run(
            local.stream.handle, drop.seed, drop.call, drop.below, drop.scale, drop.shift, drop.otherwise,
            input._address, out._address,
        )  # fmt: skip

    return on_device


def _drop_elements(drop: Drop, array: NDArray[Any], out: NDArray[Any]) -> None:
    """The same on rows of elements that stand or fall together, as many at a time as stay in a cache."""
    size = max(_BLOCK // array.shape[1], 1)
    scale, shift, otherwise = (array.dtype.type(each) for each in (drop.scale, drop.shift, drop.otherwise))
    for start in range(0, len(array), size):
        values, into = array[start : start + size], out[start : start + size]
        with np.errstate(all="ignore"):
            np.multiply(values, scale, out=into)
            if shift:
                into += shift
        if drop.below == _WORDS:
            continue
        dropped = words(drop.seed, drop.call, len(values), start) >= np.uint32(drop.below)
        if otherwise:
            into[dropped] = otherwise
        else:
            zero_where(dropped[:, None], into, into)


DROPOUT = planned(_operation_plan)


def _applied(input: Tensor, drop: Drop, inner: int) -> Tensor:
    plain = input.contiguous()
    result = empty(plain._layout)
    plain._layout.device_state.plans[DROPOUT, plain._layout, inner](drop, plain, result)
    if plain is not input:
        # The mask is that of row-major order whatever the strides are; the result has the input's order all the same.
        result = copied(result, input._layout.as_dense())
    if modes.recording and input.requires_grad:
        _FORMULA.record((result,), (input,), context=(drop.slope, inner))
    return result


_FORMULA = BackwardFormula("NativeDropoutBackward0", "input", [Derivative(_applied, needs="")])


def _applied_in_place(input: Tensor, drop: Drop, inner: int) -> Tensor:
    check_in_place(input)
    layout = input._layout
    if layout.contiguous:
        layout.device_state.plans[DROPOUT, layout, inner](drop, input, input)
        input._storage.version += 1
    else:
        with unrecorded():
            input.copy_(_applied(input, drop, inner))
    if modes.recording and input.requires_grad:
        record_in_place(_FORMULA, input, (input,), context=(drop.slope, inner))
    return input


def check_probability(p: float) -> None:
    """Raise ValueError unless ``p`` is a probability."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def drop(
    input: Tensor,
    p: float,
    train: bool,
    *,
    inplace: bool = False,
    features: bool = False,
    alpha: bool = False,
) -> Tensor:
    """Leave elements of ``input`` out with probability ``p``, as all the functions of this kind do.

    Parameters
    ----------
    train : bool
        Otherwise the input itself is the result.
    features : bool
        Whether all elements of a channel stand or fall together: the input has shape (N, C, ...).
    alpha : bool
        Whether mean and variance stay; otherwise what is kept is divided by ``1 - p``.
    """
    check_probability(p)
    layout = input._layout
    if p == 0 or not train or not layout.numel:
        return input
    if features and len(layout.shape) < 2:
        raise RuntimeError(
            f"Feature dropout requires at least 2 dimensions in the input, (N, C, ...), got {list(layout.shape)}"
        )
    if not layout.dtype.is_floating_point:
        raise RuntimeError(
            f"result type Float can't be cast to {layout.dtype!r}: dropout wants a floating point input"
        )
    inner = prod(layout.shape[2:]) if features else 1
    scale, shift, otherwise = (1 / (1 - p) if p < 1 else 0.0), 0.0, 0.0
    if alpha:
        # PyTorch has zeros where everything is dropped.
        scale = 1 / ((_ALPHA * _ALPHA * p + 1) * (1 - p)) ** 0.5 if p < 1 else 0.0
        shift = -scale * _ALPHA * p
        otherwise = scale * _ALPHA + shift
    seed, call = source(None, layout.device_state, "dropout").next_call(layout.device_state)
    chosen = Drop(seed, call, round((1 - p) * _WORDS), scale, shift, otherwise)
    return (_applied_in_place if inplace else _applied)(input, chosen, inner)


@operation(method=False)
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout: each element is 0 with probability ``p``, or else divided by ``1 - p`` (Hinton et al., 2012).

    Parameters
    ----------
    input : Tensor
        Of a floating dtype.
    train : bool
        Otherwise ``input`` itself is returned, as with ``p == 0``.

    Raises
    ------
    ValueError
        If ``p`` is not in ``[0, 1]``.
    RuntimeError
        If the dtype is not a floating one.

    Examples
    --------
    >>> tensor.dropout(tensor.ones(3), 1.0, True)
    tensor([0., 0., 0.])
    >>> tensor.dropout(tensor.ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return drop(input, p, train)


@operation(method=False)
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`dropout` in place. Returns ``input``.

    Arguments and errors are those of :func:`dropout`.

    Raises
    ------
    RuntimeError
        Also if ``input`` is a leaf that requires grad.

    Examples
    --------
    >>> tensor.dropout_(tensor.ones(3), 1.0, True)
    tensor([0., 0., 0.])
    """
    return drop(input, p, train, inplace=True)


@operation(method=False)
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`dropout` of whole channels: with probability ``p``, all elements ``[n, c, ...]`` are 0.

    The input has shape (N, C, ...).

    Raises
    ------
    ValueError
        If ``p`` is not in ``[0, 1]``.
    RuntimeError
        If the dtype is not a floating one, or the input has fewer than two dimensions.

    Examples
    --------
    >>> tensor.feature_dropout(tensor.ones(1, 2, 2), 1.0, True)
    tensor([[[0., 0.],
             [0., 0.]]])
    """
    return drop(input, p, train, features=True)


@operation(method=False)
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`feature_dropout` in place. Returns ``input``.

    Arguments and errors are those of :func:`feature_dropout`.

    Raises
    ------
    RuntimeError
        Also if ``input`` is a leaf that requires grad.

    Examples
    --------
    >>> tensor.feature_dropout_(tensor.ones(1, 2, 2), 1.0, True)
    tensor([[[0., 0.],
             [0., 0.]]])
    """
    return drop(input, p, train, inplace=True, features=True)


@operation(method=False)
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`dropout` that keeps a mean of 0 and a variance of 1, for :func:`selu` (Klambauer et al., 2017).

    Elements are set, with probability ``p``, to the limit of :func:`selu` at minus infinity instead of 0; then all are
    scaled and shifted.

    Raises
    ------
    ValueError
        If ``p`` is not in ``[0, 1]``.
    RuntimeError
        If the dtype is not a floating one.

    Examples
    --------
    >>> tensor.alpha_dropout(tensor.ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return drop(input, p, train, alpha=True)


@operation(method=False)
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`alpha_dropout` in place. Returns ``input``.

    Arguments and errors are those of :func:`alpha_dropout`.

    Raises
    ------
    RuntimeError
        Also if ``input`` is a leaf that requires grad.

    Examples
    --------
    >>> tensor.alpha_dropout_(tensor.ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return drop(input, p, train, inplace=True, alpha=True)


@operation(method=False)
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`alpha_dropout` of whole channels ``[n, c, ...]`` of an input of shape (N, C, ...).

    Raises
    ------
    ValueError
        If ``p`` is not in ``[0, 1]``.
    RuntimeError
        If the dtype is not a floating one, or the input has fewer than two dimensions.

    Examples
    --------
    >>> tensor.feature_alpha_dropout(tensor.ones(1, 2, 2), 0.5, False)
    tensor([[[1., 1.],
             [1., 1.]]])
    """
    return drop(input, p, train, features=True, alpha=True)


@operation(method=False)
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`feature_alpha_dropout` in place. Returns ``input``.

    Arguments and errors are those of :func:`feature_alpha_dropout`.

    Raises
    ------
    RuntimeError
        Also if ``input`` is a leaf that requires grad.

    Examples
    --------
    >>> tensor.feature_alpha_dropout_(tensor.ones(1, 2, 2), 0.5, False)
    tensor([[[1., 1.],
             [1., 1.]]])
    """
    return drop(input, p, train, inplace=True, features=True, alpha=True)
