"""``LazyModuleMixin``: modules that infer the shapes of their parameters from their first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.parameter import is_lazy

from .module import Module

if TYPE_CHECKING:
    from typing import NoReturn


class LazyModuleMixin(Module):
    """Mixin of modules that infer the shapes of their parameters at the first call, and become another class then.

    Derive from it first and from the module second; register parameters as :class:`~nn.UninitializedParameter`,
    buffers as :class:`~nn.UninitializedBuffer`, and define :meth:`initialize_parameters`. Move and convert the module
    as any other, call it once, and only then pass its parameters to an optimizer. State dicts with initialized and
    with uninitialized parameters can be loaded before the first call.

    Attributes
    ----------
    cls_to_become : type or None
        The class of the module after its first call.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize and initialize all parameters and buffers, from the arguments of the first call; subclasses define it.

        Raises
        ------
        NotImplementedError
            If the subclass does not define it.
        """
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}: define it, as every lazy module does"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of the module itself, not of submodules, has no shape yet."""
        return any(is_lazy(each) for table in (self._parameters, self._buffers) for each in table.values())

    def _infer_parameters(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        """Forward pre-hook of the first call."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {module._get_name()} has not been fully initialized: its initialize_parameters() left a parameter "
                "or buffer without a shape"
            )
        hooks = module._forward_pre_hooks
        for number in [number for number, hook in hooks.items() if hook.function == module._infer_parameters]:
            del hooks[number]
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # Uninitialized tensors are saved as they are: there is nothing to detach.
        super()._save_to_state_dict(destination, prefix, True)
        if not keep_vars:
            for table in (self._parameters, self._buffers):
                for name, each in table.items():
                    if each is not None and prefix + name in destination and not is_lazy(each):
                        destination[prefix + name] = each.detach()

    def _replicate_for_data_parallel(self) -> NoReturn:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to correctly "
            "initialize the modules"
        )
