"""State dicts: the tensors of a module by path, to keep them and to read them back."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nn.parameter import Parameter, is_lazy
from tensor import Tensor, no_grad
from tensor.utils.hooks import HookTable, RemovableHandle

from .base import ModuleBase

if TYPE_CHECKING:
    from collections.abc import Callable

#: Key, after the module's path, of what ``get_extra_state`` returns.
_EXTRA_STATE = "_extra_state"


class _NamesOfKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_NamesOfKeys):
    """What :meth:`~nn.Module.load_state_dict` returns: keys that were not there, and those of nobody."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys{super().__repr__().removeprefix(type(self).__name__)}"

    __str__ = __repr__


class _Report(list[str]):
    """Errors found while a state dict is read, and what is to be done if there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.later: list[Callable[[], None]] = []

    def carry_out(self) -> None:
        """Do what was put off."""
        for change in self.later:
            change()
        self.later.clear()


class State(ModuleBase):
    """The methods of a :class:`~nn.Module` that give and take its state."""

    def get_extra_state(self) -> Any:
        """What is to be kept in the state dict beside the tensors; for subclasses, with ``set_extra_state``."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: define it in the subclass "
            "beside set_extra_state()"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what :meth:`get_extra_state` has returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: define it in the subclass "
            "beside get_extra_state()"
        )

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """The parameters and persistent buffers by path, in an ``OrderedDict``.

        They are views of the module's own memory: clone what shall not change with it.

        Parameters
        ----------
        destination
            Mapping to put them in.
        prefix
            What the paths begin with.
        keep_vars
            Whether they are the very tensors, and not detached ones.
        """
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, may_replace in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if may_replace:
                destination = destination if result is None else result
            elif result is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the module's own tensors, not those of submodules, into ``destination``."""
        for table, left_out in (
            (self._parameters, ()),
            (self._buffers, self._non_persistent_buffers_set),
        ):
            for name, value in table.items():
                if value is not None and name not in left_out:
                    destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of ``state_dict`` into the parameters and buffers of the same path.

        Parameters
        ----------
        strict
            Whether the keys must be those of this module.
        assign
            Whether the tensors replace the module's own, with their dtype and device, and are not copied.

        Raises
        ------
        TypeError
            If ``state_dict`` is no mapping.
        RuntimeError
            If tensors have other shapes, or, if ``strict``, keys are missing or unexpected; all of them are
            listed. Then nothing was changed, unless a hook after loading had to see what was loaded.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        # Hooks before loading may change it.
        given = OrderedDict(state_dict)
        report = _Report()
        keys = IncompatibleKeys([], [])
        self._load(given, "", metadata, assign, keys, report)
        if strict:
            for which, names in (("Unexpected", keys.unexpected_keys), ("Missing", keys.missing_keys)):
                if names:
                    listed = ", ".join(f'"{name}"' for name in names)
                    report.insert(0, f"{which} key(s) in state_dict: {listed}. ")
        if report:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(report)
            )
        report.carry_out()
        return keys

    def _load(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        metadata: Any,
        assign: bool,
        keys: IncompatibleKeys,
        report: _Report,
    ) -> None:
        local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local_metadata = {**local_metadata, "assign_to_params_buffers": True}
        self._load_from_state_dict(
            state_dict, prefix, local_metadata, True, keys.missing_keys, keys.unexpected_keys, report
        )
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}{name}."
                part = {key: value for key, value in state_dict.items() if key.startswith(path)}
                module._load(part, path, metadata, assign, keys, report)
        for hook in self._load_state_dict_post_hooks.values():
            if not report:
                report.carry_out()
            if hook(self, keys) is not None:
                raise RuntimeError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                    "if incompatible_keys need to be modified, it should be done inplace."
                )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Read the module's own tensors, not those of submodules, and note in the lists what is wrong.

        Subclasses that read older forms override this. They are given the part of the state dict that
        begins with ``prefix``, and may change it.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        later = error_msgs.later if isinstance(error_msgs, _Report) else None
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        persistent = [name for name in self._buffers if name not in self._non_persistent_buffers_set]
        for name in (*self._parameters, *persistent):
            own = self._parameters[name] if name in self._parameters else self._buffers[name]
            if own is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            given = state_dict[key]
            problem = _problem(key, own, given)
            if problem is not None:
                error_msgs.append(problem)
                continue
            if is_lazy(own) and is_lazy(given):
                continue
            if not is_lazy(own) and own.dim() == 0 and given.dim() == 1:
                given = given[0]
            _do(_change(self, name, given, assign), later)
        extra = prefix + _EXTRA_STATE
        if type(self).set_extra_state is not State.set_extra_state:
            if extra in state_dict:
                state = state_dict[extra]
                _do(lambda: self.set_extra_state(state), later)
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            known = {*self._parameters, *persistent}
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if not (first in self._modules if dot else first in known):
                        unexpected_keys.append(key)

    # Hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before :meth:`state_dict`."""
        return RemovableHandle.of(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after :meth:`state_dict`, to change it in place."""
        return _add_pair(self._state_dict_hooks, hook, False)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As :meth:`register_state_dict_post_hook`, but what ``hook`` returns is the result."""
        return _add_pair(self._state_dict_hooks, hook, True)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before the module's tensors are read from a state dict, to change that in place.

        As ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
        bound = _WithModule(hook, self) if with_module else hook
        return RemovableHandle.of(self._load_state_dict_pre_hooks, bound)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after the module's tensors and those of its submodules were read.

        The lists of ``incompatible_keys`` may be changed, before it is decided whether they are an error.
        """
        return RemovableHandle.of(self._load_state_dict_post_hooks, hook)


class _WithModule:
    """A hook that is given its module first, and keeps it not alive. Copies and pickles with it."""

    def __init__(self, hook: Callable[..., Any], module: ModuleBase) -> None:
        self.__setstate__((hook, module))

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args)

    def __getstate__(self) -> tuple[Callable[..., Any], Any]:
        return self.hook, self.module()

    def __setstate__(self, state: tuple[Callable[..., Any], Any]) -> None:
        self.hook = state[0]
        self.module = weakref.ref(state[1])


def _add_pair(table: HookTable, hook: Callable[..., Any], flag: bool) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(table)
    table[handle.id] = (hook, flag)
    return handle


def _problem(key: str, own: Tensor, given: Any) -> str | None:
    """Why ``given`` cannot take the place of ``own``."""
    if not isinstance(given, Tensor):
        return (
            f'While copying the parameter named "{key}", expected tensor.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
    if is_lazy(own):
        return None
    if is_lazy(given):
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {own.shape}, the checkpoint has '
            "one without a shape: it was saved before the lazy module was first called."
        )
    if own.shape == given.shape or (own.dim() == 0 and tuple(given.shape) == (1,)):
        return None
    return (
        f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in current "
        f"model is {own.shape}."
    )


def _change(module: ModuleBase, name: str, given: Tensor, assign: bool) -> Callable[[], None]:
    """What copies or assigns a tensor to the parameter or buffer ``name``."""

    def copy() -> None:
        own: Any = module._parameters.get(name)
        own = module._buffers[name] if own is None else own
        if is_lazy(own):
            own.materialize(given.shape)
        with no_grad():
            own.copy_(given)

    def replace() -> None:
        own = module._parameters.get(name)
        if own is None:
            module._buffers[name] = given
        elif isinstance(given, Parameter):
            module._parameters[name] = given.requires_grad_(own.requires_grad)  # type: ignore[assignment]
        else:
            module._parameters[name] = Parameter(given, own.requires_grad)

    return replace if assign else copy


def _do(change: Callable[[], None], later: list[Callable[[], None]] | None) -> None:
    if later is None:
        change()
    else:
        later.append(change)
