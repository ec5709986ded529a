"""How a leaf is reached from the root of a tree: keys of dicts, positions in sequences, names of attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class KeyEntry(Protocol):
    """One step from a container to an entry of it: :class:`MappingKey`, :class:`SequenceKey`, :class:`GetAttrKey`.

    Classes of containers that are registered with ``flatten_with_keys_fn`` may have others with these methods.
    """

    def get(self, parent: Any) -> Any:
        """The entry of the container ``parent``.

        Raises what the container raises where there is none.
        """


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """The entry at the position ``idx`` of a list, tuple or deque.

    ``str`` of it is ``"[3]"``.
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The entry of the list, tuple or deque ``sequence``.

        Raises IndexError where there is none.
        """
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """The entry under the key ``key`` of a dict.

    ``str`` of it is ``"['name']"``.
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The entry of the dict ``mapping``.

        Raises KeyError where there is none.
        """
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The attribute ``name`` of a named tuple or dataclass.

    ``str`` of it is ``".name"``.
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute of ``obj``.

        Raises AttributeError where there is none.
        """
        return getattr(obj, self.name)


def keystr(kp: Iterable[KeyEntry]) -> str:
    """The keys of ``kp`` as Python would write them after the tree: ``"['layers'][0].weight"``.

    Examples
    --------
    >>> from tensor.utils import _pytree
    >>> (path, leaf), = _pytree.tree_leaves_with_path({"a": [None, 3]}, lambda x: x is None)[1:]
    >>> _pytree.keystr(path), leaf
    ("['a'][1]", 3)
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[KeyEntry]) -> Any:
    """What the keys of ``kp`` lead to from ``obj``, a tree.

    Raises what a container on the way raises that has no such entry: KeyError, IndexError or AttributeError.
    """
    for key in kp:
        obj = key.get(obj)
    return obj
