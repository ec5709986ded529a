"""What hangs on a node besides its derivative: hooks, their handles, metadata."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Self

from tensor.core.base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

_numbers = itertools.count()


class HookTable(dict[int, Any]):
    """Hooks by the number of their handle, in the order of registration: a dict.

    The keys are ints. A handle refers to the table weakly, so that it can outlive it.
    """

    __slots__ = ("__weakref__",)


class NodeHooks:
    """Hooks of one node.

    They run in this order: those on the gradient of one output, which users register on tensors; those
    that keep it in ``grad``; those on all gradients that have arrived; and after the node ran those on its
    results.
    """

    __slots__ = ("_metadata", "after", "before", "on_output", "retain")

    def __init__(self) -> None:
        self.on_output: dict[int, HookTable] = {}
        self.retain: dict[int, Callable[[Tensor], None]] = {}
        self.before = HookTable()
        self.after = HookTable()
        self._metadata: dict[str, Any] | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """See :attr:`Node.metadata`."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def run_on_outputs(self, grads: list[Any]) -> None:
        """Let the hooks on outputs see, and replace, the gradients that have arrived."""
        for number, hooks in self.on_output.items():
            if grads[number] is not None:
                grads[number] = run_hooks(hooks, grads[number])
        for number, keep in self.retain.items():
            if grads[number] is not None:
                keep(grads[number])

    def run_before(self, grads: list[Any]) -> None:
        """Let the hooks that run before the node see, and replace, the gradients."""
        for hook in list(self.before.values()):
            changed = hook(tuple(grads))
            if changed is not None:
                grads[:] = _checked(hook, changed, grads)

    def run_after(self, results: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Let the hooks that run after the node see, and replace, its results."""
        for hook in list(self.after.values()):
            changed = hook(results, grads)
            if changed is not None:
                results = tuple(_checked(hook, changed, results))
        return results


class RemovableHandle:
    """What registering a hook gives; ``remove()`` takes the hook away. As a context manager it does so at the end.

    >>> x = tensor.ones(1, requires_grad=True)
    >>> with x.register_hook(lambda gradient: 10 * gradient):
    ...     (2 * x).sum().backward()
    >>> x.grad
    tensor([20.])

    Parameters
    ----------
    hooks : HookTable
        The table that the hook is in. The handle does not keep it alive.
    """

    __slots__ = ("__weakref__", "_hooks", "id")

    def __init__(self, hooks: HookTable) -> None:
        # A handle that is kept keeps neither graph nor hooks.
        self._hooks: weakref.ref[HookTable] = weakref.ref(hooks)
        self.id = next(_numbers)

    @classmethod
    def of(cls, hooks: HookTable, hook: Any) -> Self:
        """Register ``hook`` in the table ``hooks``, and return its handle.

        Raises
        ------
        TypeError
            If ``hook`` is not callable.
        """
        if not callable(hook):
            raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
        self = cls(hooks)
        hooks[self.id] = hook
        return self

    def remove(self) -> None:
        """Take the hook away. A second call does nothing, nor one after the end of what has the hook."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def run_hooks(hooks: HookTable, gradient: Tensor) -> Tensor:
    """``gradient`` after hooks that may replace it.

    Raises
    ------
    TypeError
        If a hook gives anything but a tensor or ``None``.
    RuntimeError
        If it gives a tensor of another shape, dtype or device.
    """
    for hook in list(hooks.values()):
        changed = hook(gradient)
        if changed is not None:
            _check(hook, changed, gradient)
            gradient = changed
    return gradient


def _checked(hook: Any, changed: Any, former: Sequence[Any]) -> Sequence[Any]:
    argument = changed if isinstance(changed, tuple) else (changed,)
    if len(argument) != len(former):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values: got {len(argument)}, expected "
            f"{len(former)}, one for each gradient, or None to keep all"
        )
    for new, old in zip(argument, former, strict=True):
        if new is not None and old is not None:
            _check(hook, new, old)
        elif new is not None and not isinstance(new, TensorBase):
            raise _no_tensor(hook, new)
    return argument


def _check(hook: Any, changed: Any, gradient: Any) -> None:
    if not isinstance(changed, TensorBase):
        raise _no_tensor(hook, changed)
    have, want = changed._layout, gradient._layout
    if have is want:
        return
    for what, argument, expected in (
        ("size", list(have.shape), list(want.shape)),
        ("type", have.dtype, want.dtype),
        ("device", have.device, want.device),
    ):
        if argument != expected:
            raise RuntimeError(
                f"hook '{_name(hook)}' has changed the {what} of value: {argument} instead of {expected}. Return a tensor "
                f"of the gradient's {what}, or None to keep the gradient"
            )


def _no_tensor(hook: Any, argument: Any) -> TypeError:
    return TypeError(
        f"hook '{_name(hook)}' returned {type(argument).__name__}: expected a Tensor, or None to keep the gradient"
    )


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)
