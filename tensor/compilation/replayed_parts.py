"""Which parts of a program are replayed as CUDA graphs, and what goes into them and comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvrtc_kernels.dtypes import uint8
from tensor.core.layout import contiguous

from .tape import Ref, refs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .tape import Buffer, Step

#: Steps of a part at least: fewer are launched as quickly as what they read and give is copied.
_FEWEST = 4


@dataclass(slots=True)
class Replaying:
    """What a program that is replayed has to know of its buffers.

    Attributes
    ----------
    by_reference : set of int
        Those that come from outside and are expected at the same addresses in each call.
    results : set of int
        Those that the function gives: a later replay must not write to them.
    private : set of int
        Those that only other programs of the same call read.
    """

    by_reference: set[int]
    results: set[int]
    private: set[int] = field(default_factory=set)

    def of_backward(self, saved: set[int]) -> Replaying:
        """That of the backward pass: ``saved`` are buffers that it takes of the forward pass, and gradients are lent."""
        return Replaying(self.by_reference | (saved - self.results), set())


def divided(steps: Sequence[Step]) -> Iterator[tuple[list[Step], bool]]:
    """``steps`` in parts, each with whether it may be replayed: what keeps books on the host stands between them."""
    part: list[Step] = []
    for step in steps:
        if not step.on_host:
            part.append(step)
            continue
        yield part, len(part) >= _FEWEST
        yield [step], False
        part = []
    yield part, len(part) >= _FEWEST


@dataclass(slots=True)
class Boundary:
    """What goes into a part and comes out.

    Attributes
    ----------
    inputs, outputs : dict
        By buffer what shows it.
    written : set of int
        Buffers among the inputs that are written.
    """

    inputs: dict[int, Ref] = field(default_factory=dict)
    outputs: dict[int, Ref] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, steps: Sequence[Step], shown: Mapping[int, Ref], buffers: Sequence[Buffer], read_after: set[int]
    ) -> Boundary:
        """That of ``steps``, before which the buffers ``shown`` are there."""
        result = cls()
        created: dict[int, Ref] = {}
        for step in steps:
            for ref in step.reads():
                number = ref.buffer
                if number in shown:
                    result.inputs[number] = shown[number]
                elif number not in created and buffers[number].source == "empty":
                    layout = contiguous[(buffers[number].size,), uint8, ref.layout.device_state]
                    created[number] = Ref(number, layout, 0)
            for ref in refs(step.result):
                if ref.buffer not in shown:
                    created.setdefault(ref.buffer, ref)
            result.written |= step.writes
        result.written &= result.inputs.keys()
        result.outputs = {number: ref for number, ref in created.items() if number in read_after}
        return result

    def obstacle(self, steps: Sequence[Step], later: Sequence[Ref], by_reference: set[int]) -> str:
        """Why the part cannot be replayed; empty if it can: ``later`` is what is read after it."""
        inside = [ref for step in steps for ref in (*step.reads(), *refs(step.result))]
        copied = {number: ref for number, ref in self.inputs.items() if number not in by_reference}
        for ref in inside:
            whole = copied.get(ref.buffer)
            if whole is not None and not _shows(whole, ref):
                return "what it reads is not all of what one argument shows"
        for ref in later:
            whole = self.outputs.get(ref.buffer)
            if whole is not None and not _shows(whole, ref):
                return "several of its results lie in one memory"
        return ""


def _shows(whole: Ref, ref: Ref) -> bool:
    """Whether a copy of the elements of ``whole`` has those of ``ref``."""
    if ref.offset == whole.offset and ref.layout is whole.layout:
        return True
    start, end = whole.offset, whole.offset + whole.layout.nbytes
    return whole.layout.dense and start <= ref.offset and ref.offset + ref.layout.nbytes <= end
