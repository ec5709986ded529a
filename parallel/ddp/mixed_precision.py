"""``MixedPrecision`` of :class:`parallel.DistributedDataParallel`: modules compute with copies of their parameters in another dtype.

Parameters and their gradients keep their dtype: a copy is an operation of the graph, whose backward pass converts the gradient
back.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import tensor
from parallel.ddp_comm_hooks.default_hooks import compressed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nn import Module
    from tensor import Tensor

    from .reducer import Hook

    #: A table of parameters, a name in it, and the parameter that belongs there.
    _Replaced = tuple[dict[str, Any], str, Any]


class LowPrecision:
    """Has a module compute in ``param_dtype``.

    Parameters
    ----------
    module
        Whose parameters, and those of modules below it, are replaced by copies while it computes.
    config
        An object with ``param_dtype``, ``reduce_dtype`` and ``buffer_dtype``, each a dtype or None.
    ignored
        Names of parameters and buffers that stay as they are.
    """

    def __init__(self, module: Module, config: Any, ignored: set[str]) -> None:
        self.config = config
        self._module = module
        self._ignored = ignored
        self._computes = False
        for prefix, below in module.named_modules():
            for name, buffer in below._buffers.items():
                if buffer is None or config.buffer_dtype is None or _joined(prefix, name) in ignored:
                    continue
                if buffer.is_floating_point():
                    below._buffers[name] = buffer.to(config.buffer_dtype)
            if below._parameters:
                # A checkpoint runs modules again in the backward pass, by themselves.
                below.register_forward_pre_hook(_Before(self, prefix))
                below.register_forward_hook(_after, always_call=True)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """A block in which the module, and those below it, have copies; a parameter with several names has one."""
        copies: dict[int, Tensor] = {}
        replaced = [
            each
            for prefix, module in self._module.named_modules()
            for each in self._replace(prefix, module, copies)
        ]
        self._computes = True
        try:
            yield
        finally:
            self._computes = False
            restore(replaced)

    def replace(self, prefix: str, module: Module) -> list[_Replaced]:
        """Have one module use copies, unless all do. Returns what :func:`restore` takes."""
        return [] if self._computes else self._replace(prefix, module, {})

    def _replace(self, prefix: str, module: Module, copies: dict[int, Tensor]) -> list[_Replaced]:
        dtype = self.config.param_dtype
        replaced: list[_Replaced] = []
        table: dict[str, Any] = module._parameters
        for name, parameter in table.items() if dtype is not None else ():
            if parameter is None or not parameter.is_floating_point():
                continue
            if _joined(prefix, name) in self._ignored:
                continue
            if id(parameter) not in copies:
                copies[id(parameter)] = parameter.to(dtype)
            replaced.append((table, name, parameter))
            table[name] = copies[id(parameter)]
        return replaced

    def hook(self) -> Hook | None:
        """What reduces gradients in ``reduce_dtype``, by default ``param_dtype``; None for their own."""
        dtype = self.config.reduce_dtype or self.config.param_dtype
        return None if dtype in (None, tensor.float32) else functools.partial(compressed, dtype=dtype)


class _Before:
    """The hook before a module's ``forward``."""

    def __init__(self, precision: LowPrecision, prefix: str) -> None:
        self._precision = precision
        self._prefix = prefix

    def __call__(self, module: Module, args: Any) -> None:
        # A list, for modules that call themselves.
        module.__dict__.setdefault("_replaced_by_ddp", []).append(
            self._precision.replace(self._prefix, module)
        )


def _after(module: Module, args: Any, output: Any) -> None:
    """The hook after a module's ``forward``, also if that raised."""
    stack = module.__dict__.get("_replaced_by_ddp")
    if stack:
        restore(stack.pop())


def restore(replaced: list[_Replaced]) -> None:
    """Put parameters back."""
    for table, name, parameter in replaced:
        table[name] = parameter


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
