"""What the function of an element takes and returns, and how a loop reads its operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype

#: Names of the device functions of an element and of a block of random words, and options by which the compiler keeps them
#: though no kernel calls them.
ELEMENT, WORDS, RELOCATABLE = "element", "words", ("--relocatable-device-code=true",)
#: How an operand is read along a row: neighbours, one element for all, or with a step.
NEIGHBOURS, SAME, STEPS = "neighbours", "same", "steps"
#: LLVM's types of numbers, by their code of :mod:`struct`.
SCALARS = {"d": "double", "f": "float", "i": "i32", "q": "i64", "Q": "i64", "?": "i8"}


class Signature(NamedTuple):
    """What the function of an element takes and returns.

    Attributes
    ----------
    results : tuple of (byte, dtype)
        Where each is in what the device function returns.
    inputs : tuple of dtype
        Types of the operands.
    scalars : tuple of str
        Codes of the numbers.
    counted : bool
        Whether it takes the element's number first.
    pack : int
        How many neighbours of each operand it takes or returns at a time: then ``results`` and ``inputs`` have that many entries
        for each operand, and all operands are contiguous.
    draws : bool
        Whether it takes a random word first. Then the first two numbers say which words are drawn, in row-major order, and are
        given to the device function ``words(block, seed, call)``, which makes four.
    """

    results: tuple[tuple[int, dtype], ...]
    inputs: tuple[dtype, ...]
    scalars: tuple[str, ...] = ()
    counted: bool = False
    pack: int = 1
    draws: bool = False

    @property
    def operands(self) -> int:
        """How many there are, in memory."""
        return (len(self.results) + len(self.inputs)) // self.pack
