"""``Module``: the base class of all layers and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import tensor
from nn.parameter import Buffer, Parameter
from tensor import Tensor, empty, empty_like
from tensor.core.names.absent import missing_attribute
from tensor.core.names.keyword_hints import KeywordHints
from tensor.utils.hooks import HookTable, RemovableHandle

from . import hooks, notebook, state
from .hooks import BUFFER, MODULE, PARAMETER, Hook, every_module, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .state import IncompatibleKeys

#: Tables that a module has in its ``__dict__``, in the order in which names are looked up.
_TABLES = ("_parameters", "_buffers", "_modules")


def _named_in(attributes: Mapping[str, Any]) -> list[str]:
    """The names in the tables of a module's ``__dict__``."""
    return [name for table in _TABLES for name in attributes.get(table, ())]


class Module(KeywordHints):
    """Base class of layers and models: a callable with parameters, buffers and submodules.

    Derive a class, call ``super().__init__()`` first, assign parameters and modules to attributes, and define
    ``forward``. A :class:`~nn.Parameter`, a :class:`~nn.Buffer` or a Module that is assigned to an attribute is
    registered under its name, so that :meth:`parameters`, :meth:`state_dict`, :meth:`to` and the like include it.

    Attributes
    ----------
    training : bool
        Whether the module is in training mode, which dropout and batch normalization depend on; see :meth:`train`.

    Raises
    ------
    TypeError
        If arguments are passed, unless ``call_super_init`` is set, where they go to the next class.

    Examples
    --------
    >>> class Residual(nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.linear = nn.Linear(size, size)
    ...
    ...     def forward(self, x):
    ...         return x + self.linear(x).relu()
    >>> model = Residual(8).to(tensor.float64)
    >>> [name for name, _ in model.named_parameters()]
    ['linear.weight', 'linear.bias']
    """

    #: Version of the layout of the module's own entries in a state dict, kept in its metadata.
    _version: int = 1
    #: Whether ``__init__`` calls that of the next class after Module in the method resolution order, with its arguments.
    call_super_init: ClassVar[bool] = False
    #: What a call depends on besides the module: what is compiled is guarded by it, too.
    _calls_depend_on: ClassVar[tuple[Any, ...]] = (every_module,)

    training: bool
    # By name; ``None`` reserves a name.
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    #: Names of buffers that are not part of the state dict.
    _non_persistent_buffers_set: set[str]
    _backward_pre_hooks: HookTable
    _backward_hooks: HookTable
    #: ``None`` without backward hooks; else whether they are full ones, not deprecated non-full ones.
    _is_full_backward_hook: bool | None
    _forward_hooks: HookTable
    _forward_pre_hooks: HookTable
    _state_dict_hooks: HookTable
    _state_dict_pre_hooks: HookTable
    _load_state_dict_pre_hooks: HookTable
    _load_state_dict_post_hooks: HookTable

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            name = f"{type(self).__name__}.__init__()"
            raise TypeError(
                f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"{name} takes 1 positional argument but {len(args) + 1} were given"
            )
        _set_up(self.__dict__)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        _set_up(self.__dict__)
        self.__dict__.update(state)

    # Calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; every subclass defines it.

        Call the module itself and not this method, which runs no hooks.

        Raises
        ------
        NotImplementedError
            If the subclass does not define it.
        """
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``forward``, with the hooks before and after it."""
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or every_module
        ):
            return hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile :meth:`forward`, with the arguments of :func:`tensor.compile`, and what that raises.

        >>> model = nn.Linear(2, 2)
        >>> model.compile()
        >>> model(tensor.ones(3, 2)).shape
        tensor.Size([3, 2])
        """
        tensor.compile(self, *args, **kwargs)

    # Registering

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, which is then the attribute ``name`` too. ``None`` reserves the name.

        Raises
        ------
        AttributeError
            If called before ``Module.__init__()``.
        TypeError
            If ``name`` is not a string, or ``param`` is not a Parameter.
        KeyError
            If ``name`` contains a dot, is empty, or is an attribute already.
        ValueError
            If ``param`` is not a leaf of the graph.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_type_name(param)}' object to parameter '{name}' (nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
        self._parameters[name] = registered(self, PARAMETER, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but is not trained, such as a running mean; it is then the attribute ``name`` too.

        Parameters
        ----------
        tensor
            ``None`` reserves the name.
        persistent
            Whether the buffer is part of the state dict.

        Raises
        ------
        AttributeError
            If called before ``Module.__init__()``.
        TypeError
            If ``name`` is not a string, or ``tensor`` is not a Tensor.
        KeyError
            If ``name`` contains a dot, is empty, or is an attribute already.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' (tensor.Tensor or None required)"
            )
        self._buffers[name] = registered(self, BUFFER, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, which is then the attribute ``name`` too. ``None`` reserves the name.

        Raises
        ------
        AttributeError
            If called before ``Module.__init__()``.
        TypeError
            If ``name`` is not a string, or ``module`` is not a Module.
        KeyError
            If ``name`` contains a dot, is empty, or is an attribute already.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        if "_modules" not in self.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        self._check_name("module", name, self._modules)
        self._modules[name] = registered(self, MODULE, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Register ``module`` as the submodule ``name``: an alias of :meth:`add_module`, whose errors it raises."""
        self.add_module(name, module)

    def _check_name(self, role: str, name: Any, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{role} name should be a string. Got {_type_name(name)}")
        if "." in name:
            raise KeyError(f'{role} name can\'t contain ".", got: "{name}"')
        if name == "":
            raise KeyError(f'{role} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # Attributes

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        for table in _TABLES:
            members = attributes.get(table)
            if members is not None and name in members:
                return members[name]
        raise missing_attribute(self, name, "nn.Module", _named_in(attributes))

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in attributes:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._remove_name(name, "_parameters")
            self.register_parameter(name, value)
        elif "_parameters" in attributes and name in attributes["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' (nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if "_modules" not in attributes:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._remove_name(name, "_modules")
            attributes["_modules"][name] = registered(self, MODULE, name, value)
        elif "_modules" in attributes and name in attributes["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' (nn.Module or None expected)"
                )
            attributes["_modules"][name] = None
        elif isinstance(value, Buffer):
            if "_buffers" not in attributes:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self.register_buffer(name, value, value.persistent)
        elif "_buffers" in attributes and name in attributes["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' (nn.Buffer, tensor.Tensor or None expected)"
                )
            attributes["_buffers"][name] = registered(self, BUFFER, name, value)
        else:
            super().__setattr__(name, value)

    def _remove_name(self, name: str, table_to_keep: str) -> None:
        """Remove ``name`` from the attributes and from every table but one."""
        attributes = self.__dict__
        attributes.pop(name, None)
        for table in _TABLES:
            if table != table_to_keep:
                attributes[table].pop(name, None)
        attributes["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        attributes = self.__dict__
        for table in _TABLES:
            if name in attributes.get(table, ()):
                del attributes[table][name]
                attributes["_non_persistent_buffers_set"].discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules}
        # A submodule of a list is named by its index, which is no attribute.
        return sorted(name for name in names if not name[:1].isdigit())

    # Submodules, parameters and buffers

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over this module and all its descendants as (path, module), parents before children.

        Parameters
        ----------
        memo
            Modules to leave out; those that are yielded are added to it.
        prefix
            What the paths begin with.
        remove_duplicate
            Whether a module that is registered several times is yielded once.
        """
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and all its descendants; each is yielded once unless ``remove_duplicate`` is False.

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> [type(module).__name__ for module in model.modules()]
        ['Sequential', 'Linear', 'ReLU']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over the direct submodules as (name, module); each is yielded once.

        Examples
        --------
        >>> [name for name, _ in nn.Sequential(nn.Linear(2, 2), nn.ReLU()).named_children()]
        ['0', '1']
        """
        memo = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Iterate over the direct submodules; each is yielded once.

        In the order of registration, without names (:meth:`named_children` has them) and without the modules inside them
        (:meth:`modules`).
        """
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
        """Iterate over the parameters as (path, parameter).

        Parameters
        ----------
        prefix
            What the paths begin with.
        recurse
            Whether to include the parameters of submodules.
        remove_duplicate
            Whether a parameter that is registered several times (weight sharing) is yielded once.

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        >>> [name for name, _ in model.named_parameters()]
        ['0.weight', '0.bias']
        """
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, those of submodules too if ``recurse``; each is yielded once.

        Examples
        --------
        >>> sum(parameter.numel() for parameter in nn.Linear(4, 2).parameters())
        10
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the buffers as (path, buffer). The parameters are those of :meth:`named_parameters`.

        Parameters
        ----------
        prefix, recurse, remove_duplicate
            See :meth:`named_parameters`.
        """
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, those of submodules too if ``recurse``; each is yielded once.

        Those of the module come first, in the order of registration. :meth:`named_buffers` has their names.
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The submodule at the path ``target``, such as ``"encoder.0.norm"``; this module for ``""``.

        Raises
        ------
        AttributeError
            If a name on the path is no attribute, or is not a Module.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace or add the submodule at the path ``target``.

        Parameters
        ----------
        strict
            Whether there must be a submodule to replace; otherwise the last name of the path may be new.

        Raises
        ------
        ValueError
            If the path is empty, or ``module`` is not a Module.
        AttributeError
            If a name on the path is no attribute, or is not a Module.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the path ``target``, such as ``"encoder.0.weight"``.

        Raises
        ------
        AttributeError
            If a name on the path is no attribute, or the last is not a Parameter.
        """
        module, name = self._parent_of(target)
        parameter = getattr(module, name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the path ``target``, such as ``"encoder.0.running_mean"``.

        Raises
        ------
        AttributeError
            If a name on the path is no attribute, or the last is not a buffer.
        """
        module, name = self._parent_of(target)
        buffer = module._buffers.get(name)
        if buffer is None:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    def _parent_of(self, target: str) -> tuple[Module, str]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name

    # The whole tree of modules

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn(module)`` on every descendant, children before parents, and on this module; returns this module.

        Examples
        --------
        >>> def initialize(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.normal_(module.weight, std=0.02)
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).apply(initialize)
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set this module and all its descendants to training mode, or to evaluation mode if ``mode`` is False.

        Raises
        ------
        ValueError
            If ``mode`` is not a bool.
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
        """Set evaluation mode: ``train(False)``. Returns the module.

        It does not disable gradients; see :func:`tensor.no_grad`.
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of every parameter, such as to freeze a pretrained model. Returns the module.

        Examples
        --------
        >>> model = nn.Linear(4, 2).requires_grad_(False)
        >>> model.weight.requires_grad
        False
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of every parameter: to ``None``, or to zeros if ``set_to_none`` is False.

        Zeros are written to the present gradients, which keep their shapes and dtypes, and are detached from their graphs.
        With ``None`` their memory is given back, and an optimizer leaves out parameters that got no gradient since.
        """
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

    # Moving and converting. Parameters remain the same objects, so that optimizers go on with them.

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter, of its gradient, and every buffer by ``fn`` of it."""
        if recurse:
            for module in self._modules.values():
                if module is not None:
                    module._apply(fn)
        with tensor.no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                grad = parameter.grad
                # Both first: a failure leaves the parameter as it was.
                data = fn(parameter.data)
                new_grad = None if grad is None else fn(grad.data).requires_grad_(grad.requires_grad)
                parameter.grad = None
                parameter.data = data
                parameter.grad = new_grad
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(
        self,
        *args: Any,
        device: Any = None,
        dtype: tensor.dtype | None = None,
        non_blocking: bool = False,
        memory_format: tensor.memory_format | None = None,
    ) -> Self:
        """Move and convert all parameters and buffers, in place.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` and ``to(other)``, each followed by ``non_blocking``.
        Only floating point and complex tensors change their dtype.

        Parameters
        ----------
        non_blocking
            Whether a copy from pinned host memory is only queued on the current stream.
        memory_format
            Order in memory of parameters and buffers with 4 or 5 dimensions.

        Raises
        ------
        TypeError
            If ``dtype`` is neither floating point nor complex.

        Examples
        --------
        >>> model = nn.Conv2d(3, 8, 3).to("cpu", tensor.bfloat16)
        >>> model.weight.dtype
        tensor.bfloat16
        >>> model.to(memory_format=tensor.channels_last).weight.stride()
        (27, 1, 9, 3)
        """
        if args:
            device, dtype, non_blocking = _positional(args, device, dtype, non_blocking)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(old: Tensor) -> Tensor:
            new_dtype = dtype if old.is_floating_point() or old.is_complex() else None
            if memory_format is not None and old.dim() in (4, 5):
                return old.to(
                    device=device, dtype=new_dtype, non_blocking=non_blocking, memory_format=memory_format
                )
            return old.to(device=device, dtype=new_dtype, non_blocking=non_blocking)

        return self._apply(convert)

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a CUDA device, by default the current one, in place. Returns the module.

        Raises RuntimeError if there is no driver or no device, and ValueError for one that does not exist.
        """
        return self._apply(lambda old: old.cuda(device))

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU, in place. Returns the module.

        Gradients move too. Parameters remain the same objects, so that an optimizer which has them goes on.
        """
        return self._apply(lambda old: old.cpu())

    def type(self, dst_type: tensor.dtype | str) -> Self:
        """Convert all parameters and buffers to ``dst_type``, a dtype or its name, in place. Returns the module.

        Integers are converted too. Raises ValueError for a name that is not that of a type.
        """
        return self._apply(lambda old: old.type(dst_type))

    def float(self) -> Self:
        """Convert floating point parameters and buffers to float32, in place. Returns the module.

        Gradients are converted too; integers, bools and complex numbers stay as they are. Parameters remain the same objects.
        """
        return self._to_floating(tensor.float32)

    def double(self) -> Self:
        """Convert floating point parameters and buffers to float64, in place. Returns the module.

        Gradients are converted too; integers, bools and complex numbers stay as they are. Parameters remain the same objects.
        """
        return self._to_floating(tensor.float64)

    def half(self) -> Self:
        """Convert floating point parameters and buffers to float16, in place. Returns the module.

        Gradients are converted too; integers, bools and complex numbers stay as they are. Parameters remain the same objects.
        """
        return self._to_floating(tensor.float16)

    def bfloat16(self) -> Self:
        """Convert floating point parameters and buffers to bfloat16, in place. Returns the module.

        Gradients are converted too; integers, bools and complex numbers stay as they are. Parameters remain the same objects.
        """
        return self._to_floating(tensor.bfloat16)

    def _to_floating(self, dtype: tensor.dtype) -> Self:
        return self._apply(lambda old: old.to(dtype) if old.is_floating_point() else old)

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory that processes share. See :meth:`tensor.Tensor.share_memory_`.

        Raises
        ------
        RuntimeError
            If there is no shared memory left, or some is pinned.
        """
        return self._apply(lambda each: each.share_memory_())

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to ``device`` without copying: all parameters and buffers have uninitialized contents afterwards.

        Parameters
        ----------
        recurse
            Whether to move the parameters and buffers of submodules too.
        """

        def empty_on_device(old: Tensor) -> Tensor:
            return empty_like(old, device=device) if device is not None else empty_like(old)

        return self._apply(empty_on_device, recurse)

    # State dicts

    def get_extra_state(self) -> Any:
        """What the state dict holds beside the tensors; a subclass defines it together with :meth:`set_extra_state`.

        Here it raises RuntimeError; it is called only where a subclass defines it.
        """
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: define it in the subclass "
            "beside set_extra_state()"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore ``state``, which :meth:`get_extra_state` has returned; a subclass defines both.

        Here it raises RuntimeError.
        """
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: define it in the subclass "
            "beside get_extra_state()"
        )

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The parameters and persistent buffers by path, in an ``OrderedDict``.

        The tensors share memory with the module: clone what must not change with it.

        Parameters
        ----------
        destination
            Mapping to put them into.
        prefix
            What the paths begin with.
        keep_vars
            Whether the values are the parameters themselves instead of detached tensors.

        Examples
        --------
        >>> model = nn.Linear(4, 2)
        >>> list(model.state_dict())
        ['weight', 'bias']
        >>> tensor.save(model.state_dict(), "model.pt")  # doctest: +SKIP
        >>> model.load_state_dict(tensor.load("model.pt"))  # doctest: +SKIP
        """
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        return state.save(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the module's own tensors, not those of submodules, into ``destination``."""
        state.save_own(self, destination, prefix, keep_vars)
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + state.EXTRA_STATE] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of ``state_dict`` into the parameters and buffers of the same path.

        Parameters
        ----------
        strict
            Whether the keys must be exactly those of this module's state dict.
        assign
            Whether the tensors replace the module's own, with their dtype and device, instead of being copied.

        Returns
        -------
        IncompatibleKeys
            Named tuple of the lists ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        TypeError
            If ``state_dict`` is not a mapping.
        RuntimeError
            If shapes differ, or, if ``strict``, keys are missing or unexpected; the message lists all of them.
            Nothing was changed then, unless a hook after loading had to see what was loaded.
        """
        return state.load(self, state_dict, strict, assign)

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
        """Load the tensors of the module itself, and append what is missing, unexpected or refused to the lists.

        Subclasses that read older layouts override this. They get the part of the state dict that begins with
        ``prefix``, and may change it.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        has_extra_state = type(self).set_extra_state is not Module.set_extra_state
        state.load_own(
            self, state_dict, prefix, local_metadata, strict, has_extra_state, missing_keys, unexpected_keys, error_msgs
        )  # fmt: skip

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before :meth:`state_dict`.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` removes the hook.
        """
        return RemovableHandle.of(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after :meth:`state_dict`, to change it in place.

        Parameters
        ----------
        hook : callable
            ``prefix`` is what precedes the module's names in ``state_dict``; what it returns must be None.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` removes the hook.

        Raises
        ------
        RuntimeError
            In :meth:`state_dict`, if the hook returns something else.
        """
        return state.add_save_hook(self._state_dict_hooks, hook, may_replace=False)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As :meth:`register_state_dict_post_hook`, but what ``hook`` returns is the result."""
        return state.add_save_hook(self._state_dict_hooks, hook, may_replace=True)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before the module's own tensors are loaded, to change the state dict in place.

        It is called as
        ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return state.add_load_hook(self, hook, with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after the module's tensors and those of its submodules were loaded.

        It may change the lists of ``incompatible_keys`` before they are judged.
        """
        return RemovableHandle.of(self._load_state_dict_post_hooks, hook)

    # Hooks on calls. Each method returns a handle, whose ``remove()`` removes the hook.

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``. What it returns, if not ``None``, replaces ``args``.

        Parameters
        ----------
        prepend
            Whether it runs before the module's other hooks.
        with_kwargs
            Whether it is called as ``hook(module, args, kwargs)``, and may return a pair to replace both.
        """
        return hooks.add(self._forward_pre_hooks, Hook(hook, with_kwargs=with_kwargs), prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``. What it returns, if not ``None``, is the output.

        Parameters
        ----------
        prepend
            Whether it runs before the module's other hooks.
        with_kwargs
            Whether it is called as ``hook(module, args, kwargs, output)``.
        always_call
            Whether it runs although ``forward`` has raised.

        Examples
        --------
        >>> activations = {}
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        >>> handle = model[0].register_forward_hook(lambda module, args, out: activations.update(first=out))
        >>> output = model(tensor.randn(2, 4))
        >>> handle.remove()
        >>> activations["first"].shape
        tensor.Size([2, 8])
        """
        record = Hook(hook, with_kwargs=with_kwargs, always_call=always_call)
        return hooks.add(self._forward_hooks, record, prepend=prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the module's gradients are computed.

        ``grad_output`` is a tuple with the gradient of each output, ``None`` for those that are not tensors. What the
        hook returns, if not ``None``, replaces it. With ``prepend`` it runs before the hooks that are there. Returns
        a handle, whose ``remove()`` removes the hook.
        """
        return hooks.add(self._backward_pre_hooks, Hook(hook), prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs have been computed.

        Both are tuples, with ``None`` for what is not a tensor; keyword arguments are not among them. What the hook
        returns, if not ``None``, replaces ``grad_input``. With ``prepend`` it runs before the hooks that are there.
        Returns a handle, whose ``remove()`` removes the hook.

        Raises
        ------
        RuntimeError
            If the module has deprecated, non-full backward hooks.
        """
        return self._add_backward_hook(hook, full=True, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated, for old scripts: the hook sees the node of the first output only.

        Raises
        ------
        RuntimeError
            If the module has full backward hooks.
        """
        return self._add_backward_hook(hook, full=False)

    def _add_backward_hook(
        self, hook: Callable[..., Any], *, full: bool, prepend: bool = False
    ) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        handle = hooks.add(self._backward_hooks, Hook(hook), prepend=prepend)
        self._is_full_backward_hook = full
        return handle

    # Text and copies

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The options in the module's text, such as ``"in_features=8, out_features=4"``; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join([*lines, *children]) + "\n)"

    def _repr_html_(self) -> str:
        return notebook.html_of(self)

    def _replicate_for_data_parallel(self) -> Self:
        """A module with the same attributes and tables of its own, without parameters."""
        replica = self.__new__(type(self))
        attributes = replica.__dict__
        attributes.update(self.__dict__)
        attributes["_parameters"] = {}
        attributes["_buffers"] = self._buffers.copy()
        attributes["_modules"] = self._modules.copy()
        attributes["_is_replica"] = True
        return replica


def indented(text: str) -> str:
    """``text`` with all lines but the first indented."""
    return text.replace("\n", "\n  ")


def _set_up(attributes: dict[str, Any]) -> None:
    """Add empty tables, and training mode."""
    attributes.update(
        training=True,
        _parameters={},
        _buffers={},
        _non_persistent_buffers_set=set(),
        _backward_pre_hooks=HookTable(),
        _backward_hooks=HookTable(),
        _is_full_backward_hook=None,
        _forward_hooks=HookTable(),
        _forward_pre_hooks=HookTable(),
        _state_dict_hooks=HookTable(),
        _state_dict_pre_hooks=HookTable(),
        _load_state_dict_pre_hooks=HookTable(),
        _load_state_dict_post_hooks=HookTable(),
        _modules={},
    )


def _type_name(value: Any) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _positional(
    args: tuple[Any, ...], device: Any, dtype: Any, non_blocking: Any
) -> tuple[Any, tensor.dtype | None, bool]:
    """Device, dtype and ``non_blocking`` from the positional arguments of ``to``, which are those of ``Tensor.to``."""
    probe = empty(0).to(*args)
    rest = args
    if isinstance(rest[0], Tensor):
        device, dtype, rest = rest[0].device, rest[0].dtype, rest[1:]
    elif isinstance(rest[0], tensor.dtype):
        dtype, rest = rest[0], rest[1:]
    else:
        if rest[0] is not None:
            device = probe.device
        rest = rest[1:]
        if rest and not isinstance(rest[0], bool):
            dtype, rest = rest[0], rest[1:]
    return device, dtype, bool(rest[0]) if rest else bool(non_blocking)
