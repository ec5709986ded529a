"""C functions of a shared library, declared as Python signatures and bound with ``ctypes``.

A library is a ``Protocol`` class whose annotations are its functions; the type of each is a callback protocol
whose parameters say both the Python and the C type (``Int``, ``Address``, ...). So one declaration serves the
type checker, ``ctypes`` and the simulated library. Calling a bound function is one ``ctypes`` call with a check
of its status.
"""

import ctypes
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, NoReturn, TypeAlias, get_args, get_origin, get_type_hints

from drv.errors import LibraryNotInstalledError


@dataclass(frozen=True, slots=True)
class Output:
    """A parameter through which C returns a value, and Python as the result. ``index`` is its position in C."""

    type: Any
    index: int


class _Array:
    """A C array of integers, given as a sequence of ints, or ``None`` for a null pointer."""

    element: Any
    limit: int

    @classmethod
    def from_param(cls, values: Sequence[int] | None) -> Any:
        if values is None:
            return None
        for value in values:
            if not -cls.limit <= value < cls.limit:
                raise OverflowError(f"{value} does not fit into {cls.element.__name__}")
        return (cls.element * len(values))(*values)


class IntArray(_Array):
    """``int *``."""

    element = ctypes.c_int
    limit = 2**31


class LongArray(_Array):
    """``long long int *``."""

    element = ctypes.c_longlong
    limit = 2**63


Int: TypeAlias = Annotated[int, ctypes.c_int]
Long: TypeAlias = Annotated[int, ctypes.c_int64]
Size: TypeAlias = Annotated[int, ctypes.c_size_t]
#: An address on the host or on a device, or an opaque handle; 0 is the null pointer.
Address: TypeAlias = Annotated[int, ctypes.c_void_p]
Ints: TypeAlias = Annotated[Sequence[int] | None, IntArray]
Longs: TypeAlias = Annotated[Sequence[int] | None, LongArray]
#: A function that returns a C string, and no status.
Text: TypeAlias = Annotated[bytes, ctypes.c_char_p]


class Prototype(NamedTuple):
    """A C function: its symbol, the names of its Python parameters, its C types.

    ``restype`` is ``None`` for a function that returns a status.
    """

    name: str
    symbol: str
    parameters: tuple[str, ...]
    argtypes: tuple[Any, ...]
    output: Output | None = None
    restype: Any = None


def prototypes(library: type) -> dict[str, Prototype]:
    """Prototypes of the functions that a library's ``Protocol`` class declares, by name."""
    return {
        name: _prototype(name, declared)
        for name, declared in get_type_hints(library, include_extras=True).items()
    }


def _prototype(name: str, declared: Any) -> Prototype:
    symbol = name
    if get_origin(declared) is Annotated:
        declared, symbol = get_args(declared)
    hints = get_type_hints(declared.__call__, include_extras=True)
    returned = get_args(hints.pop("return"))
    argtypes = [get_args(hint)[1] for hint in hints.values()]
    result = returned[1] if returned else None
    if not isinstance(result, Output):
        return Prototype(name, symbol, tuple(hints), tuple(argtypes), None, result)
    argtypes.insert(result.index, ctypes.POINTER(result.type))
    return Prototype(name, symbol, tuple(hints), tuple(argtypes), result)


class BoundLibrary:
    """Functions of a shared library, as attributes."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<library {self.path}>"


#: Makes the exception for a status: ``(status, call)`` -> exception.
Failure: TypeAlias = Callable[[int, str], Exception]


def bind(
    declarations: type,
    library: ctypes.CDLL,
    failure: Failure,
    passes: Collection[int] = (),
    extra: str = "gpu",
) -> Any:
    """The functions that ``declarations`` declares, found in ``library``.

    They take exactly the declared parameters, return the declared result, and raise what ``failure`` makes of
    a status other than 0 and those of ``passes``. ``extra`` is what one installs the library with.

    Raises
    ------
    LibraryNotInstalledError
        If the library lacks one of the functions.
    """
    bound = BoundLibrary(str(library._name))
    for prototype in prototypes(declarations).values():
        try:
            setattr(bound, prototype.name, _bind(prototype, library, failure, passes))
        except AttributeError:
            raise LibraryNotInstalledError(
                f"{library._name} has no function {prototype.symbol}: it is too old. Install the versions that "
                f"'graphroot[{extra}]' asks for: pip install --upgrade 'graphroot[{extra}]'"
            ) from None
    return bound


def _bind(prototype: Prototype, library: ctypes.CDLL, failure: Failure, passes: Collection[int]) -> Any:
    restype = prototype.restype or ctypes.c_int
    make: Any = ctypes.CFUNCTYPE(restype, *prototype.argtypes)
    entry = (prototype.symbol, library)
    if prototype.restype is not None:
        return make(entry)

    def refuse(status: int, arguments: Sequence[Any]) -> NoReturn:
        inputs = list(arguments)
        if prototype.output is not None:
            del inputs[prototype.output.index]
        raise failure(status, call_text(prototype.name, prototype.parameters, inputs))

    if prototype.output is None:

        def check(status: int, function: Any, arguments: Any) -> None:
            if status and status not in passes:
                refuse(status, arguments)

        function = make(entry)
        function.errcheck = check
        return function

    def check_output(status: int, function: Any, arguments: Any) -> Any:
        if status and status not in passes:
            refuse(status, arguments)
        return arguments

    output = prototype.output.index
    function = make(entry, tuple((2 if i == output else 1,) for i in range(len(prototype.argtypes))))
    function.errcheck = check_output
    return function


def call_text(name: str, parameters: Sequence[str], arguments: Sequence[Any]) -> str:
    """A call as messages show it; values from 2**32 on, which are addresses and handles, in hexadecimal."""
    shown = (
        f"{parameter}={value:#x}" if isinstance(value, int) and value >= 2**32 else f"{parameter}={value!s}"
        for parameter, value in zip(parameters, arguments, strict=True)
    )
    return f"{name}({', '.join(shown)})"
