"""Which classes are containers: how each is taken apart and put together, and what it is called in text."""

from __future__ import annotations

import dataclasses
import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import TYPE_CHECKING, Any

from tensor.core.size import Size

from .keys import GetAttrKey, MappingKey, SequenceKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The class that structures of named tuples name; the tuple's own is their context.
NAMED_TUPLE: Any = namedtuple  # noqa: PYI024 - it is what structures name


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A class of containers.

    Attributes
    ----------
    flatten
        Entries and context of a container.
    unflatten
        A container of entries and context.
    keys
        The keys of the entries of a container; None where it says nothing of them.
    name
        What text calls the class; None if it has no name there.
    dumped, loaded
        The context as JSON has it, and back.
    """

    flatten: Callable[[Any], tuple[Any, Any]]
    unflatten: Callable[[Any, Any], Any]
    keys: Callable[[Any], Iterable[Any]] | None = None
    name: str | None = None
    dumped: Callable[[Any], Any] | None = None
    loaded: Callable[[Any], Any] | None = None


def _of_mapping(make: Callable[[Any], Any], name: str) -> Node:
    return Node(
        lambda x: (list(x.values()), list(x)),
        lambda values, keys: make(zip(keys, values, strict=True)),
        lambda x: map(MappingKey, x),
        name,
    )


def _of_sequence(make: Callable[[Any], Any], name: str) -> Node:
    return Node(lambda x: (list(x), None), lambda values, _: make(values), _positions, name)


def _positions(x: Any) -> Iterable[SequenceKey]:
    return map(SequenceKey, range(len(x)))


def _dumped_defaultdict(context: Any) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": getattr(factory, "__module__", None),
        "default_factory_name": getattr(factory, "__qualname__", None),
        "dict_context": keys,
    }


def _loaded_defaultdict(context: dict[str, Any]) -> list[Any]:
    module, name = context["default_factory_module"], context["default_factory_name"]
    factory = None if module is None else getattr(importlib.import_module(module), name)
    return [factory, context["dict_context"]]


#: The containers by their class.
nodes: dict[Any, Node] = {
    dict: _of_mapping(dict, "builtins.dict"),
    OrderedDict: _of_mapping(OrderedDict, "collections.OrderedDict"),
    defaultdict: Node(
        lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
        lambda x: map(MappingKey, x),
        "collections.defaultdict",
        _dumped_defaultdict,
        _loaded_defaultdict,
    ),
    list: _of_sequence(list, "builtins.list"),
    tuple: _of_sequence(tuple, "builtins.tuple"),
    Size: _of_sequence(Size, "torch.Size"),
    deque: Node(
        lambda x: (list(x), x.maxlen),
        lambda values, maxlen: deque(values, maxlen),
        _positions,
        "collections.deque",
    ),
    NAMED_TUPLE: Node(
        lambda x: (list(x), type(x)),
        lambda values, cls: cls(*values),
        lambda x: map(GetAttrKey, x._fields),
        "collections.namedtuple",
        lambda cls: _name_of_named_tuple(cls),
        lambda name: _named_tuples_by_name[name],
    ),
}
_named_tuples: dict[type, str] = {}
_named_tuples_by_name: dict[str, type] = {}


def _name_of_named_tuple(cls: type) -> str:
    if cls not in _named_tuples:
        raise NotImplementedError(
            f"the structure of a named tuple {cls} cannot be text: its class has no name there. Give it one by "
            "_register_namedtuple(cls, serialized_type_name=...)"
        )
    return _named_tuples[cls]


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Let text call the named tuples ``cls`` by ``serialized_type_name``."""
    _named_tuples[cls] = serialized_type_name
    _named_tuples_by_name[serialized_type_name] = cls


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Treat instances of ``cls`` as containers.

    Parameters
    ----------
    cls : type
        The class; those derived from it are not meant.
    flatten_fn, unflatten_fn : callable
        The first returns a container's entries and a context; the second makes one of entries and context.
    serialized_type_name : str, optional
        What :func:`treespec_dumps` calls the class, which needs one.
    to_dumpable_context, from_dumpable_context : callable, optional
        Make of the context what JSON can have, and back; both or none.
    flatten_with_keys_fn : callable, optional
        Returns pairs of a key and an entry, and the context: for the functions with paths.

    Raises
    ------
    ValueError
        If the class is a container already, or only one of the two functions for contexts is given.
    """
    if cls in nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    keys = None
    if flatten_with_keys_fn is not None:
        with_keys = flatten_with_keys_fn

        def keys(x: Any) -> Iterable[Any]:
            return [key for key, _ in with_keys(x)[0]]

    nodes[cls] = Node(
        flatten_fn, unflatten_fn, keys, serialized_type_name, to_dumpable_context, from_dumpable_context
    )


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Treat instances of the dataclass ``cls`` as containers of their fields.

    Parameters
    ----------
    cls : type
        The class.
    field_names, drop_field_names : list of str, optional
        The fields that are entries, by default all; those that get their default when a container is put together.
        Fields that are None are noted in the context, and are no entries.
    serialized_type_name : str, optional
        As for :func:`register_pytree_node`.

    Raises
    ------
    ValueError
        If it is no dataclass, is a container already, or a field is neither in one list nor in the other.
    """
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"register_dataclass() can only be used with dataclasses, got {cls}")
    initial = [each.name for each in dataclasses.fields(cls) if each.init]
    dropped = drop_field_names or []
    names = [each for each in initial if each not in dropped] if field_names is None else field_names
    unknown = sorted({*names, *dropped} ^ {*initial})
    if unknown:
        raise ValueError(
            f"register_dataclass(): field_names and drop_field_names together must be the fields of {cls.__name__}, and "
            f"differ in {', '.join(unknown)}"
        )

    def flatten(x: Any) -> tuple[Any, Any]:
        present = [each for each in names if getattr(x, each) is not None]
        return [getattr(x, each) for each in present], [present, [n for n in names if n not in present]]

    def unflatten(values: Any, context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    def flatten_with_keys(x: Any) -> tuple[Any, Any]:
        values, context = flatten(x)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], values, strict=True)], context

    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def is_namedtuple_class(cls: type) -> bool:
    """Whether ``cls`` is a class of named tuples; results with names, such as those of ``max``, are such here."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(fields, tuple)
        and isinstance(cls, type)
        and issubclass(cls, tuple)
        and all(isinstance(each, str) for each in fields)
        and callable(getattr(cls, "_make", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether ``obj`` is a named tuple.

    As :func:`is_namedtuple_class` for its class.
    """
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    """Whether ``obj`` is a named tuple, or a class of such.

    See :func:`is_namedtuple_class`.
    """
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether ``cls`` is a class of tuples with named fields that C code defines, as ``time.struct_time``.

    The results of this library's functions are named tuples instead.
    """
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(getattr(cls, each, None), int)
            for each in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
        )
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether ``obj`` is of such a class.

    As :func:`is_structseq_class` for its class.
    """
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """Whether ``obj`` is of such a class, or such a class itself.

    See :func:`is_structseq_class`.
    """
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def class_of(tree: Any) -> Any:
    """The key of ``tree`` in :data:`nodes`; None for a leaf."""
    cls = type(tree)
    if cls in nodes:
        return cls
    return NAMED_TUPLE if is_namedtuple_class(cls) else None
