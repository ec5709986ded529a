"""``Library``: operators of a namespace, defined and given kernels; and functions that do so by qualified name."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from . import operators
from .schemas import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_RESERVED = frozenset(("prim", "aten"))
#: Namespaces that a library defines, and where.
_defined: dict[str, str] = {"aten": "tensor.ops.aten"}
#: Libraries of :func:`define`, which nobody else holds.
_held: list[Library] = []


def fallthrough_kernel() -> NoReturn:
    """The kernel of a dispatch key that passes on to the next one, given to :meth:`Library.impl`."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Operators of one namespace, which are forgotten with the library that defined them, as are its kernels.

    Parameters
    ----------
    ns : str
        The namespace.
    kind : str
        ``"DEF"`` to define all operators of it, ``"FRAGMENT"`` to define some, ``"IMPL"`` to give kernels.
    dispatch_key : str
        For which key :meth:`impl` registers, unless it says another.

    Raises
    ------
    ValueError
        If ``kind`` is another, or the namespace is PyTorch's own.
    RuntimeError
        If the namespace is defined by another library.

    Examples
    --------
    >>> library = tensor.library.Library("example_of_library", "DEF")
    >>> library.define("twice(Tensor x) -> Tensor")
    'twice'
    >>> library.impl("twice", lambda x: x * 2, "CPU")
    >>> tensor.ops.example_of_library.twice(tensor.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if (ns == "prim" and kind == "DEF") or (ns in _RESERVED and kind == "FRAGMENT"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        frame = sys._getframe(1)
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if kind == "DEF":
            if ns in _defined:
                raise RuntimeError(
                    "Only a single TORCH_LIBRARY can be used to register the namespace "
                    f"{ns}; please put all of your definitions in a single library, or use the kind FRAGMENT. Previous "
                    f"registration: {_defined[ns]}"
                )
            _defined[ns] = where
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._operators: list[operators.OpOverload] = []
        self._kernels: list[tuple[operators.OpOverload, str, Callable[..., Any]]] = []
        defined = ns if kind == "DEF" else None
        self._finalizer = weakref.finalize(self, _forget, self._operators, self._kernels, defined)
        self._finalizer.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its schema; returns its name.

        Raises
        ------
        RuntimeError
            If the text is no schema, or there is such an operator.
        ValueError
            If the library only gives kernels.
        """
        if self.kind == "IMPL":
            raise ValueError("define() needs a library of the kind DEF or FRAGMENT, and this one is IMPL")
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        operator = operators.add(Schema.parse(schema, self.ns))
        operator.tags = list(tags) if isinstance(tags, (list, tuple)) else [tags]
        self._operators.append(operator)
        return operator.name().partition("::")[2]

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Give an operator a kernel.

        Parameters
        ----------
        op_name : str or OpOverload
            Which; a name is of this namespace.
        fn : Callable
            The kernel, or :func:`fallthrough_kernel`.
        dispatch_key : str
            For which arguments: ``"CPU"``, ``"CUDA"``, ``"CompositeExplicitAutograd"`` (any device),
            ``"CompositeImplicitAutograd"`` (any device; what it calls is recorded), ``"Autograd"``. Without it and
            without one of the library, the last but one.
        with_keyset : bool
            Refused: kernels are not told the keys.
        allow_override : bool
            Whether a kernel that is there is replaced.

        Raises
        ------
        TypeError
            If ``fn`` cannot be called.
        RuntimeError
            If there is no such operator or key.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("with_keyset=True is left out: there are no sets of dispatch keys")
        if self.ns in _RESERVED:
            raise NotImplementedError(
                f"kernels of {self.ns}'s operators are not replaced: they are functions of tensor and nn.functional"
            )
        operator = self._find(op_name)
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if fn is fallthrough_kernel:
            operator._kernels.pop(key, None)
            return
        operator.register(key, fn, may_replace=allow_override)
        self._kernels.append((operator, key, fn))

    def _find(self, op_name: Any) -> operators.OpOverload:
        if isinstance(op_name, operators.OpOverload):
            return op_name
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        return operators.find(name)

    def _register_fake(self, op_name: Any, fn: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Say what shapes an operator gives."""
        self._find(op_name)._fake = fn

    def _destroy(self) -> None:
        """Forget the operators and kernels of this library now."""
        self._finalizer()


def _forget(
    defined: list[operators.OpOverload],
    kernels: list[tuple[operators.OpOverload, str, Callable[..., Any]]],
    namespace: str | None,
) -> None:
    for operator, key, kernel in kernels:
        if operator._kernels.get(key) is kernel:
            del operator._kernels[key]
    for operator in defined:
        operators.remove(operator)
    if namespace is not None:
        _defined.pop(namespace, None)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Define an operator.

    Parameters
    ----------
    qualname : str
        ``namespace::name``.
    schema : str
        Its parameters and results: ``"(Tensor x) -> Tensor"``.
    lib : Library, optional
        Whose operator it is, which forgets it with its others.
    tags : object
        Kept as the operator's ``tags``.

    Raises
    ------
    ValueError
        If the name has no namespace.
    RuntimeError
        If the text is no schema, or there is such an operator.
    """
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}"
        )
    namespace, _, name = qualname.partition("::")
    if not name:
        raise ValueError(
            f"Expected qualname to be of the form `namespace::name`, but got {qualname}. The qualname passed to the "
            "torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    library = lib if lib is not None else Library(namespace, "FRAGMENT")
    library.define(f"{name}{schema}", tags=tags)
    if lib is None:
        _held.append(library)


def impl(
    qualname: str,
    types: str | Sequence[str],
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Give an operator a kernel; without ``func``, a decorator.

    Parameters
    ----------
    qualname : str
        ``namespace::name``.
    types : str or sequence of str
        Types of devices, ``"default"`` for all, or dispatch keys.
    func : Callable, optional
        The kernel.
    lib : Library, optional
        Accepted for compatibility.

    Raises
    ------
    RuntimeError
        If there is no such operator or key.
    """
    names = [types] if isinstance(types, str) else types
    register = operators.find(qualname).registering([None if each == "default" else each for each in names])
    if func is None:
        return register
    register(func)
    return None
