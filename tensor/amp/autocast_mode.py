"""``autocast``: blocks in which operations choose their precision, what they set, and functions of one's own in them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

import drv
from nvrtc_kernels.dtypes import bfloat16, dtype, float16
from tensor.core.base import TensorBase
from tensor.core.modes.autocast import DEVICE_TYPES, enabled, enter, leave, settings, update
from tensor.operations.autocast import eligible

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")


def _check_device_type(device_type: Any) -> None:
    """Raise if ``device_type`` names no type of device that there is autocast for.

    Raises
    ------
    ValueError
        If it is no str.
    RuntimeError
        If it is another str.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type not in DEVICE_TYPES:
        raise RuntimeError(
            f"User specified an unsupported autocast device_type '{device_type}': it is one of {list(DEVICE_TYPES)}"
        )


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for ``device_type``: True for ``"cuda"`` and ``"cpu"``, with or without a GPU.

    Any other name gives False.
    """
    return device_type in DEVICE_TYPES


class autocast:  # noqa: N801 - PyTorch's name
    """Inside ``with``, and in functions that this decorates, operations on a type of device choose their precision.

    Products of matrices and convolutions compute in ``dtype``; sums, exponentials, norms and losses in float32; some
    operations of several operands in the widest dtype among them; others as always. The lists are in
    :mod:`tensor.operations.autocast`. Parameters that are cast are cast once in the outermost block. It holds for one
    thread, and not for backward passes, which compute in the dtypes of the forward pass.

    >>> x = tensor.randn(2, 2)
    >>> with tensor.autocast("cpu"):
    ...     print((x @ x).dtype, x.sum().dtype)
    tensor.bfloat16 tensor.float32

    Parameters
    ----------
    device_type : str
        ``"cuda"`` or ``"cpu"``.
    dtype : dtype, optional
        float16 or bfloat16; float16 by default on CUDA devices, bfloat16 on the CPU.
    enabled : bool
        Whether anything is done; a block with False inside of another turns it off.
    cache_enabled : bool, optional
        Whether the casts of parameters are cached until the outermost block ends.

    Raises
    ------
    ValueError
        If ``device_type`` is not a str.
    RuntimeError
        If there is no autocast for such a device.
    TypeError
        If ``dtype`` is not a dtype.

    Warns
    -----
    UserWarning
        If there is no such device, or the CPU does not compute in ``dtype``; nothing is cast then.
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _check_device_type(device_type)
        self.device = device_type
        self.fast_dtype = settings.dtypes[device_type] if dtype is None else _checked_dtype("autocast", dtype)
        self._cache_enabled = settings.keeps if cache_enabled is None else bool(cache_enabled)
        self._enabled = bool(enabled) and self._can_be_enabled()
        #: What held before each block that this object is entered for.
        self._before: list[tuple[bool, Any, bool]] = []

    def _can_be_enabled(self) -> bool:
        if self.device == "cuda":
            if not drv.is_available():
                warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=3)
                return False
            supported = self.fast_dtype.is_floating_point
        else:
            supported = self.fast_dtype in (bfloat16, float16)
        if not supported:
            name = self.device.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {bfloat16!r}, {float16!r} currently, got {self.fast_dtype!r}.",
                stacklevel=3,
            )
        return supported

    def __enter__(self) -> Self:
        self._before.append((enabled(self.device), settings.dtypes[self.device], settings.keeps))
        enter()
        update(self.device, self._enabled, self.fast_dtype, self._cache_enabled)
        return self

    def __exit__(self, *exception: object) -> None:
        leave()
        update(self.device, *self._before.pop())

    def __call__(self, func: _F) -> _F:
        """``func`` inside of such a block."""
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as "
                "a context manager? For example:\n    with tensor.autocast(device_type=...):\n"
                "        output = model(input)"
            )

        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            # A block of its own, so that calls in several threads do not mix what held before.
            with self._copy():
                return func(*args, **kwargs)

        return inside  # type: ignore[return-value]

    def _copy(self) -> autocast:
        result: autocast = object.__new__(autocast)
        result.device, result.fast_dtype = self.device, self.fast_dtype
        result._enabled, result._cache_enabled, result._before = self._enabled, self._cache_enabled, []
        return result


# In functions of one's own


def _cast(value: Any, cuda: bool, dtype: dtype) -> Any:
    """Tensors in ``value``, and in what it contains, in another type."""
    if isinstance(value, TensorBase):
        return value.to(dtype) if eligible(value, cuda=cuda) else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {_cast(key, cuda, dtype): _cast(each, cuda, dtype) for key, each in value.items()}
    if isinstance(value, Iterable):
        result = (_cast(each, cuda, dtype) for each in value)
        return type(value)(result) if isinstance(value, (list, tuple)) else result
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Callable[..., Any]:
    """Decorator of the ``forward`` of an :class:`tensor.autograd.Function` that is called inside of autocast's blocks.

    Parameters
    ----------
    fwd : callable, optional
        The ``forward``; without it the result is a decorator.
    device_type : str
        The type of device that it works on: ``"cuda"`` or ``"cpu"``.
    cast_inputs : dtype, optional
        What tensors of floating point among the arguments are cast to inside of a block, where ``forward`` runs
        with autocast off then. Without, it runs in the block as it is.

    Raises
    ------
    ValueError
        If ``device_type`` is not a str.
    RuntimeError
        If there is no autocast for such a device.
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    cuda = device_type == "cuda"

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = settings.dtypes[device_type]
        ctx._fwd_used_autocast = enabled(device_type) and cast_inputs is None
        if cast_inputs is None or not enabled(device_type):
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cuda, cast_inputs), **_cast(kwargs, cuda, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorator of a ``backward`` that runs with autocast as its ``forward`` did, which :func:`custom_fwd` decorates.

    Parameters
    ----------
    bwd : callable, optional
        The ``backward``; without it the result is a decorator.
    device_type : str
        The type of device that it works on: ``"cuda"`` or ``"cpu"``.

    Raises
    ------
    ValueError
        If ``device_type`` is not a str.
    RuntimeError
        If there is no autocast for such a device.
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward


# What blocks set, as functions


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread for ``device_type``, ``"cuda"`` or ``"cpu"``.

    Raises
    ------
    ValueError
        If ``device_type`` is not a str.
    RuntimeError
        If there is no autocast for such a device.
    """
    _check_device_type(device_type)
    return enabled(device_type)


def set_autocast_enabled(device_type: str | bool = "cuda", enabled: bool | None = None) -> None:
    """Turn autocast on or off in this thread for ``device_type``, until it is set again or a block ends.

    ``set_autocast_enabled(enabled)`` is about ``"cuda"``.

    Raises
    ------
    ValueError
        If ``device_type`` is not a str.
    RuntimeError
        If there is no autocast for such a device.
    TypeError
        If ``enabled`` is not a bool.
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type  # type: ignore[assignment]
    _check_device_type(device_type)
    update(str(device_type), _flag("set_autocast_enabled", enabled))


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that operands on ``device_type`` are cast to where autocast is on: float16 or bfloat16.

    Raises
    ------
    ValueError
        If ``device_type`` is not a str.
    RuntimeError
        If there is no autocast for such a device.
    """
    _check_device_type(device_type)
    return settings.dtypes[device_type]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the ``dtype`` that operands on ``device_type`` are cast to where autocast is on, in this thread.

    Raises
    ------
    ValueError
        If ``device_type`` is not a str.
    RuntimeError
        If there is no autocast for such a device.
    TypeError
        If ``dtype`` is not a dtype.
    """
    _check_device_type(device_type)
    update(device_type, dtype=_checked_dtype("set_autocast_dtype", dtype))


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are cached until the outermost block ends; True unless set."""
    return settings.keeps


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of parameters are cached until the outermost block ends: ``enabled`` is a bool.

    Raises
    ------
    TypeError
        If ``enabled`` is not a bool.
    """
    update("cpu", keeps=_flag("set_autocast_cache_enabled", enabled))


def clear_autocast_cache() -> None:
    """Drop the casts of parameters that this thread has cached, as the end of the outermost block does."""
    settings.casts.clear()


def autocast_increment_nesting() -> int:
    """Count one more block around this thread, for blocks of one's own. Returns how many there are now."""
    enter()
    return settings.depth


def autocast_decrement_nesting() -> int:
    """Count one block less around this thread; returns how many there are now.

    At 0 the caller calls :func:`clear_autocast_cache`.
    """
    settings.depth -= 1
    return settings.depth


def get_autocast_gpu_dtype() -> dtype:
    """The dtype of autocast on CUDA devices: ``get_autocast_dtype("cuda")``.

    float16 unless :func:`set_autocast_dtype` set another one.
    """
    return settings.dtypes["cuda"]


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Set the dtype of autocast on CUDA devices: ``set_autocast_dtype("cuda", dtype)``.

    Raises
    ------
    TypeError
        If ``dtype`` is not a dtype.
    """
    update("cuda", dtype=_checked_dtype("set_autocast_gpu_dtype", dtype))


def get_autocast_cpu_dtype() -> dtype:
    """The dtype of autocast on the CPU: ``get_autocast_dtype("cpu")``.

    bfloat16 unless :func:`set_autocast_dtype` set another one.
    """
    return settings.dtypes["cpu"]


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Set the dtype of autocast on the CPU: ``set_autocast_dtype("cpu", dtype)``.

    Raises
    ------
    TypeError
        If ``dtype`` is not a dtype.
    """
    update("cpu", dtype=_checked_dtype("set_autocast_cpu_dtype", dtype))


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU in this thread: ``is_autocast_enabled("cpu")``."""
    return enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Turn autocast on or off for the CPU in this thread: ``set_autocast_enabled("cpu", enabled)``.

    Raises
    ------
    TypeError
        If ``enabled`` is not a bool.
    """
    update("cpu", _flag("set_autocast_cpu_enabled", enabled))


def _flag(name: str, argument: Any) -> bool:
    if not isinstance(argument, bool):
        raise TypeError(f"{name}(): argument 'enabled' must be bool, not {type(argument).__name__}")
    return argument


def _checked_dtype(name: str, argument: Any) -> dtype:
    if not isinstance(argument, dtype):
        raise TypeError(f"{name}(): argument 'dtype' must be a dtype, not {type(argument).__name__}")
    return argument
