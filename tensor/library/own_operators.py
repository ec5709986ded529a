"""``tensor.ops.aten``: the operations of this library by the names that PyTorch's dispatcher has for them.

An operator of ATen is the function or the method of its name. Its overloads (``.Tensor``, ``.Scalar``, ``.default``) are
that function too, which tells its arguments apart itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphroot.coexistence import own
from nvrtc_kernels.dtypes import float32
from tensor.core.names.absent import missing
from tensor.methods.tensor import Tensor
from tensor.operations.definition.catalogue import published

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Names that PyTorch gives to overloads of the operators that are here.
_OVERLOADS = frozenset(
    [
        "default",
        "Tensor",
        "Scalar",
        "out",
        "Scalar_out",
        "Tensor_Scalar",
        "Scalar_Tensor",
        "Tensor_Tensor",
        "int",
        "Int",
        "float",
        "bool",
        "dim",
        "dim_IntList",
        "dim_max",
        "dim_min",
        "self",
        "ScalarOther",
        "ScalarSelf",
        "Tensor_mode",
        "Scalar_mode",
        "start",
        "start_step",
        "start_out",
        "sections",
        "indices",
        "split_with_sizes",
        "src",
        "value",
        "reduce",
        "value_reduce",
        "size",
        "using_ints",
        "dtype",
        "dtype_layout",
        "other",
        "device",
        "prims_copy",
        "mode",
        "generator",
        "correction",
        "correction_names",
        "Dimname",
        "Tensor_out",
        "self_Tensor",
        "grad_input",
        "values",
        "names",
        "dim_int",
        "static_dispatch",
    ]
)


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return self.softmax(dim, dtype=float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return self.log_softmax(dim, dtype=float32 if half_to_float else None)


def _to_copy(
    self: Tensor, *, non_blocking: bool = False, memory_format: Any = None, **options: Any
) -> Tensor:
    options = {
        name: value for name, value in options.items() if value is not None and name in ("dtype", "device")
    }
    return self.to(**options, non_blocking=non_blocking, copy=True)


def _slice(
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    key: list[Any] = [slice(None)] * self.dim()
    key[dim] = slice(start, end, step)
    return self[tuple(key)]


def _index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return self[tuple(slice(None) if each is None else each for each in indices)]


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    functional = own("nn.functional")
    rank = weight.dim() - 2
    if transposed:
        function = getattr(functional, f"conv_transpose{rank}d")
        transposed_result: Tensor = function(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )
        return transposed_result
    function = getattr(functional, f"conv{rank}d")
    result: Tensor = function(input, weight, bias, stride, padding, dilation, groups)
    return result


def _same(self: Tensor) -> Tensor:
    return self.view(self.shape)


def _sym_size(self: Tensor, dim: int | None = None) -> Any:
    return self.size() if dim is None else self.size(dim)


def _reshape(self: Tensor, size: Sequence[int]) -> Tensor:
    return self.reshape(*size)


#: Operators whose names or parameters are no function's.
_DIFFERENT: dict[str, Callable[..., Any]] = {
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "_to_copy": _to_copy,
    "_unsafe_view": _reshape,
    "alias": _same,
    "convolution": _convolution,
    "index": _index,
    "lift_fresh": _same,
    "slice": _slice,
    "sym_size": _sym_size,
}
#: What stands before a name for a namespace that its functions are in.
_PREFIXES = {"linalg_": "linalg", "special_": "special", "fft_": "fft"}


class AtenOverload:
    """One overload of an operator of ATen: the function that all overloads are."""

    def __init__(self, packet: AtenPacket, name: str) -> None:
        self.overloadpacket = packet
        self.namespace = "aten"
        self._overloadname = name
        self.__name__ = self.__qualname__ = f"{packet.__name__}.{name}"
        self.__module__ = "tensor.ops.aten"

    def name(self) -> str:
        """``aten::operator``, with ``.overload`` unless that is the default one."""
        overload = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.overloadpacket._qualified_op_name}{overload}"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        return self.overloadpacket(*args, **kwargs)


class AtenPacket:
    """An operator of ATen. Calling it runs the function of :mod:`tensor` or the method that has its name."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = name
        self._function = function
        self._qualified_op_name = f"aten::{name}"
        self._overloads: dict[str, AtenOverload] = {}

    def __getattr__(self, name: str) -> AtenOverload:
        if name.startswith("__") or name not in _OVERLOADS:
            raise AttributeError(
                f"The underlying op of 'aten.{self.__name__}' has no overload name '{name}'", name=name
            )
        if name not in self._overloads:
            self._overloads[name] = AtenOverload(self, name)
        return self._overloads[name]

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        return self._function(*args, **kwargs)


def aten(name: str) -> AtenPacket:
    """The operator ``name``.

    Raises
    ------
    AttributeError
        If no operation of this library is called so.
    """
    function = _DIFFERENT.get(name) or _function(name)
    if function is None:
        raise missing("tensor.ops.aten", name, names())
    return AtenPacket(name, function)


def _function(name: str) -> Callable[..., Any] | None:
    for prefix, space in _PREFIXES.items():
        if name.startswith(prefix) and (function := published(space).get(name.removeprefix(prefix))):
            return function
    if function := published("tensor").get(name) or published("Tensor").get(name):
        return function
    # Layers stand above, and are found when they are asked for.
    function = vars(own("nn.functional")).get(name)
    if function is None and not name.startswith("__"):
        function = getattr(Tensor, name, None)
    return function if callable(function) else None


def names() -> list[str]:
    """The operators that there are."""
    every = {*_DIFFERENT, *published("tensor"), *published("Tensor"), *published("nn.functional")}
    every |= {f"{prefix}{each}" for prefix, space in _PREFIXES.items() for each in published(space)}
    return sorted(each for each in every if not each.startswith("__"))
