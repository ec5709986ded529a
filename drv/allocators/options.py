"""Options of the allocators, as ``GRAPHROOT_CUDA_ALLOC_CONF`` writes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from drv import environment
from drv.errors import InvalidValueError

from .caching.rounding import LARGE_SEGMENT, round_to_division, round_to_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Sizes from 1 MiB to 64 GiB have a number of divisions for each power of two; what is smaller or larger
#: has the first or the last one's.
_INTERVALS = 17 - 1
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class AllocatorOptions:
    """How the caching allocator behaves, or which one takes its place.

    Attributes
    ----------
    guarding : bool
        Whether allocators that look for writes outside their blocks take the place of those that cache.
    red_zone, quarantine : int
        For those: bytes of red zone on each side of a block, and of freed memory that is kept from reuse.
    max_split_size : int or None
        Blocks of at least so many bytes are not split, and serve only requests that large.
    garbage_collection_threshold : float
        Share of the memory limit above which unused segments are given back, the oldest first. It
        takes effect once a memory fraction was set; 0 is never.
    roundup_power2_divisions : tuple of int
        Into how many steps each power of two from 1 MiB on is divided when a size is rounded up; 0 and
        1 round to 512 bytes.
    expandable_segments : bool
        Whether segments grow, through virtual memory management, instead of being made anew.
    text : str
        What was parsed.
    """

    max_split_size: int | None = None
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = field(default=(0,) * _INTERVALS)
    expandable_segments: bool = False
    guarding: bool = False
    red_zone: int = 512
    quarantine: int = 256 * _MIB
    text: str = ""

    @classmethod
    def from_environment(cls) -> AllocatorOptions:
        """What ``GRAPHROOT_CUDA_ALLOC_CONF``, else ``PYTORCH_CUDA_ALLOC_CONF``, says.

        Raises
        ------
        InvalidValueError
            As :meth:`from_text`.
        """
        return cls()._with(environment.allocator_options())

    @classmethod
    def from_text(cls, text: str) -> AllocatorOptions:
        """Parse ``text``: ``name:value,name:value``.

        >>> drv.allocators.AllocatorOptions.from_text("max_split_size_mb:32,expandable_segments:True").max_split_size
        33554432

        Raises
        ------
        InvalidValueError
            For a part that is not ``name:value``, an unknown name or an impossible value; the message
            quotes it.
        """
        return cls()._with(environment.option_pairs(text, "allocator options"))

    @property
    def rounds_to_unit(self) -> bool:
        """Whether all sizes are simply rounded up to a multiple of 512 bytes."""
        return all(divisions < 2 for divisions in self.roundup_power2_divisions)

    def round(self, size: int) -> int:
        """Bytes of a block for a request of ``size`` bytes.

        A multiple of 512; where ``roundup_power2_divisions`` is set for sizes of that order, the next of so many equal steps
        between two powers of two.
        """
        interval = min(max(size.bit_length() - 21, 0), _INTERVALS - 1)
        divisions = self.roundup_power2_divisions[interval]
        if divisions > 1 and size > 512 * divisions:
            return round_to_division(size, divisions)
        return round_to_unit(size)

    def _with(self, pairs: Mapping[str, str]) -> AllocatorOptions:
        values: dict[str, Any] = {}
        for name, value in pairs.items():
            parser = _PARSERS.get(name)
            if parser is None:
                known = ", ".join(sorted(_PARSERS))
                raise InvalidValueError(
                    f"allocator options: unknown option {name!r}, expected one of {known}"
                )
            values.update(parser(name, value))
        return replace(self, **values, text=",".join(f"{name}:{value}" for name, value in pairs.items()))


def _bad(name: str, value: str, expected: str) -> InvalidValueError:
    return InvalidValueError(f"allocator options: {name}:{value}: {value!r} is not {expected}")


def _integer(name: str, value: str, expected: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise _bad(name, value, expected)
    return int(value)


def _max_split_size(name: str, value: str) -> dict[str, Any]:
    least = LARGE_SEGMENT // _MIB
    expected = f"a whole number of MiB above {least}"
    size = _integer(name, value, expected)
    if size <= least:
        raise _bad(name, value, expected)
    # PyTorch takes any larger number for the largest it can hold.
    return {"max_split_size": min(size, 1 << 40) * _MIB}


def _garbage_collection_threshold(name: str, value: str) -> dict[str, Any]:
    try:
        threshold = float(value)
    except ValueError:
        threshold = -1.0
    if not 0.0 < threshold < 1.0:
        raise _bad(name, value, "a number between 0 and 1")
    return {"garbage_collection_threshold": threshold}


def _divisions(name: str, value: str) -> int:
    expected = "0 or a power of 2"
    number = _integer(name, value, expected)
    if number & (number - 1):
        raise _bad(name, value, expected)
    return number


def _roundup_power2_divisions(name: str, value: str) -> dict[str, Any]:
    if not value.startswith("["):
        return {"roundup_power2_divisions": (_divisions(name, value),) * _INTERVALS}
    if not value.endswith("]"):
        raise _bad(name, value, "a list in brackets")
    intervals = [0] * _INTERVALS
    last: int | None = None
    for entry in value[1:-1].split(","):
        boundary, colon, divisions = (piece.strip() for piece in entry.partition(":"))
        if not colon:
            raise _bad(name, entry.strip(), "of the form SIZE:DIVISIONS or >:DIVISIONS")
        number = _divisions(name, divisions)
        if boundary == ">":
            start = 0 if last is None else last + 1
            intervals[start:] = [number] * (_INTERVALS - start)
            continue
        expected = "a power of 2 (the size in MiB)"
        size = _integer(name, boundary, expected)
        if size == 0 or size & (size - 1):
            raise _bad(name, boundary, expected)
        index = min(size.bit_length() - 1, _INTERVALS - 1)
        if last is None:
            intervals[:index] = [number] * index
        intervals[index] = number
        last = index
    return {"roundup_power2_divisions": tuple(intervals)}


def _expandable_segments(name: str, value: str) -> dict[str, Any]:
    if value not in ("True", "False"):
        raise _bad(name, value, "True or False")
    return {"expandable_segments": value == "True"}


def _backend(name: str, value: str) -> dict[str, Any]:
    if value not in ("native", "guarding"):
        raise _bad(name, value, "native or guarding, the backends there are")
    return {"guarding": value == "guarding"}


def _red_zone(name: str, value: str) -> dict[str, Any]:
    return {"red_zone": _integer(name, value, "a number of bytes")}


def _quarantine(name: str, value: str) -> dict[str, Any]:
    return {"quarantine": _integer(name, value, "a number of bytes")}


_PARSERS: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "backend": _backend,
    "expandable_segments": _expandable_segments,
    "guard_quarantine": _quarantine,
    "guard_red_zone": _red_zone,
    "garbage_collection_threshold": _garbage_collection_threshold,
    "max_split_size_mb": _max_split_size,
    "roundup_power2_divisions": _roundup_power2_divisions,
}
