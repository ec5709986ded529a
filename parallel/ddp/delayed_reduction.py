"""``DelayedReduction``: gradients that are averaged at once, when that of another parameter is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from parallel.groups.collectives.tensor_collectives import all_reduce
from tensor.autograd.engine.engine import queue_callback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parallel.groups.process_groups import ProcessGroup
    from tensor import Tensor


class DelayedReduction:
    """Averages the gradients of ``parameters`` over a group, all in one operation for each dtype.

    Parameters
    ----------
    parameters
        Whose gradients are complete when :meth:`begin` is called; those without count as zeros.
    group
        The ranks.
    """

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup) -> None:
        self._group = group
        self._by_dtype: dict[Any, list[Tensor]] = {}
        for each in parameters:
            self._by_dtype.setdefault((each.dtype, each.device), []).append(each)
        self._under_way: list[tuple[Any, Tensor, list[Tensor]]] = []

    def begin(self) -> None:
        """Begin to reduce, in a backward pass, whose end waits for the results."""
        if self._under_way:
            raise RuntimeError(
                "param_to_hook_all_reduce got several gradients in one backward pass: name a parameter that is used once"
            )
        with tensor.no_grad():
            for parameters in self._by_dtype.values():
                gradients = [
                    tensor.zeros_like(each) if each.grad is None else each.grad for each in parameters
                ]
                flat = tensor.cat([each.reshape(-1) for each in gradients]).div_(self._group.size())
                self._under_way.append((all_reduce(flat, group=self._group, async_op=True), flat, parameters))
        queue_callback(self._finish, outermost=True)

    def _finish(self) -> None:
        under_way, self._under_way = self._under_way, []
        with tensor.no_grad():
            for work, flat, parameters in under_way:
                work.wait()
                for each, part in zip(
                    parameters, flat.split([each.numel() for each in parameters]), strict=True
                ):
                    if each.grad is None:
                        each.grad = tensor.empty_like(each)
                    each.grad.copy_(part.view(each.shape))
