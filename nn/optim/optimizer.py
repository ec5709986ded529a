"""``Optimizer``: groups of parameters with their options, and the state that is kept for each parameter."""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

import tensor
from tensor import Tensor
from tensor.core.names.keyword_hints import KeywordHints
from tensor.core.plans.steps import recorders, recording
from tensor.utils.hooks import HookTable, RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Hooks that every optimizer runs.
_every_step_before, _every_step_after = HookTable(), HookTable()


class _Required:
    """Marks an option that every group must set."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of any optimizer.

    If it returns a pair, that replaces ``(args, kwargs)``.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    TypeError
        If ``hook`` is not callable.
    """
    return _add(_every_step_before, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of any optimizer.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    TypeError
        If ``hook`` is not callable.
    """
    return _add(_every_step_after, hook)


def _add(table: HookTable, hook: Callable[..., Any], *, prepend: bool = False) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(table)
    others = list(table.items()) if prepend else ()
    if prepend:
        table.clear()
    table[handle.id] = hook
    table.update(others)
    return handle


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` with the hooks around it, unless it is called by the ``step`` of a derived class."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._in_step:
            return step(self, *args, **kwargs)
        if recorders and (recorder := recording()) is not None:
            return recorder.repeated(functools.partial(hooked, self, *args, **kwargs))
        self._in_step = self._opt_called = True
        try:
            for hook in (*_every_step_before.values(), *self._step_pre_hooks.values()):
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        f"a hook before {type(self).__name__}.step() must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {changed}."
                    )
                args, kwargs = changed
            result = step(self, *args, **kwargs)
            for hook in (*self._step_post_hooks.values(), *_every_step_after.values()):
                hook(self, args, kwargs)
        finally:
            self._in_step = False
        return result

    return hooked


class Optimizer(KeywordHints):
    """Base class of the optimizers.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor (such as ``Module.named_parameters`` yields), or dicts: groups with
        tensors or pairs under ``"params"`` and options of their own.
    defaults : dict
        Options of groups that do not set them.

    Attributes
    ----------
    param_groups : list of dict
        The groups: tensors under ``"params"``, options under their names. Options may be changed between steps.
    state : dict
        For each parameter a dict of what the optimizer keeps of it.

    Raises
    ------
    ValueError
        If there is no parameter, a parameter is in several groups, or is not a leaf of the graph.
    TypeError
        If ``params`` is a tensor or a set, or contains something other than tensors.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    >>> optimizer = nn.optim.SGD(
    ...     [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 1e-2}],
    ...     lr=1e-3,
    ...     momentum=0.9,
    ... )
    >>> for x, y in [(tensor.randn(16, 4), tensor.randn(16, 1))]:
    ...     optimizer.zero_grad()
    ...     nn.functional.mse_loss(model(x), y).backward()
    ...     optimizer.step()
    """

    #: What changes with each step, which compiled functions do not read: they call the steps, each at its place.
    keeps_books: ClassVar[frozenset[str]] = frozenset({"param_groups", "state", "defaults", "state_dict"})
    _in_step = False
    #: Whether ``step`` was called, which schedulers ask.
    _opt_called: bool
    #: Options that older state dicts may lack.
    absent: ClassVar[dict[str, Any]] = {"maximize": False, "foreach": None, "differentiable": False}
    #: States that are numbers on the host, of which the factors of a step are computed there.
    on_host: ClassVar[tuple[str, ...]] = ("step",)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _with_hooks(vars(cls)["step"])  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self._make_hook_tables()
        self.defaults = defaults
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{_type_name(params)}"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        self._step_pre_hooks = HookTable()
        self._step_post_hooks = HookTable()
        self._state_dict_pre_hooks = HookTable()
        self._state_dict_post_hooks = HookTable()
        self._load_pre_hooks = HookTable()
        self._load_post_hooks = HookTable()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_step_pre_hooks" not in self.__dict__:
            self._make_hook_tables()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self.absent.items():
                if name in self.defaults:
                    group.setdefault(name, value)
        for values in self.state.values():
            step = values.get("step") if isinstance(values, dict) else None
            if step is not None and not isinstance(step, Tensor):
                values["step"] = count(float(step))

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join(f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params")
        return text + ")"

    # Groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, such as those of a layer that is trained from now on.

        Parameters
        ----------
        param_group : dict
            A tensor, tensors, or pairs of names and tensors under ``"params"``; options under their names.

        Raises
        ------
        TypeError
            If ``param_group`` is not a dict, or contains something other than tensors.
        ValueError
            If a parameter is in another group, is not a leaf of the graph, a required option is missing, or only some
            groups have names.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        names, params = _names_and_tensors(param_group["params"])
        for each in params:
            if not isinstance(each, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {_type_name(each)}"
                )
            if not (each.is_leaf or each.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
        taken = {id(each) for group in self.param_groups for each in group["params"]}
        distinct = {id(each) for each in params}
        if len(distinct) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: each of them is updated as often as it is "
                "listed",
                stacklevel=3,
            )
        if any(("param_names" in group) != bool(names) for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if names else 'without'} names to the optimizer"
            )
        if taken & distinct:
            raise ValueError("some parameters appear in more than one parameter group")
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for name, value in self.defaults.items():
            param_group.setdefault(name, value)
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters: to ``None``, or to zeros if ``set_to_none`` is False.

        Zeros are written to the present gradients, which keep their shapes and dtypes, and are detached from their graphs.
        With ``None`` their memory is given back, and :meth:`step` leaves out parameters that got no gradient since.
        """
        if recorders and (recorder := recording()) is not None:
            every = [each for group in self.param_groups for each in group["params"]]
            clearing = functools.partial(Optimizer.zero_grad, self, set_to_none)
            recorder.repeated(clearing, clears=every if set_to_none else ())
            return
        for group in self.param_groups:
            for each in group["params"]:
                grad = each.grad
                if grad is None:
                    continue
                if set_to_none:
                    each.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients. Subclasses define it; here NotImplementedError is raised.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients anew, and returns the loss.

        Returns
        -------
        What ``closure`` returned, or ``None``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    # State dicts

    def state_dict(self) -> dict[str, Any]:
        """A dict ``{"state": ..., "param_groups": ...}`` for :meth:`load_state_dict`, with PyTorch's layout.

        Parameters are numbered in the order of the groups. The tensors share memory with the optimizer's.
        """
        for hook in self._state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            for number, each in enumerate(group["params"], start):
                numbers.setdefault(id(each), number)
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(each)] for each in group["params"]]
            start += len(packed["params"])
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()
        }
        state_dict: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_dict_post_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore ``state_dict``, of this library or of PyTorch.

        Its tensors are copied to the parameters' devices and dtypes.

        Raises
        ------
        ValueError
            If groups or numbers of parameters differ from this optimizer's; nothing was changed then.
        """
        state_dict = state_dict.copy()
        for hook in self._load_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)}, this optimizer has "
                f"{len(groups)}"
            )
        for number, (group, loaded) in enumerate(zip(groups, saved, strict=True)):
            if len(group["params"]) != len(loaded["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: group "
                    f"{number} has {len(loaded['params'])} parameters there, {len(group['params'])} here"
                )
        parameters = {
            key: each
            for group, loaded in zip(groups, saved, strict=True)
            for key, each in zip(loaded["params"], group["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in parameters:
                state[parameters[key]] = _adapted(parameters[key], value, self.on_host)
            else:
                state[key] = value
        for group, loaded in zip(groups, saved, strict=True):
            loaded["params"] = group["params"]
            if "param_names" in group:
                loaded.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._load_post_hooks.values():
            hook(self)

    # Hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; if it returns a pair, that replaces both.

        Returns a handle, whose ``remove()`` removes the hook; raises TypeError if it is not callable. So do the
        methods below.
        """
        return _add(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step.

        Returns a handle, whose ``remove()`` removes the hook; raises TypeError if it is not callable.
        """
        return _add(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before :meth:`state_dict`; before the other hooks if ``prepend``.

        Returns a handle, whose ``remove()`` removes the hook; raises TypeError if it is not callable.
        """
        return _add(self._state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after :meth:`state_dict`; if it returns a dict, that is the result.

        With ``prepend`` it runs before the other hooks. Returns a handle, whose ``remove()`` removes the hook; raises
        TypeError if it is not callable.
        """
        return _add(self._state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before :meth:`load_state_dict`; a dict as its result is loaded instead.

        With ``prepend`` it runs before the other hooks. Returns a handle, whose ``remove()`` removes the hook; raises
        TypeError if it is not callable.
        """
        return _add(self._load_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after :meth:`load_state_dict`.

        With ``prepend`` it runs before the other hooks. Returns a handle, whose ``remove()`` removes the hook; raises
        TypeError if it is not callable.
        """
        return _add(self._load_post_hooks, hook, prepend=prepend)


def count(value: float = 0.0) -> Tensor:
    """A CPU scalar for a number of steps, or another of ``on_host``, as state dicts hold it."""
    dtype = tensor.float64 if tensor.get_default_dtype() is tensor.float64 else tensor.float32
    return tensor.tensor(value, dtype=dtype, device="cpu")


def _names_and_tensors(params: Any) -> tuple[list[str], list[Any]]:
    if isinstance(params, Tensor):
        return [], [params]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will "
            "change between runs. Please use a list instead."
        )
    listed = list(params)
    names = [each[0] for each in listed if isinstance(each, tuple)]
    if names and len(names) != len(listed):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return names, [each[1] for each in listed] if names else listed


def _adapted(parameter: Tensor, value: Any, on_host: tuple[str, ...], key: Any = None) -> Any:
    """A copy of a parameter's loaded state, with the parameter's device and dtype."""
    if isinstance(value, Tensor):
        value = value.detach()
        if key in on_host:
            return value.to(device="cpu", copy=True)
        dtype = parameter.dtype if parameter.is_floating_point() else value.dtype
        if value.shape == parameter.shape:
            # In the parameter's own order, so that steps need no copies.
            return tensor.empty_like(parameter, dtype=dtype, requires_grad=False).copy_(value)
        return value.to(device=parameter.device, dtype=dtype, copy=True)
    if isinstance(value, dict):
        return {name: _adapted(parameter, each, on_host, name) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_adapted(parameter, each, on_host) for each in value)
    return value


def _type_name(value: Any) -> str:
    cls = type(value)
    return f"{cls.__module__}.{cls.__qualname__}" if cls.__module__ != "builtins" else cls.__qualname__
