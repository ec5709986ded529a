"""What packages for PyTorch read of its C++ half, ``torch._C``: notes of their use, and the dispatcher's keys and guards.

There is no dispatcher here. What its guards ask for is done where there is something to do: without autocast, or
without classes that take over operations (:mod:`tensor.overrides`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from enum import Enum
from typing import TYPE_CHECKING

from tensor.amp import autocast
from tensor.core.names.absent import hints as _hints
from tensor.methods.overriding.protocol import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
)
from tensor.methods.overriding.protocol import disabled_torch_function as _disabled_torch_function_impl

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "_ExcludeDispatchKeyGuard",
    "_disabled_torch_function_impl",
    "_get_privateuse1_backend_name",
    "_get_tracing_state",
    "_log_api_usage_once",
]


def _log_api_usage_once(event: str) -> None:
    """Do nothing: uses are not recorded. ``event`` names one, as "torchmetrics.metric.Accuracy"."""


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _get_privateuse1_backend_name() -> str:
    """The name of a device that another package adds, which none does."""
    return "privateuseone"


class DispatchKey(Enum):
    """For what a kernel of an operator is registered: the keys that packages name."""

    CPU = "CPU"
    CUDA = "CUDA"
    XPU = "XPU"
    Meta = "Meta"
    BackendSelect = "BackendSelect"
    Python = "Python"
    ADInplaceOrView = "ADInplaceOrView"
    Autograd = "Autograd"
    AutogradCPU = "AutogradCPU"
    AutogradCUDA = "AutogradCUDA"
    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"
    CompositeExplicitAutograd = "CompositeExplicitAutograd"
    CompositeImplicitAutograd = "CompositeImplicitAutograd"


class DispatchKeySet:
    """A set of keys; ``|``, ``&`` and ``-`` make others.

    Parameters
    ----------
    *keys : DispatchKey
        What is in it.
    """

    __slots__ = ("_keys",)

    def __init__(self, *keys: DispatchKey) -> None:
        self._keys = frozenset(keys)

    def has(self, key: DispatchKey) -> bool:
        """Whether ``key`` is in it."""
        return key in self._keys

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(sorted(self._keys, key=lambda each: each.value))

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(each.value for each in self)})"


#: Devices whose autocasting has a key.
_AUTOCAST = {DispatchKey.AutocastCPU: "cpu", DispatchKey.AutocastCUDA: "cuda"}


class _ExcludeDispatchKeyGuard(AbstractContextManager[None]):
    """Leave kernels of some keys out inside ``with``: without those for autocast, operations keep their dtypes.

    Parameters
    ----------
    keys : DispatchKeySet
        Which; others change nothing.
    """

    __slots__ = ("_keys", "_without")

    def __init__(self, keys: DispatchKeySet) -> None:
        self._keys = keys
        self._without = ExitStack()

    def __enter__(self) -> None:
        for key, device in _AUTOCAST.items():
            if self._keys.has(key):
                self._without.enter_context(autocast(device, enabled=False))

    def __exit__(self, *exception: object) -> None:
        self._without.close()


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
