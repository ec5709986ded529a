"""Which modules are running: the names of ``torch.utils.module_tracker``."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from nn.module.hooks import register_module_forward_hook, register_module_forward_pre_hook
from tensor import Tensor
from tensor.autograd.engine.engine import pass_number, queue_callback
from tensor.autograd.graph import register_multi_grad_hook
from tensor.core.names.absent import hints as _hints
from tensor.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from nn.module import Module

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Knows, inside ``with``, the modules whose ``forward`` or backward pass is running, by their paths.

    A path begins with the class of the outermost module that was called: ``"Net.layers.0"``. A module's backward pass
    runs from the gradients of its outputs to those of its inputs; of a module without inputs that require grad it ends
    with the whole pass.

    Attributes
    ----------
    parents : set of str
        Their paths, and ``"Global"``.

    Examples
    --------
    >>> net = nn.Sequential(nn.Identity())
    >>> with tensor.utils.module_tracker.ModuleTracker() as tracker:
    ...     handle = net[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
    ...     y = net(tensor.ones(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._paths: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Module] = weakref.WeakSet()
        self._waits_for_end = False
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether this thread runs a backward pass."""
        return pass_number() != -1

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _path(self, module: Module) -> str:
        path = self._paths.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for name, child in module.named_children():
                self._paths[child] = f"{path}.{name}"
                self._path(child)
        return path

    def _before(self, module: Module, args: Any) -> None:
        path = self._path(module)
        self.parents.add(path)
        self._watch(args, lambda *_: self.parents.discard(path))

    def _after(self, module: Module, args: Any, output: Any) -> None:
        path = self._path(module)
        self.parents.discard(path)
        self._watch(output, lambda *_: self._enter_backward(path))

    def _watch(self, tree: Any, function: Callable[..., None]) -> None:
        """Call ``function`` when the gradients of all tensors of ``tree`` have been computed."""
        tensors = [each for each in tree_leaves(tree) if isinstance(each, Tensor) and each.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, function))

    def _enter_backward(self, path: str) -> None:
        if not self._waits_for_end:
            self._waits_for_end = True
            queue_callback(self._end_backward)
        self.parents.add(path)

    def _end_backward(self) -> None:
        self.parents = {"Global"}
        self._waits_for_end = False


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
