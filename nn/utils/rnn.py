"""Batches of sequences of different lengths, padded or packed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import tensor as library
from tensor import Tensor
from tensor.core.names.absent import hints as _hints
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
    """A batch of sequences of different lengths without padding, time step by time step.

    The functions of this module construct it, and the recurrent layers take it.

    Attributes
    ----------
    data : Tensor
        Shape (sum of batch_sizes, ...): the first elements of all sequences, then the second ones of those that have
        two, ...
    batch_sizes : Tensor
        Number of sequences that have an element at each time step, int64 on the CPU.
    sorted_indices : Tensor or None
        Original index of each sequence; they are sorted by decreasing length. ``None`` if they were sorted already.
    unsorted_indices : Tensor or None
        The inverse permutation.

    Raises
    ------
    ValueError
        If ``batch_sizes`` is not on the CPU.
    AssertionError
        If ``batch_sizes`` is missing, and ``data`` is not a pair of both.

    Examples
    --------
    >>> packed = nn.utils.rnn.pack_sequence([tensor.tensor([1, 2, 3]), tensor.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        """A packed sequence of its fields, or of a pair of data and batch sizes."""
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            pair: Any = data
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise AssertionError(
                    f"PackedSequence: expected data and batch_sizes, or a pair of both, got {type(pair).__name__}"
                )
            data, batch_sizes = pair
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                f"batch_sizes should always be on CPU, got {batch_sizes.device}: make a PackedSequence with pack_sequence "
                "or pack_padded_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert the data as ``data.to(...)`` does, and move the indices to their device; itself if nothing changes.

        Raises as :meth:`tensor.Tensor.to`.
        """
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
        """Move to a CUDA device, by default the current one.

        Arguments are those of :meth:`tensor.Tensor.to`, as are the errors; ``batch_sizes`` stays on the CPU. Returns itself if
        nothing changes.
        """
        if self._device_after(args, kwargs) == "cuda":
            return self.to(*args, **kwargs)
        return self.to(*args, **{**kwargs, "device": "cuda"})

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Move to the CPU.

        Arguments are those of :meth:`tensor.Tensor.to`, as are the errors. Returns itself if nothing changes.
        """
        if self._device_after(args, kwargs) == "cpu":
            return self.to(*args, **kwargs)
        return self.to(*args, **{**kwargs, "device": "cpu"})

    def _device_after(self, args: Any, kwargs: Any) -> str:
        """The type of device of the result of ``to`` with these arguments."""
        return str(self.data.new_empty(0).to(*args, **kwargs).device.type)

    def pin_memory(self) -> Self:
        """Copy to pinned host memory.

        Data and indices are copied, so that copies of them to a device are asynchronous; ``batch_sizes`` stays where it is.
        Raises as :meth:`tensor.Tensor.pin_memory`.
        """
        indices = [
            None if each is None else each.pin_memory()
            for each in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def _converted(self, dtype: dtype) -> Self:
        return self.to(dtype=dtype)

    def double(self) -> Self:
        """Convert the data to float64.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.float64)

    def float(self) -> Self:
        """Convert the data to float32.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.float32)

    def half(self) -> Self:
        """Convert the data to float16.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.float16)

    def long(self) -> Self:
        """Convert the data to int64.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.int64)

    def int(self) -> Self:
        """Convert the data to int32.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.int32)

    def short(self) -> Self:
        """Convert the data to int16.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.int16)

    def char(self) -> Self:
        """Convert the data to int8.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.int8)

    def byte(self) -> Self:
        """Convert the data to uint8.

        Indices and ``batch_sizes`` stay int64. Returns itself if the data has this dtype already.
        """
        return self._converted(library.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation, int64 of shape (n,): ``result[permutation] = arange(n)``; ``None`` for ``None``.

    Examples
    --------
    >>> nn.utils.rnn.invert_permutation(tensor.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    positions = library.arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    return library.empty_like(permutation).scatter_(0, permutation, positions)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch of sequences.

    Parameters
    ----------
    input : Tensor
        Shape (T, N, ...), or (N, T, ...) if ``batch_first``.
    lengths : Tensor or sequence of int
        Length of each sequence; a tensor must be on the CPU.
    batch_first : bool
        Whether the first dimension of ``input`` is the batch.
    enforce_sorted : bool
        Whether the lengths must be in decreasing order; otherwise the sequences are sorted.

    Returns
    -------
    PackedSequence
        With gradients to ``input``.

    Raises
    ------
    RuntimeError
        If a length is less than 1 or greater than T, there is not one for each sequence, they are not on the CPU, or
        not sorted although ``enforce_sorted``.
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
        if any(following > previous for previous, following in pairwise(numbers)):
            raise RuntimeError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
                "you do not need ONNX exportability."
            )
    else:
        order = sorted(range(batch), key=lambda sample: -numbers[sample])
        numbers = [numbers[sample] for sample in order]
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
    """Number of sequences, of decreasing lengths, that have an element at each time step."""
    sizes, still = [], len(lengths)
    for step in range(lengths[0]):
        while lengths[still - 1] <= step:
            still -= 1
        sizes.append(still)
    return sizes


def _lengths(sizes: Sequence[int]) -> list[int]:
    """Lengths of the sequences, in decreasing order, from the batch sizes."""
    lengths: list[int] = [0] * (sizes[0] if sizes else 0)
    for step, count in enumerate(sizes):
        lengths[:count] = [step + 1] * count
    return lengths


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Inverse of :func:`pack_padded_sequence`.

    Parameters
    ----------
    sequence : PackedSequence
        The sequences.
    batch_first : bool
        Whether the first dimension of the result is the batch.
    padding_value : float
        Value of the padding.
    total_length : int, optional
        Length to pad to; the longest sequence's by default.

    Returns
    -------
    tuple of Tensor
        The padded batch, of shape (T, N, ...) or (N, T, ...), and the lengths, int64 on the CPU.

    Raises
    ------
    ValueError
        If ``total_length`` is less than the length of the longest sequence.
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
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences of different lengths, padding the shorter ones.

    Parameters
    ----------
    sequences : iterable of Tensor
        Sequences of shape (L, ...), equal but for L.
    batch_first : bool
        Whether the first dimension of the result is the batch.
    padding_value : float
        Value of the padding.
    padding_side : str
        ``"right"`` to pad at the end, ``"left"`` at the beginning.

    Returns
    -------
    Tensor
        Shape (T, N, ...), or (N, T, ...) if ``batch_first``.

    Raises
    ------
    RuntimeError
        If there are no sequences, their other dimensions differ, or the side is unknown.
    TypeError
        If one of them is not a tensor.

    Examples
    --------
    >>> nn.utils.rnn.pad_sequence([tensor.ones(2), tensor.ones(3)], batch_first=True)
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    listed = list(sequences)
    if not listed:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f'Expected padding_side to be one of "left" or "right", but got {padding_side}.')
    for each in listed:
        if not isinstance(each, Tensor):
            raise TypeError(f"pad_sequence: expected sequences that are tensors, got {type(each).__name__}")
        if not each.dim() or each.shape[1:] != listed[0].shape[1:]:
            raise RuntimeError(
                f"pad_sequence: expected sequences of shape (L, {', '.join(map(str, listed[0].shape[1:]))}), got "
                f"{list(each.shape)}"
            )
    return packing.pad_sequences(listed, padding_value, batch_first=batch_first, left=padding_side == "left")


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Split a padded batch into its sequences.

    Parameters
    ----------
    padded_sequences : Tensor
        Shape (T, N, ...), or (N, T, ...) if ``batch_first``.
    lengths : Tensor
        Length of each sequence.
    batch_first : bool
        Whether the first dimension is the batch.

    Returns
    -------
    list of Tensor
        Copies of shape (L, ...).
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[number, :length].clone() for number, length in enumerate(lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths.

    Parameters
    ----------
    sequences : sequence of Tensor
        Sequences of shape (L, ...).
    enforce_sorted : bool
        Whether they must be in order of decreasing length; otherwise they are sorted.

    Raises
    ------
    RuntimeError
        See :func:`pad_sequence` and :func:`pack_padded_sequence`.
    """
    lengths = [each.size(0) for each in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of ``packed_sequences``, a :class:`PackedSequence`, as a list of tensors in their original order.

    Examples
    --------
    >>> packed = nn.utils.rnn.pack_sequence([tensor.tensor([4]), tensor.tensor([1, 2, 3])], enforce_sorted=False)
    >>> nn.utils.rnn.unpack_sequence(packed)
    [tensor([4]), tensor([1, 2, 3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
