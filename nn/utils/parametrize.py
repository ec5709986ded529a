"""Parametrizations: parameters and buffers that are computed from others whenever they are read.

A module with a parametrized tensor gets a class of its own, with a property in the tensor's place, and a submodule
``parametrizations`` that holds a :class:`ParametrizationList` under the tensor's name.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nn.layers.containers import ModuleDict, ModuleList
from nn.parameter import Parameter
from tensor import Tensor, no_grad
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nn.module import Module

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache:
    """Values of parametrized tensors inside :func:`cached`."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Context manager in which every parametrized tensor is computed once, when it is first read.

    Examples
    --------
    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8))
    >>> x = tensor.randn(2, 8)
    >>> with nn.utils.parametrize.cached():
    ...     for _ in range(10):
    ...         x = layer(x).tanh()  # the weight is computed once
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


class ParametrizationList(ModuleList):
    """The original tensor(s) of a parametrized tensor, and the modules that compute it one after another.

    Parameters
    ----------
    modules : sequence of Module
        The parametrizations. Their ``right_inverse``, where they have one, computes the originals.
    original : Tensor
        The tensor to parametrize. It is registered as ``original``; a right inverse that returns several tensors
        makes them ``original0``, ``original1``, ...
    unsafe : bool
        Whether shape and dtype may change.

    Raises
    ------
    ValueError
        If shape or dtype change without ``unsafe``, or a right inverse returns something other than tensors.
    """

    original: Any

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            inverse = self._inverted(original)
        self.is_tensor = isinstance(inverse, Tensor)
        self.ntensors = 1 if self.is_tensor else len(inverse)
        if self.is_tensor:
            if inverse.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {inverse.dtype}"
                )
            if inverse.device != original.device:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the device.\n"
                    f"original.device: {original.device}\nright_inverse(original).device: {inverse.device}"
                )
            _register(self, "original", original)
        else:
            for number, each in enumerate(inverse):
                value = (
                    Parameter(each, original.requires_grad)
                    if isinstance(original, Parameter)
                    else each.detach()
                )
                _register(self, f"original{number}", value)
        if not unsafe:
            # Before anything is changed.
            result = self._computed(inverse if self.is_tensor else tuple(inverse))
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            for attribute, before, after in (
                ("dtype", dtype, result.dtype),
                ("shape", shape, result.shape),
            ):
                if before != after:
                    raise ValueError(
                        f"Registering a parametrization may not change the {attribute} of the tensor, unless `unsafe` flag is "
                        f"enabled.\nunparametrized {attribute}: {before}\nparametrized {attribute}: {after}"
                    )
        if self.is_tensor and inverse is not original:
            # The very object, which an optimizer may know, shows the new elements.
            original.data = inverse.detach()

    def _inverted(self, value: Any) -> Any:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    continue
                if not isinstance(value, (Tensor, Sequence)):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                        f"{type(value).__name__}"
                    )
        if not isinstance(value, Tensor):
            for number, each in enumerate(value):
                if not isinstance(each, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{number} of the sequence with type {type(each).__name__}."
                    )
        return value

    def _computed(self, originals: Any) -> Any:
        modules = iter(self)
        first = next(modules)
        value = first(originals) if self.is_tensor else first(*originals)
        for module in modules:
            value = module(value)
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes ``value``, as far as the right inverses allow.

        Raises
        ------
        RuntimeError
            If a parametrization has no ``right_inverse``.
        ValueError
            If the right inverses return tensors of other shapes or dtypes than the originals, or another number of
            them.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                self.original.data = value.detach()
                return
            if not isinstance(value, Sequence):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
                )
            if len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            for number, each in enumerate(value):
                original = getattr(self, f"original{number}")
                if not isinstance(each, Tensor) or each.dtype != original.dtype:
                    raise ValueError(
                        f"Tensor {number} returned by `right_inverse` does not fit `original{number}` of dtype {original.dtype}"
                    )
            for number, each in enumerate(value):
                getattr(self, f"original{number}").data = each.detach()

    def forward(self) -> Tensor:
        """Compute the tensor: the parametrizations, one after another, of the originals.

        Returns
        -------
        Tensor
            What takes the place of the parameter, as a function of the originals, to which gradients flow.
        """
        if self.is_tensor:
            value: Tensor = self._computed(self.original)
        else:
            value = self._computed([getattr(self, f"original{number}") for number in range(self.ntensors)])
        return value


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _parametrized_class(module: Module) -> None:
    """Give ``module`` a class of its own, for properties."""
    cls = type(module)

    def no_state(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(): save that, and make the "
            "module anew"
        )

    def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
        copied = self.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        _own_class(copied)
        return copied

    attributes: dict[str, Any] = {"__getstate__": no_state}
    if not hasattr(cls, "__deepcopy__"):
        attributes["__deepcopy__"] = deep_copy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), attributes)


def _own_class(module: Module) -> None:
    """Give a copied module a class other than that of the module it was copied from."""
    cls = type(module)
    module.__class__ = type(cls.__name__, cls.__bases__, dict(vars(cls)))


def _property(module: Module, name: str) -> None:
    def compute(self: Any) -> Tensor:
        parametrization: ParametrizationList = self.parametrizations[name]
        if not _cache.depth:
            return parametrization.forward()
        key = (id(self), name)
        if key not in _cache.values:
            _cache.values[key] = parametrization.forward()
        return _cache.values[key]

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(compute, assign))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Parametrize a tensor: from now on it is ``parametrization(original)`` whenever it is read.

    Parameters
    ----------
    module : Module
        Module with the tensor.
    tensor_name : str
        Name of a parameter or buffer. If it is parametrized already, ``parametrization`` is applied after the others.
    parametrization : Module
        Called with the original. With a method ``right_inverse`` the original is initialized to what that returns for
        the tensor, and the tensor can be assigned.
    unsafe : bool
        Whether shape and dtype may change.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If there is no such tensor, or its shape or dtype would change; nothing was changed then.

    Examples
    --------
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.Linear(5, 5)
    >>> _ = nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _parametrized_class(module)
            module.parametrizations = ModuleDict()
        _property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def _append(module: Module, tensor_name: str, parametrization: Module, unsafe: bool) -> None:
    parametrizations: ParametrizationList = module.parametrizations[tensor_name]
    if not unsafe:
        with no_grad():
            value = getattr(module, tensor_name)
            result = parametrization(value)
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            for attribute, before, after in (
                ("dtype", value.dtype, result.dtype),
                ("shape", value.shape, result.shape),
            ):
                if before != after:
                    raise ValueError(
                        f"Registering a parametrization may not change the {attribute} of the tensor, unless the `unsafe` flag "
                        f"is enabled.\nmodule.{tensor_name}.{attribute}: {before}\n"
                        f"parametrization(module.{tensor_name}).{attribute}: {after}"
                    )
    parametrizations.append(parametrization)
    parametrizations.unsafe |= unsafe


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether ``module`` has a parametrized tensor, or, with ``tensor_name``, whether that one is parametrized.

    Examples
    --------
    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))
    >>> nn.utils.parametrize.is_parametrized(layer), nn.utils.parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return bool(len(parametrizations)) if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Turn a parametrized tensor back into a parameter or buffer.

    Parameters
    ----------
    module : Module
        Module with the tensor.
    tensor_name : str
        Its name.
    leave_parametrized : bool
        Whether it keeps its current value instead of the original's.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If it is not parametrized, or has several originals and ``leave_parametrized`` is False.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: ParametrizationList = module.parametrizations[tensor_name]
    if not leave_parametrized and not parametrizations.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    original = parametrizations.original if parametrizations.is_tensor else parametrizations.original0
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if parametrizations.is_tensor and value.dtype == original.dtype:
            original.data = value
        else:
            original = Parameter(value, original.requires_grad) if isinstance(original, Parameter) else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module without its parametrizations.

    A parametrized module has a class of its own, derived from this one; another module has this one itself.
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations of a module, or of one of its tensors, with their originals to another module.

    Parameters
    ----------
    from_module, to_module : Module
        Source and target.
    tensor_name : str, optional
        The tensor; all parametrized ones by default.

    Returns
    -------
    Module
        ``to_module``.

    Raises
    ------
    ValueError
        If the module, or the tensor, is not parametrized.
    """
    names = list(from_module.parametrizations) if is_parametrized(from_module) else []
    if tensor_name is not None:
        names = [name for name in names if name == tensor_name]
    if not names:
        raise ValueError(f"{from_module} has no parametrized tensor to transfer")
    for name in names:
        source: ParametrizationList = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            _register(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for each in source:
            register_parametrization(to_module, name, copy.deepcopy(each), unsafe=True)
        target: ParametrizationList = to_module.parametrizations[name]
        keys = (
            ["original"] if source.is_tensor else [f"original{number}" for number in range(source.ntensors)]
        )
        for key in keys:
            getattr(target, key).data = getattr(source, key).detach().clone()
    return to_module


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
