"""Schemas: ``name(Tensor x, int n=2, *, bool flag=False) -> Tensor``, read from text and inferred from annotations."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import re
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import dtype
from tensor.core.devices.device import device
from tensor.methods.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SCHEMA = re.compile(
    r"\s*(?:(?P<name>[\w:.]+)\s*)?\((?P<parameters>.*)\)\s*->\s*(?P<returns>.*?)\s*$", re.DOTALL
)
_PARAMETER = re.compile(r"(?P<type>.+?)\s+(?P<name>\w+)\s*(?:=\s*(?P<default>.*))?$", re.DOTALL)
_REQUIRED = inspect.Parameter.empty

#: What values of a schema's types are, for the check of arguments. Types that are not here admit everything.
_ADMITTED: dict[str, Any] = {
    "Tensor": Tensor,
    "int": int,
    "SymInt": int,
    "float": (int, float),
    "bool": bool,
    "str": str,
    "Scalar": (int, float, complex),
    "ScalarType": dtype,
    "Device": (device, str),
}
_OF_ANNOTATIONS: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "complex",
    dtype: "ScalarType",
    device: "Device",
}


@dataclass(slots=True)
class Argument:
    """A parameter of a schema.

    Attributes
    ----------
    type : str
        ``"Tensor"``, ``"int"``, ``"Tensor?"``, ``"int[]"``, ... without marks of aliasing.
    mutated : bool
        Whether the operator writes to it.
    """

    name: str
    type: str
    default: Any
    named: bool
    mutated: bool
    text: str

    @property
    def required(self) -> bool:
        """Whether it cannot be left out."""
        return self.default is _REQUIRED

    def admits(self, value: Any) -> bool:
        """Whether ``value`` is of the type."""
        return _admits(self.type, value)


def _admits(type_name: str, value: Any) -> bool:
    if type_name.endswith("?"):
        return value is None or _admits(type_name[:-1], value)
    if match := re.match(r"(.*)\[\d*\]$", type_name):
        single = (
            match[1] in ("int", "SymInt", "float") and type_name[-2].isdigit() and _admits(match[1], value)
        )
        return single or (isinstance(value, (list, tuple)) and all(_admits(match[1], each) for each in value))
    classes = _ADMITTED.get(type_name)
    if classes is None:
        return True
    if isinstance(value, bool) and type_name in ("int", "SymInt"):
        return True
    return isinstance(value, classes) or (
        type_name in ("int", "SymInt", "float", "Scalar") and _is_number_tensor(value)
    )


def _is_number_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0 and not value.requires_grad


@dataclass(slots=True)
class Schema:
    """What an operator takes and returns.

    Attributes
    ----------
    name : str
        ``namespace::operator``.
    overload_name : str
        What distinguishes operators of one name; often empty.
    arguments : list of Argument
        The parameters.
    returns : str
        Types of the results, as written.
    """

    name: str
    overload_name: str
    arguments: list[Argument]
    returns: str

    @classmethod
    def parse(cls, text: str, namespace: str = "") -> Schema:
        """The schema that ``text`` says; ``namespace`` is put before a name without one.

        Raises
        ------
        RuntimeError
            If it is no schema.
        """
        match = _SCHEMA.match(text)
        if match is None or not match["name"]:
            raise RuntimeError(f"{text!r} is no schema: one looks like 'name(Tensor x, int n=2) -> Tensor'")
        qualified = match["name"] if "::" in match["name"] else f"{namespace}::{match['name']}"
        name, _, overload = qualified.partition(".")
        return cls(name, overload, _arguments(match["parameters"], text), match["returns"])

    @property
    def number_of_returns(self) -> int:
        """How many values the operator returns."""
        if self.returns.startswith("("):
            return len(_split(self.returns[1:-1]))
        return 1

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, with defaults.

        Raises
        ------
        RuntimeError
            If there are too many, one is missing or unknown, or of another type.
        """
        positional = [each for each in self.arguments if not each.named]
        if len(args) > len(positional):
            raise RuntimeError(
                f"{self.name}() expected at most {len(positional)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self}"
            )
        by_name = {each.name: value for each, value in zip(positional, args, strict=False)}
        for name, value in kwargs.items():
            if not any(each.name == name for each in self.arguments):
                raise RuntimeError(
                    f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}"
                )
            if name in by_name:
                raise RuntimeError(f"{self.name}() got the argument '{name}' twice. Declaration: {self}")
            by_name[name] = value
        bound = {}
        for position, each in enumerate(self.arguments):
            if each.name in by_name:
                value = by_name[each.name]
                if not each.admits(value):
                    raise RuntimeError(
                        f"{self.name}() Expected a value of type '{each.type}' for argument '{each.name}' but instead "
                        f"found type '{type(value).__name__}'.\nPosition: {position}\nDeclaration: {self}"
                    )
                bound[each.name] = value
            elif each.required:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{each.name}'. Declaration: {self}"
                )
            else:
                bound[each.name] = each.default
        return bound

    def call(self, function: Callable[..., Any], bound: dict[str, Any]) -> Any:
        """What ``function`` returns for the arguments, which are given by position and by name as the schema says."""
        args = [bound[each.name] for each in self.arguments if not each.named]
        return function(*args, **{each.name: bound[each.name] for each in self.arguments if each.named})

    def __str__(self) -> str:
        parts: list[str] = []
        for each in self.arguments:
            if each.named and "*" not in parts:
                parts.append("*")
            parts.append(each.text)
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {self.returns}"

    __repr__ = __str__


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets or quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [each.strip() for each in parts if each.strip()]


def _arguments(text: str, schema: str) -> list[Argument]:
    arguments: list[Argument] = []
    named = False
    for part in _split(text):
        if part == "*":
            named = True
            continue
        match = _PARAMETER.match(part)
        if match is None:
            raise RuntimeError(
                f"{part!r} is no parameter, in the schema {schema!r}: one looks like 'int n=2'"
            )
        alias = re.search(r"\([^)]*\)", match["type"])
        type_name = re.sub(r"\([^)]*\)", "", match["type"])
        default = _REQUIRED if match["default"] is None else _default(match["default"], type_name)
        arguments.append(
            Argument(match["name"], type_name, default, named, "!" in (alias[0] if alias else ""), part)
        )
    return arguments


def _default(text: str, type_name: str) -> Any:
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        if type_name.startswith("Device"):
            return device(text)
        # Names of dtypes, layouts and the like mean what PyTorch's headers say: they are left as words.
        return text


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema of a function, from its annotations.

    Parameters
    ----------
    prototype_function : Callable
        Every parameter has an annotation: a Tensor, number, str, dtype, device, or an optional or a list of them.
    mutates_args : str or Iterable of str
        Names of the parameters to which it writes; ``"unknown"`` for all tensors.
    op_name : str, optional
        What is put before the parameters.
    tags : object
        Accepted for compatibility.

    Raises
    ------
    ValueError
        If a parameter has no annotation, or one that schemas have no word for.

    Examples
    --------
    >>> def double(x: tensor.Tensor, times: int = 1) -> tensor.Tensor: ...
    >>> tensor.library.infer_schema(double, mutates_args=())
    '(Tensor x, SymInt times=1) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def refused(words: str) -> ValueError:
        return ValueError(f"infer_schema(func): {words} Got func with signature {signature})")

    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as error:
        raise refused(f"an annotation cannot be read: {error}.") from error
    mutated = set() if mutates_args == "unknown" else set(mutates_args)
    parts, named = [], False
    for position, (name, each) in enumerate(signature.parameters.items()):
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise refused("We do not support positional-only args, varargs, or varkwargs.")
        if each.kind is each.KEYWORD_ONLY and not named:
            parts.append("*")
            named = True
        if each.annotation is each.empty:
            raise refused(f"Parameter {name} must have a type annotation.")
        type_name = _word(hints[name])
        if type_name is None:
            raise refused(f"Parameter {name} has unsupported type {each.annotation}.")
        if name in mutated or (mutates_args == "unknown" and type_name.startswith("Tensor")):
            if not type_name.startswith("Tensor"):
                raise refused(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
                )
            type_name = type_name.replace("Tensor", f"Tensor(a{position}!)", 1)
        parts.append(f"{type_name} {name}{_default_text(name, each, refused)}")
    if mutated - set(signature.parameters):
        raise refused(
            f"{mutated - set(signature.parameters)} in mutates_args were not found in the signature."
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {_returned(hints, signature, refused)}"


def _default_text(name: str, parameter: inspect.Parameter, refused: Callable[[str], ValueError]) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    if value is None or isinstance(value, (bool, int, float)):
        return f"={value}"
    if isinstance(value, (str, device)):
        return f'="{value}"'
    if isinstance(value, dtype):
        return f"={str(value).rpartition('.')[2]}"
    raise refused(f"Parameter {name} has an unsupported default value type {type(value)}.")


def _returned(
    hints: dict[str, Any], signature: inspect.Signature, refused: Callable[[str], ValueError]
) -> str:
    if signature.return_annotation is inspect.Signature.empty:
        raise refused("No return type annotation was provided. Please add one.")
    annotation = hints["return"]
    if annotation is type(None):
        return "()"
    several = typing.get_origin(annotation) is tuple
    words = [_word(each) for each in (typing.get_args(annotation) if several else (annotation,))]
    if None in words:
        raise refused(f"Return has unsupported type {signature.return_annotation}.")
    text = ", ".join(filter(None, words))
    return f"({text})" if several else text


def _word(annotation: Any) -> str | None:
    """What schemas call a type; None if they have no word for it."""
    word = _OF_ANNOTATIONS.get(annotation) if isinstance(annotation, collections.abc.Hashable) else None
    if word is not None:
        return word
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [each for each in parts if each is not type(None)]
        inner = _word(rest[0]) if len(rest) == 1 else "Scalar" if set(rest) == {int, float, bool} else None
        return None if inner is None else f"{inner}?" if len(rest) < len(parts) else inner
    if origin in (list, collections.abc.Sequence) and parts:
        inner = _word(parts[0])
        return None if inner is None else f"{inner}[]"
    return None
