"""``device``: where a tensor's elements are."""

from __future__ import annotations

import re
import reprlib
import threading
from typing import Any, ClassVar

TYPES = ("cpu", "cuda")
#: PyTorch's devices that there are none of here, which a program may name: it compares a tensor's device with them.
FOREIGN_TYPES = ("meta", "mps", "xpu")
_TEXT = re.compile(r"([a-z]+)(?::(0|[1-9][0-9]*))?", re.ASCII)


class _Chosen(threading.local):
    """Devices of new tensors: the thread's choice, those of the ``with`` statements that it is in, and the one that counts."""

    def __init__(self) -> None:
        self.default: device | None = None
        self.inner: list[device] = []
        self.now: device | None = None

    def update(self) -> None:
        self.now = self.inner[-1] if self.inner else self.default


#: ``chosen.now`` is the device of new tensors that say nothing of theirs, in this thread; ``None`` where none was chosen.
chosen = _Chosen()


def default_device() -> device | None:
    """Device of new tensors that say nothing of theirs, in this thread; ``None`` where none was chosen."""
    return chosen.now


def choose_default(argument: device | None) -> None:
    """Choose the device of new tensors of this thread, outside ``with`` statements."""
    chosen.default = argument
    chosen.update()


class device:  # noqa: N801 - PyTorch's name
    """A type of device ("cpu", "cuda") and, for CUDA, its index.

    ``device("cuda:1")``, ``device("cuda", 1)`` and ``device(1)`` are the same object: there is one per
    device, so that identity compares. ``device("cuda")`` has no index; it means the device that is current
    when it is used. ``with device("cuda"):`` puts new tensors there that say nothing of their device.
    ``device("meta")``, ``"mps"`` and ``"xpu"`` can be named and compared; a tensor there raises RuntimeError.

    Raises
    ------
    RuntimeError
        For an unknown type or a malformed text.
    TypeError
        For an argument that is neither a text, a number nor a device.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None
    _objects: ClassVar[dict[tuple[str, int | None], device]] = {}

    def __new__(cls, type: str | int | device, index: int | None = None) -> device:  # noqa: PYI034
        if isinstance(type, device):
            if index is not None:
                raise TypeError(
                    f"device() got an index ({index}) beside {type!r}, which says which one it is"
                )
            return type
        key = _parse(type, index)
        result = cls._objects.get(key)
        if result is None:
            result = object.__new__(cls)
            object.__setattr__(result, "type", key[0])
            object.__setattr__(result, "index", key[1])
            # setdefault decides which of two threads made the one that is kept.
            result = cls._objects.setdefault(key, result)
        return result

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"device attributes cannot be changed (tried to set {name!r} of {self!r})")

    def __repr__(self) -> str:
        where = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{where})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __enter__(self) -> device:  # noqa: PYI034
        chosen.inner.append(self)
        chosen.update()
        return self

    def __exit__(self, *exception: object) -> None:
        chosen.inner.pop()
        chosen.update()

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (str(self),)

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> device:
        return self


def _parse(argument: str | int, index: int | None) -> tuple[str, int | None]:
    if isinstance(argument, bool) or not isinstance(argument, (str, int)):
        raise TypeError(
            f"device() takes a text such as 'cuda:0', an index or a device, got {reprlib.repr(argument)}"
        )
    if isinstance(argument, int):
        if index is not None:
            raise TypeError(f"device() got two indices, {argument} and {index}")
        type_, index = "cuda", argument
    else:
        match = _TEXT.fullmatch(argument)
        if match is None:
            raise RuntimeError(f"Invalid device string: '{argument}'; expected 'cpu', 'cuda' or 'cuda:INDEX'")
        type_ = match[1]
        if type_ not in TYPES and type_ not in FOREIGN_TYPES:
            raise RuntimeError(
                f"Expected one of {', '.join(TYPES)} device type at start of device string: {argument}"
            )
        if match[2] is not None:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {argument}"
                )
            index = int(match[2])
    if index is not None:
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"device index must be an int, got {index!r}")
        if index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        if type_ == "cpu" and index != 0:
            raise RuntimeError(f"CPU device index must be 0 or absent, got {index}")
    return type_, index
