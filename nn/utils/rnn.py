"""Batches of sequences of several lengths, padded or packed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import tensor as library
from tensor import Tensor
from tensor.operations.recurrent import packing

if TYPE_CHECKING:
    from tensor import dtype

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """A batch of sequences, step after step, without padding; made by the functions of this module.

    Attributes
    ----------
    data : Tensor
        Of shape (rows, ...): the first elements of all sequences, then the second ones of those that have two, ...
    batch_sizes : Tensor
        How many sequences have an element at each step, int64 on the CPU.
    sorted_indices : Tensor or None
        The place that each sequence had before they were sorted by their lengths, longest first.
    unsorted_indices : Tensor or None
        The inverse of it, that is the place of each sequence in what is sorted.

    Raises
    ------
    ValueError
        If ``batch_sizes`` is not on the CPU.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        """Packed sequences of their parts, or of a pair of data and batch sizes."""
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError(
                    f"PackedSequence: expected data and batch_sizes, or a pair of both, got {type(data).__name__}"
                )
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                f"batch_sizes should always be on CPU, got {batch_sizes.device}: make a PackedSequence with pack_sequence "
                "or pack_padded_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The sequences with ``data.to(...)``, and the indices on the same device; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        # In all forms of arguments the first bool is that.
        non_blocking = kwargs.get(
            "non_blocking", next((each for each in args if isinstance(each, bool)), False)
        )
        indices = [
            None if each is None else each.to(data.device, non_blocking=non_blocking)
            for each in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """The sequences on a CUDA device, by default the current one."""
        if self._device_after(args, kwargs) == "cuda":
            return self.to(*args, **kwargs)
        return self.to(*args, **{**kwargs, "device": "cuda"})

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """The sequences on the CPU."""
        if self._device_after(args, kwargs) == "cpu":
            return self.to(*args, **kwargs)
        return self.to(*args, **{**kwargs, "device": "cpu"})

    def _device_after(self, args: Any, kwargs: Any) -> str:
        """The type of device that ``to`` with these arguments leads to."""
        return str(self.data.new_empty(0).to(*args, **kwargs).device.type)

    def pin_memory(self) -> Self:
        """The sequences in pinned memory."""
        indices = [
            None if each is None else each.pin_memory()
            for each in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def _converted(self, kind: dtype) -> Self:
        return self.to(dtype=kind)

    def double(self) -> Self:
        """The sequences as float64."""
        return self._converted(library.float64)

    def float(self) -> Self:
        """The sequences as float32."""
        return self._converted(library.float32)

    def half(self) -> Self:
        """The sequences as float16."""
        return self._converted(library.float16)

    def long(self) -> Self:
        """The sequences as int64."""
        return self._converted(library.int64)

    def int(self) -> Self:
        """The sequences as int32."""
        return self._converted(library.int32)

    def short(self) -> Self:
        """The sequences as int16."""
        return self._converted(library.int16)

    def char(self) -> Self:
        """The sequences as int8."""
        return self._converted(library.int8)

    def byte(self) -> Self:
        """The sequences as uint8."""
        return self._converted(library.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data are in pinned memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes ``permutation``; ``None`` for none."""
    if permutation is None:
        return None
    places = library.arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    return library.empty_like(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch.

    Parameters
    ----------
    input : Tensor
        Of shape (T, B, ...), or (B, T, ...) if ``batch_first``.
    lengths : Tensor or sequence of int
        Of each sequence; a tensor must be on the CPU.
    batch_first : bool
        Whether the first dimension of ``input`` is the batch.
    enforce_sorted : bool
        Whether it is an error if a sequence is longer than the one before; else they are sorted.

    Raises
    ------
    RuntimeError
        If a length is below 1 or above T, there are not as many as sequences, they are not on the CPU, or should be
        sorted and are not.
    """
    if isinstance(lengths, Tensor):
        if lengths.device.type != "cpu":
            raise RuntimeError(
                "'lengths' argument should be a 1D CPU int64 tensor, but got "
                f"{lengths.dim()}D {lengths.device} {lengths.dtype} tensor: move it with lengths.cpu()"
            )
        if lengths.dim() != 1:
            raise RuntimeError(
                f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D"
            )
        numbers = lengths.to(library.int64).tolist()
    else:
        numbers = [int(length) for length in lengths]
    if input.dim() < 2:
        raise RuntimeError(f"Expected input of at least 2 dimensions, (T, B, ...), got {input.dim()}D")
    if input.numel() == 0 and 0 in input.shape[:2]:
        raise RuntimeError("Cannot pack empty tensors.")
    steps, batch = input.shape[1::-1] if batch_first else input.shape[:2]
    if len(numbers) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(numbers)} (batch_size={batch})"
        )
    if min(numbers) <= 0:
        raise RuntimeError(
            f"Length of all samples has to be greater than 0, but found an element in 'lengths' that is {min(numbers)}"
        )
    sorted_indices = None
    if enforce_sorted:
        if any(later > former for former, later in pairwise(numbers)):
            raise RuntimeError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
                "you do not need ONNX exportability."
            )
    else:
        order = sorted(range(batch), key=lambda place: -numbers[place])
        numbers = [numbers[place] for place in order]
        sorted_indices = library.tensor(order, dtype=library.int64).to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if numbers[0] > steps:
        raise RuntimeError(
            f"Expected lengths of at most {steps}, the steps of the padded input, but got {numbers[0]}"
        )
    sizes = _batch_sizes(numbers)
    data = packing.pack(input.transpose(0, 1) if batch_first else input, sizes)
    return PackedSequence(data, library.tensor(sizes, dtype=library.int64), sorted_indices, None)


def _batch_sizes(lengths: Sequence[int]) -> list[int]:
    """How many of the sequences, longest first, have each step."""
    sizes, still = [], len(lengths)
    for step in range(lengths[0]):
        while lengths[still - 1] <= step:
            still -= 1
        sizes.append(still)
    return sizes


def _lengths(sizes: Sequence[int]) -> list[int]:
    """Lengths of the sequences, longest first, of which so many have each step."""
    found: list[int] = [0] * (sizes[0] if sizes else 0)
    for step, count in enumerate(sizes):
        found[:count] = [step + 1] * count
    return found


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo :func:`pack_padded_sequence`.

    Parameters
    ----------
    batch_first : bool
        Whether the first dimension of the result is the batch.
    padding_value : float
        What is behind the end of a sequence.
    total_length : int, optional
        Length to pad to, where not to that of the longest sequence.

    Returns
    -------
    tuple of Tensor
        The padded batch, of shape (T, B, ...) or (B, T, ...), and the lengths, int64 on the CPU.

    Raises
    ------
    ValueError
        If ``total_length`` is less than the longest sequence.
    """
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    lengths = library.tensor(_lengths(sizes), dtype=library.int64)
    padded = packing.pad(sequence.data, sizes, sizes[0], steps, padding_value)
    if batch_first:
        padded = padded.transpose(0, 1)
    places = sequence.unsorted_indices
    if places is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, places), lengths[places.cpu()]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Put sequences of several lengths, (L, ...), into one tensor (T, B, ...), or (B, T, ...) if ``batch_first``.

    Parameters
    ----------
    padding_value : float
        What fills the shorter ones up.
    padding_side : str
        ``"right"`` for the end, ``"left"`` for the beginning.

    Raises
    ------
    RuntimeError
        If there are no sequences, or their other dimensions are not the same.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    given = list(sequences)
    if not given:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f'Expected padding_side to be one of "left" or "right", but got {padding_side}.')
    for each in given:
        if not isinstance(each, Tensor):
            raise TypeError(f"pad_sequence: expected sequences that are tensors, got {type(each).__name__}")
        if not each.dim() or each.shape[1:] != given[0].shape[1:]:
            raise RuntimeError(
                f"pad_sequence: expected sequences of shape (L, {', '.join(map(str, given[0].shape[1:]))}), got "
                f"{list(each.shape)}"
            )
    return packing.pad_sequences(given, padding_value, batch_first=batch_first, left=padding_side == "left")


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each with its own length."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[number, :length].clone() for number, length in enumerate(lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of shape (L, ...), of decreasing lengths if ``enforce_sorted``.

    Raises
    ------
    RuntimeError
        As :func:`pad_sequence` and :func:`pack_padded_sequence`.
    """
    lengths = [each.size(0) for each in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, in the order in which they were given."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
