"""The tensors and modules that a module consists of, by name and by turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from nn.parameter import Parameter

from .base import ModuleBase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tensor import Tensor

    from .module import Module


class Members(ModuleBase):
    """The methods of a :class:`~nn.Module` that go through its members."""

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """All modules of the tree, this one first, with their path.

        Parameters
        ----------
        memo
            Modules that are left out; those that were gone through are added.
        prefix
            What the paths begin with.
        remove_duplicate
            Whether a module that is found twice counts once.
        """
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """All modules of the tree, this one first; each counts once unless ``remove_duplicate`` is False."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names; each counts once."""
        memo = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct submodules; each counts once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        memo: set[Any] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in memo:
                    continue
                if remove_duplicate:
                    memo.add(value)
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their paths, which begin with ``prefix``.

        Parameters
        ----------
        recurse
            Whether those of submodules too.
        remove_duplicate
            Whether a parameter that is found twice counts once.
        """
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, those of submodules too if ``recurse``; each counts once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths; the arguments are those of :meth:`named_parameters`."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, those of submodules too if ``recurse``; each counts once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # By path

    def get_submodule(self, target: str) -> Module:
        """The submodule at the path ``target``, such as ``"encoder.0.norm"``; this module for ``""``.

        Raises
        ------
        AttributeError
            If there is none.
        """
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{found._get_name()} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, ModuleBase):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` at the path ``target``.

        Parameters
        ----------
        strict
            Whether there must be a module already; otherwise a new name at the end of the path is made.

        Raises
        ------
        ValueError
            If the path is empty, or ``module`` is no module.
        AttributeError
            If the path leads through, or to, what is no module.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleBase):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleBase):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the path ``target``, such as ``"encoder.0.weight"``.

        Raises
        ------
        AttributeError
            If there is none.
        """
        module, name = self._owner(target)
        found = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the path ``target``, such as ``"encoder.0.running_mean"``.

        Raises
        ------
        AttributeError
            If there is none.
        """
        module, name = self._owner(target)
        found = module._buffers.get(name)
        if found is None:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _owner(self, target: str) -> tuple[Module, str]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name

    # For all of them

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn(module)`` for all submodules, children before parents, and for this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)  # type: ignore[arg-type]
        return self

    def train(self, mode: bool = True) -> Self:
        """Let this module and its submodules behave as in training, or as in use if not ``mode``.

        Raises
        ------
        ValueError
            If ``mode`` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(
                f"training mode is expected to be boolean, got {type(mode).__name__}: call train(True) or train(False)"
            )
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say for all parameters whether they are trained."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero if not ``set_to_none``."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()
