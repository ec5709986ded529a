"""What autocast blocks set, as functions."""

from __future__ import annotations

from typing import Any

from nvrtc_kernels.dtypes import dtype
from tensor.core.modes.autocast import DEVICE_TYPES, enabled, enter, settings, update


def check_device_type(device_type: Any) -> None:
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


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether this thread's operations on a type of device choose their precision."""
    check_device_type(device_type)
    return enabled(device_type)


def set_autocast_enabled(device_type: str | bool = "cuda", enabled: bool | None = None) -> None:
    """Let this thread's operations on a type of device choose their precision, or not.

    ``set_autocast_enabled(enabled)`` is about ``"cuda"``.
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type  # type: ignore[assignment]
    check_device_type(device_type)
    update(str(device_type), _flag("set_autocast_enabled", enabled))


def get_autocast_dtype(device_type: str) -> dtype:
    """What operands on a type of device are cast to where autocast is enabled."""
    check_device_type(device_type)
    return settings.dtypes[device_type]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set what operands on a type of device are cast to where autocast is enabled."""
    check_device_type(device_type)
    update(device_type, kind=_kind("set_autocast_dtype", dtype))


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost block ends."""
    return settings.keeps


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether casts of parameters are kept until the outermost block ends."""
    update("cpu", keeps=_flag("set_autocast_cache_enabled", enabled))


def clear_autocast_cache() -> None:
    """Forget the casts of parameters that this thread has kept."""
    settings.kept.clear()


def autocast_increment_nesting() -> int:
    """Count one more block around this thread, for blocks of one's own. Returns how many there are."""
    enter()
    return settings.depth


def autocast_decrement_nesting() -> int:
    """Count one block less; kept casts are the caller's to clear. Returns how many there are."""
    settings.depth -= 1
    return settings.depth


def get_autocast_gpu_dtype() -> dtype:
    """``get_autocast_dtype("cuda")``."""
    return settings.dtypes["cuda"]


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """``set_autocast_dtype("cuda", dtype)``."""
    update("cuda", kind=_kind("set_autocast_gpu_dtype", dtype))


def get_autocast_cpu_dtype() -> dtype:
    """``get_autocast_dtype("cpu")``."""
    return settings.dtypes["cpu"]


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """``set_autocast_dtype("cpu", dtype)``."""
    update("cpu", kind=_kind("set_autocast_cpu_dtype", dtype))


def is_autocast_cpu_enabled() -> bool:
    """``is_autocast_enabled("cpu")``."""
    return enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled("cpu", enabled)``."""
    update("cpu", _flag("set_autocast_cpu_enabled", enabled))


def _flag(name: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise TypeError(f"{name}(): argument 'enabled' must be bool, not {type(given).__name__}")
    return given


def _kind(name: str, given: Any) -> dtype:
    if not isinstance(given, dtype):
        raise TypeError(f"{name}(): argument 'dtype' must be a dtype, not {type(given).__name__}")
    return given
