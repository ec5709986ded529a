"""Which modules inside a model :class:`parallel.fsdp.FullyShardedDataParallel` wraps: policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import Module, ModuleDict, ModuleList, MultiheadAttention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    #: Says whether to look inside a module (``recurse``), or whether to wrap it.
    Policy = Callable[..., Any]

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]


class ModuleWrapPolicy:
    """Wrap the modules of some classes.

    >>> policy = parallel.fsdp.wrap.ModuleWrapPolicy({nn.TransformerEncoderLayer})

    Parameters
    ----------
    module_classes : iterable of type
        The classes.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Whether to look inside ``module``, always, or to wrap it."""
        return recurse or isinstance(module, self._classes)


class CustomPolicy:
    """Wrap the modules that a function says.

    Parameters
    ----------
    lambda_fn : callable
        Called with each module; returns a bool, or a dict: arguments for the wrapper in place of the others.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._function = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        """Whether to look inside ``module``, always, or to wrap it."""
        return recurse or self._function(module)


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every module.

    Parameters
    ----------
    *args, **kwargs
        Of a policy.

    Returns
    -------
    bool
        True.
    """
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Wrap the modules for which a function returns True; ``functools.partial`` gives it that.

    Parameters
    ----------
    module : Module
        The module in question.
    recurse : bool
        Whether the question is to look inside it.
    nonwrapped_numel : int
        Elements of its parameters that no module inside wraps.
    lambda_fn : callable
        Called with the module.

    Returns
    -------
    bool
    """
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type[Module]]
) -> bool:
    """Wrap the layers of a transformer; ``functools.partial`` names their classes.

    Parameters
    ----------
    module, recurse, nonwrapped_numel
        See :func:`lambda_auto_wrap_policy`.
    transformer_layer_cls : set of type
        The classes of the layers.

    Returns
    -------
    bool
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Wrap modules with many elements of parameters.

    Parameters
    ----------
    module, recurse, nonwrapped_numel
        See :func:`lambda_auto_wrap_policy`.
    min_num_params : int
        Elements from which on a module is wrapped.
    force_leaf_modules : set of type, optional
        Classes inside of which nothing is wrapped; :class:`nn.MultiheadAttention` by default.
    exclude_wrap_modules : set of type, optional
        Classes that are not wrapped themselves; :class:`nn.ModuleList` and :class:`nn.ModuleDict` by default.

    Returns
    -------
    bool
    """
    leaves = {MultiheadAttention} if force_leaf_modules is None else force_leaf_modules
    excluded = {ModuleList, ModuleDict} if exclude_wrap_modules is None else exclude_wrap_modules
    others = leaves if recurse else excluded
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(others))


def wrap_inside(module: Module, policy: Policy, wrapper: Callable[..., Module], ignored: set[int]) -> None:
    """Replace modules inside ``module`` by wrapped ones, from the innermost on, as ``policy`` says."""
    _wrapped(module, policy, wrapper, ignored, is_outermost=True)


def _wrapped(
    module: Module,
    policy: Policy,
    wrapper: Callable[..., Module],
    ignored: set[int],
    *,
    is_outermost: bool = False,
) -> tuple[Module, int]:
    """The module, or what wraps it; and how many elements are wrapped by now."""
    count = sum(each.numel() for each in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=count):
        return module, 0
    inside = 0
    for name, child in list(module._modules.items()):
        if child is not None and id(child) not in ignored:
            other, elements = _wrapped(child, policy, wrapper, ignored)
            inside += elements
            if other is not child:
                module._modules[name] = other
    answer = not is_outermost and policy(module=module, recurse=False, nonwrapped_numel=count - inside)
    if not answer or not count:
        return module, inside
    return wrapper(module, **(answer if isinstance(answer, dict) else {})), count
