"""State dicts: saving the tensors of a tree of modules by path, and loading them.

:func:`save` and :func:`load` walk the tree; each module saves and loads its own tensors by the methods
``_save_to_state_dict`` and ``_load_from_state_dict``, which subclasses may override.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nn.parameter import Parameter, is_lazy
from tensor import Tensor, no_grad
from tensor.utils.hooks import HookTable, RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from .module import Module

#: Key, after the module's path, of what ``get_extra_state`` returns.
EXTRA_STATE = "_extra_state"


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_Keys):
    """Result of :meth:`~nn.Module.load_state_dict`: keys that were missing, and keys that belong to no module."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys{super().__repr__().removeprefix(type(self).__name__)}"

    __str__ = __repr__


class _Errors(list[str]):
    """Messages about a state dict that is being loaded, and the changes to carry out if there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Callable[[], None]] = []

    def carry_out(self) -> None:
        """Make the changes."""
        for change in self.changes:
            change()
        self.changes.clear()


# Saving


def save(module: Module, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """What :meth:`~nn.Module.state_dict` returns."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    local_metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = local_metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook, may_replace in module._state_dict_hooks.values():
        result = hook(module, destination, prefix, local_metadata)
        if may_replace:
            destination = destination if result is None else result
        elif result is not None:
            raise RuntimeError("state_dict post-hook must return None")
    return destination


def save_own(module: Module, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Put the parameters and persistent buffers of ``module`` alone into ``destination``."""
    for table, excluded in ((module._parameters, ()), (module._buffers, module._non_persistent_buffers_set)):
        for name, value in table.items():
            if value is not None and name not in excluded:
                destination[prefix + name] = value if keep_vars else value.detach()


# Loading


def load(module: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """What :meth:`~nn.Module.load_state_dict` does."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", None)
    errors = _Errors()
    keys = IncompatibleKeys([], [])
    # A copy, which hooks may change.
    _load_tree(module, OrderedDict(state_dict), "", metadata, assign, keys, errors)
    if strict:
        for which, names in (("Unexpected", keys.unexpected_keys), ("Missing", keys.missing_keys)):
            if names:
                listed = ", ".join(f'"{name}"' for name in names)
                errors.insert(0, f"{which} key(s) in state_dict: {listed}. ")
    if errors:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors)
        )
    errors.carry_out()
    return keys


def _load_tree(
    module: Module,
    state_dict: dict[str, Any],
    prefix: str,
    metadata: Any,
    assign: bool,
    keys: IncompatibleKeys,
    errors: _Errors,
) -> None:
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata = {**local_metadata, "assign_to_params_buffers": True}
    module._load_from_state_dict(
        state_dict, prefix, local_metadata, True, keys.missing_keys, keys.unexpected_keys, errors
    )
    if module._modules:
        parts = _split(state_dict, prefix)
        for name, child in module._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                if "." in name:
                    part = {key: value for key, value in state_dict.items() if key.startswith(path)}
                else:
                    part = parts.get(name, {})
                _load_tree(child, part, path, metadata, assign, keys, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if not errors:
            errors.carry_out()
        if hook(module, keys) is not None:
            raise RuntimeError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                "if incompatible_keys need to be modified, it should be done inplace."
            )


def _split(state_dict: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """The entries below ``prefix`` by the name that follows it, in one pass over the keys.

    A search of all keys for each submodule would make loading quadratic in the number of layers.
    """
    parts: dict[str, dict[str, Any]] = {}
    start = len(prefix)
    for key, value in state_dict.items():
        if key.startswith(prefix):
            end = key.find(".", start)
            if end >= 0:
                name = key[start:end]
                part = parts.get(name)
                if part is None:
                    part = parts[name] = {}
                part[key] = value
    return parts


def load_own(
    module: Module,
    state_dict: dict[str, Any],
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    has_extra_state: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Load the parameters and persistent buffers of ``module`` alone, and append what is missing, unexpected or refused.

    Changes are put off to the end of a call of :func:`load`, whose list of errors keeps them.
    """
    changes = error_msgs.changes if isinstance(error_msgs, _Errors) else None
    assign = bool(local_metadata.get("assign_to_params_buffers", False))
    persistent = [name for name in module._buffers if name not in module._non_persistent_buffers_set]
    for name in (*module._parameters, *persistent):
        current = module._parameters[name] if name in module._parameters else module._buffers[name]
        if current is None:
            continue
        key = prefix + name
        if key not in state_dict:
            if strict:
                missing_keys.append(key)
            continue
        value = state_dict[key]
        error = _mismatch(key, current, value)
        if error is not None:
            error_msgs.append(error)
            continue
        if is_lazy(current) and is_lazy(value):
            continue
        if not is_lazy(current) and current.dim() == 0 and value.dim() == 1:
            value = value[0]
        _carry_out(_change(module, name, value, assign), changes)
    extra = prefix + EXTRA_STATE
    if has_extra_state:
        if extra in state_dict:
            extra_state = state_dict[extra]
            _carry_out(lambda: module.set_extra_state(extra_state), changes)
        elif strict:
            missing_keys.append(extra)
    elif strict and extra in state_dict:
        unexpected_keys.append(extra)
    if strict:
        known = {*module._parameters, *persistent}
        for key in state_dict:
            if key.startswith(prefix) and key != extra:
                first, dot, _ = key[len(prefix) :].partition(".")
                if not (first in module._modules if dot else first in known):
                    unexpected_keys.append(key)


def _mismatch(key: str, current: Tensor, value: Any) -> str | None:
    """Why ``value`` cannot be loaded into ``current``; ``None`` if it can."""
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{key}", expected tensor.Tensor or Tensor-like object from checkpoint '
            f"but received {type(value)}"
        )
    if is_lazy(current):
        return None
    if is_lazy(value):
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {current.shape}, the checkpoint '
            "has one without a shape: it was saved before the lazy module was first called."
        )
    if current.shape == value.shape or (current.dim() == 0 and tuple(value.shape) == (1,)):
        return None
    return (
        f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current "
        f"model is {current.shape}."
    )


def _change(module: Module, name: str, value: Tensor, assign: bool) -> Callable[[], None]:
    """A function that copies or assigns ``value`` to the parameter or buffer ``name``."""

    def copy() -> None:
        target: Any = module._parameters.get(name)
        target = module._buffers[name] if target is None else target
        if is_lazy(target):
            target.materialize(value.shape)
        with no_grad():
            target.copy_(value)

    def replace() -> None:
        target = module._parameters.get(name)
        if target is None:
            module._buffers[name] = value
        elif isinstance(value, Parameter):
            module._parameters[name] = value.requires_grad_(target.requires_grad)  # type: ignore[assignment]
        else:
            module._parameters[name] = Parameter(value, target.requires_grad)

    return replace if assign else copy


def _carry_out(change: Callable[[], None], changes: list[Callable[[], None]] | None) -> None:
    """Make a change now, or add it to those that are put off."""
    if changes is None:
        change()
    else:
        changes.append(change)


# Hooks


class _WithModule:
    """A hook that is called with its module first and does not keep it alive. Copies and pickles with it."""

    def __init__(self, hook: Callable[..., Any], module: Module) -> None:
        self.__setstate__((hook, module))

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args)

    def __getstate__(self) -> tuple[Callable[..., Any], Any]:
        return self.hook, self.module()

    def __setstate__(self, state: tuple[Callable[..., Any], Any]) -> None:
        self.hook = state[0]
        self.module = weakref.ref(state[1])


def add_save_hook(table: HookTable, hook: Callable[..., Any], *, may_replace: bool) -> RemovableHandle:
    """Register a hook after saving, and whether what it returns replaces the state dict."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(table)
    table[handle.id] = (hook, may_replace)
    return handle


def add_load_hook(module: Module, hook: Callable[..., Any], with_module: bool) -> RemovableHandle:
    """Register a hook before ``module`` loads its own tensors."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    return RemovableHandle.of(
        module._load_state_dict_pre_hooks, _WithModule(hook, module) if with_module else hook
    )


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take ``prefix`` off the keys of ``state_dict`` that begin with it, in place; the others stay.

    State dicts of ``DistributedDataParallel`` and ``DataParallel`` have ``"module."`` before the keys of the module
    inside. The attribute ``_metadata``, where there is one, is renamed alike.

    >>> state = {"module.weight": 1, "module.bias": 2}
    >>> nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1, 'bias': 2}
    """
    for key in [each for each in state_dict if each.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in [*metadata]:
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)
