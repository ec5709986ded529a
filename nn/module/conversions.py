"""The parameters and buffers of a module on another device, or of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import tensor
from tensor import Tensor, empty, empty_like

from .base import ModuleBase

if TYPE_CHECKING:
    from collections.abc import Callable


class Conversions(ModuleBase):
    """The methods of a :class:`~nn.Module` that convert it, in place.

    The parameters remain the same objects, so that optimizers go on with them.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace what all parameters, their gradients and the buffers show by ``fn`` of it."""
        if recurse:
            for module in self._modules.values():
                if module is not None:
                    module._apply(fn)
        with tensor.no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                grad = parameter.grad
                # Both first: a failure leaves the parameter as it was.
                made = fn(parameter.data)
                made_grad = None if grad is None else fn(grad.data).requires_grad_(grad.requires_grad)
                parameter.grad = None
                parameter.data = made
                parameter.grad = made_grad
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(
        self,
        *args: Any,
        device: Any = None,
        dtype: tensor.dtype | None = None,
        non_blocking: bool = False,
        memory_format: tensor.memory_format | None = None,
    ) -> Self:
        """Move and convert all parameters and buffers, in place.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` and ``to(other)``, each followed by
        ``non_blocking``. Integers keep their dtype.

        Parameters
        ----------
        memory_format
            Order in memory of parameters and buffers with 4 or 5 dimensions.

        Raises
        ------
        TypeError
            For a dtype that is neither floating point nor complex.
        """
        if args:
            device, dtype, non_blocking = _positional(args, device, dtype, non_blocking)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(old: Tensor) -> Tensor:
            kind = dtype if old.is_floating_point() or old.is_complex() else None
            if memory_format is not None and old.dim() in (4, 5):
                return old.to(
                    device=device, dtype=kind, non_blocking=non_blocking, memory_format=memory_format
                )
            return old.to(device=device, dtype=kind, non_blocking=non_blocking)

        return self._apply(convert)

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a CUDA device, by default the current one."""
        return self._apply(lambda old: old.cuda(device))

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda old: old.cpu())

    def type(self, dst_type: tensor.dtype | str) -> Self:
        """Convert all parameters and buffers to ``dst_type``."""
        return self._apply(lambda old: old.type(dst_type))

    def float(self) -> Self:
        """Convert floating point parameters and buffers to float32."""
        return self._to_floating(tensor.float32)

    def double(self) -> Self:
        """Convert floating point parameters and buffers to float64."""
        return self._to_floating(tensor.float64)

    def half(self) -> Self:
        """Convert floating point parameters and buffers to float16."""
        return self._to_floating(tensor.float16)

    def bfloat16(self) -> Self:
        """Convert floating point parameters and buffers to bfloat16."""
        return self._to_floating(tensor.bfloat16)

    def _to_floating(self, kind: tensor.dtype) -> Self:
        return self._apply(lambda old: old.to(kind) if old.is_floating_point() else old)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to ``device`` without copying: all parameters and buffers have undefined contents.

        Parameters
        ----------
        recurse
            Whether those of submodules too.
        """

        def made(old: Tensor) -> Tensor:
            return empty_like(old, device=device) if device is not None else empty_like(old)

        return self._apply(made, recurse)


def _positional(
    args: tuple[Any, ...], device: Any, dtype: Any, non_blocking: Any
) -> tuple[Any, tensor.dtype | None, bool]:
    """What the arguments of ``to`` without a name mean: they are those of ``Tensor.to``."""
    probe = empty(0).to(*args)
    rest = args
    if isinstance(rest[0], Tensor):
        device, dtype, rest = rest[0].device, rest[0].dtype, rest[1:]
    elif isinstance(rest[0], tensor.dtype):
        dtype, rest = rest[0], rest[1:]
    else:
        if rest[0] is not None:
            device = probe.device
        rest = rest[1:]
        if rest and not isinstance(rest[0], bool):
            dtype, rest = rest[0], rest[1:]
    return device, dtype, bool(rest[0]) if rest else bool(non_blocking)
