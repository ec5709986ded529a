"""What a module consists of: tables of parameters, buffers and submodules that look like attributes."""

from __future__ import annotations

from typing import Any, ClassVar

from nn.parameter import Buffer, Parameter
from tensor import Tensor
from tensor.utils.hooks import HookTable

from .hooks import BUFFER, MODULE, PARAMETER, registered

#: Tables that a module has in its ``__dict__``, in the order in which names are looked up.
_TABLES = ("_parameters", "_buffers", "_modules")


def _name_of_type(value: Any) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


class ModuleBase:
    """The tables of a :class:`~nn.Module`, and how attributes are found in them.

    Attributes
    ----------
    training : bool
        Whether the module behaves as in training; see :meth:`~nn.Module.train`.
    _parameters, _buffers, _modules : dict
        By name; ``None`` for a name that is reserved.
    _non_persistent_buffers_set : set of str
        Buffers that are not part of the state dict.
    """

    #: Version of what the module's state dict holds, for those who read old ones.
    _version: int = 1
    #: Whether ``__init__`` calls that of the next class after Module, with its arguments.
    call_super_init: ClassVar[bool] = False

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _backward_pre_hooks: HookTable
    _backward_hooks: HookTable
    #: ``None`` as long as there are no backward hooks; else whether they are not of the old kind.
    _is_full_backward_hook: bool | None
    _forward_hooks: HookTable
    _forward_pre_hooks: HookTable
    _state_dict_hooks: HookTable
    _state_dict_pre_hooks: HookTable
    _load_state_dict_pre_hooks: HookTable
    _load_state_dict_post_hooks: HookTable

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = next(iter(kwargs)) if kwargs else f"{len(args) + 1} were given"
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{given}'"
                if kwargs
                else f"{type(self).__name__}.__init__() takes 1 positional argument but {given}"
            )
        _set_up(self.__dict__)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # Registering

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, to be found as attribute ``name`` too. ``None`` reserves the name.

        Raises
        ------
        AttributeError
            If called before ``Module.__init__()``.
        TypeError, KeyError
            If the name is no string, has a dot, is empty or is taken, or ``param`` is no Parameter.
        ValueError
            If the parameter is computed from others.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_name_of_type(param)}' object to parameter '{name}' (nn.Parameter or None "
                    "required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
        self._parameters[name] = registered(self, PARAMETER, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state of the module and no parameter, to be found as attribute ``name`` too.

        Parameters
        ----------
        tensor
            ``None`` reserves the name.
        persistent
            Whether it is part of the state dict.

        Raises
        ------
        AttributeError
            If called before ``Module.__init__()``.
        TypeError, KeyError
            If the name is no string, has a dot, is empty or is taken, or ``tensor`` is no Tensor.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_name_of_type(tensor)}' object to buffer '{name}' (tensor.Tensor or None required)"
            )
        self._buffers[name] = registered(self, BUFFER, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Any) -> None:
        """Add a submodule, to be found as attribute ``name`` too. ``None`` reserves the name.

        Raises
        ------
        TypeError, KeyError
            If the name is no string, has a dot, is empty or is taken, or ``module`` is no Module.
        """
        if not isinstance(module, ModuleBase) and module is not None:
            raise TypeError(f"{_name_of_type(module)} is not a Module subclass")
        if "_modules" not in self.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        self._check_name("module", name, self._modules)
        self._modules[name] = registered(self, MODULE, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """:meth:`add_module`."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: Any, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_name_of_type(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: "{name}"')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # Attributes

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in _TABLES:
            if table in own and name in own[table]:
                return own[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif "_parameters" in own and name in own["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_name_of_type(value)}' as parameter '{name}' (nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, ModuleBase):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            own["_modules"][name] = registered(self, MODULE, name, value)
        elif "_modules" in own and name in own["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_name_of_type(value)}' as child module '{name}' (nn.Module or None expected)"
                )
            own["_modules"][name] = None
        elif isinstance(value, Buffer):
            if "_buffers" not in own:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self.register_buffer(name, value, value.persistent)
        elif "_buffers" in own and name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_name_of_type(value)}' as buffer '{name}' (nn.Buffer, tensor.Tensor or None "
                    "expected)"
                )
            own["_buffers"][name] = registered(self, BUFFER, name, value)
        else:
            super().__setattr__(name, value)

    def _forget(self, name: str, table_to_keep: str) -> None:
        """Take ``name`` out of the attributes and of the tables but one."""
        own = self.__dict__
        own.pop(name, None)
        for table in _TABLES:
            if table != table_to_keep:
                own[table].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        for table in _TABLES:
            if name in own.get(table, ()):
                del own[table][name]
                own["_non_persistent_buffers_set"].discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules}
        # A submodule of a list is named by its index, which is no attribute.
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        _set_up(self.__dict__)
        self.__dict__.update(state)


def _set_up(own: dict[str, Any]) -> None:
    """Empty tables, and the mode of training."""
    own.update(
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
