"""``BlockMask``: which blocks of queries and keys attention computes, and where in these it asks a function."""

from __future__ import annotations

import itertools
from copy import copy
from typing import TYPE_CHECKING, Any

import tensor
from tensor import Tensor

from .modifications import Numbers, noop_mask, takes_score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from .modifications import MaskMod

#: Elements of a mask that are looked at in one piece while blocks are found.
_PIECE = 1 << 24
_TENSORS = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "q_num_blocks",
    "q_indices",
    "full_q_num_blocks",
    "full_q_indices",
)


class BlockMask:
    """Which blocks of keys each block of queries sees: in part, where ``mask_mod`` decides, or in full.

    :func:`create_block_mask` makes one of a function, :meth:`from_kv_blocks` of the blocks themselves.

    Parameters
    ----------
    seq_lengths : tuple of two ints
        Numbers of queries and keys.
    kv_num_blocks : Tensor
        How many blocks of keys each block of queries sees in part, int32, ``(..., rows)``; before the rows are batch and
        head.
    kv_indices : Tensor
        Their numbers, in the first so many columns, int32, ``(..., rows, columns)``.
    full_kv_num_blocks, full_kv_indices : Tensor or None
        The same of blocks that are seen in full.
    q_num_blocks, q_indices, full_q_num_blocks, full_q_indices : Tensor or None
        The same the other way around: the blocks of queries that see a block of keys.
    BLOCK_SIZE : tuple of two ints
        Queries and keys of a block.
    mask_mod : callable
        Whether a query sees a key of a block that is seen in part: a function of the numbers of batch, head, query, key.
    dq_write_order, dq_write_order_full, dq_kv_order, dq_kv_order_spt
        Orders of PyTorch's backward kernels: accepted, and not used.

    Raises
    ------
    ValueError
        If only one of a pair of tensors is given, or ``kv_indices`` has not two dimensions.

    Examples
    --------
    >>> from nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cpu")
    >>> mask.shape, mask.sparsity(), mask.kv_num_blocks.tolist()
    ((1, 1, 256, 256), 25.0, [[[1, 1]]])
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (128, 128),  # noqa: N803 - PyTorch's name
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise ValueError("BlockMask must have at least 2 dimensions")
        for first, second, name in (
            (full_kv_num_blocks, full_kv_indices, "full_kv"),
            (q_num_blocks, q_indices, "q"),
            (full_q_num_blocks, full_q_indices, "full_q"),
        ):
            if (first is None) != (second is None):
                raise ValueError(f"{name}_num_blocks and {name}_indices must be both provided or omitted")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        self.dq_write_order = dq_write_order
        self.dq_write_order_full = dq_write_order_full
        self.dq_kv_order = dq_kv_order
        self.dq_kv_order_spt = dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = 128,  # noqa: N803 - PyTorch's name
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | bool | None = None,
    ) -> Self:
        """A mask of the blocks of keys that each block of queries sees.

        Parameters
        ----------
        kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, mask_mod
            As for :class:`BlockMask`; without ``mask_mod`` blocks that are seen in part are seen in full.
        BLOCK_SIZE : int or tuple of two ints
            Queries and keys of a block.
        seq_lengths : tuple of two ints, optional
            Numbers of queries and keys; by default those of the blocks.
        compute_q_blocks : bool
            Whether the blocks of queries that see a block of keys are listed too.
        dq_write_order, dq_write_order_full, dq_kv_order
            Accepted, and not used.

        Raises
        ------
        ValueError
            As :class:`BlockMask`.
        """
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if kv_indices.dim() < 2:
            raise ValueError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ValueError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        queries: list[Any] = [None] * 4
        if compute_q_blocks:
            queries[:2] = _listed(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                queries[2:] = _listed(_dense(full_kv_num_blocks, full_kv_indices).mT)
        if seq_lengths is None:
            seq_lengths = kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1]
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            queries[0],
            queries[1],
            queries[2],
            queries[3],
            size,
            mask_mod or noop_mask,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if isinstance(dq_kv_order, Tensor) else None,
        )

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch and heads, and the numbers of queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Number of scores without a mask.

        The product of :attr:`shape`.
        """
        result = 1
        for size in self.shape:
            result *= size
        return result

    def sparsity(self) -> float:
        """Percentage of the scores that are not computed.

        Blocks at the end count as whole ones, so that it may be below 0.
        """
        blocks = int(self.to_dense().sum())
        rows, columns = self.BLOCK_SIZE
        return 100 * (1 - blocks * rows * columns / self.numel())

    def to_dense(self) -> Tensor:
        """1 for each block that is seen, in part or in full, else 0.

        Of shape ``(..., rows, columns)``, int32.
        """
        result = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            result = result | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return result

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All that it is made of, in the order of :class:`BlockMask`'s parameters.

        With ``flatten`` the two lengths and the two sizes of blocks stand for themselves, otherwise in tuples.
        """
        lengths, size = (self.seq_lengths,), (self.BLOCK_SIZE,)
        return (
            *(self.seq_lengths if flatten else lengths),
            *(getattr(self, each) for each in _TENSORS),
            self.dq_write_order,
            self.dq_write_order_full,
            self.dq_kv_order,
            self.dq_kv_order_spt,
            *(self.BLOCK_SIZE if flatten else size),
            self.mask_mod,
        )

    # Others made of it

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and blocks of queries: numbers, which keep the dimension, slices or tensors.

        Its ``mask_mod`` would be asked for other numbers than before, and raises RuntimeError: set another.
        """
        key = index if isinstance(index, tuple) else (index,)
        sizes = self.kv_num_blocks.shape[:3]
        padded = (*key, *[slice(None)] * 3)[:3]
        key = tuple(_as_slice(each, size) for each, size in zip(padded, sizes, strict=True))
        lists = [None if x is None else x[key] for x in self._tensors()[:4]]
        return self._of_lists(lists, _of_a_slice, self.seq_lengths)

    def to(self, device: Any) -> BlockMask:
        """The mask with its tensors on ``device``.

        ``mask_mod`` is the same, and may use tensors that are elsewhere.
        """
        moved = copy(self)
        for name in _TENSORS:
            x = getattr(self, name)
            setattr(moved, name, None if x is None else x.to(device))
        return moved

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask of the first queries and keys."""
        rows, columns = self.BLOCK_SIZE
        corner = slice(-(-new_q_len // rows)), slice(-(-new_kv_len // columns))
        lists: list[Any] = [*_listed(_dense(self.kv_num_blocks, self.kv_indices)[..., *corner]), None, None]
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            lists[2:] = _listed(_dense(self.full_kv_num_blocks, self.full_kv_indices)[..., *corner])
        return self._of_lists(lists, self.mask_mod, (new_q_len, new_kv_len))

    def _of_lists(self, lists: list[Any], mask_mod: MaskMod, seq_lengths: tuple[int, int]) -> BlockMask:
        return type(self).from_kv_blocks(
            lists[0],
            lists[1],
            lists[2],
            lists[3],
            self.BLOCK_SIZE,
            mask_mod,
            seq_lengths,
            self.q_indices is not None,
        )

    def _tensors(self) -> list[Any]:
        return [getattr(self, each) for each in _TENSORS]

    # Text

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks for each batch and head: seen, in part, not at all.

        Parameters
        ----------
        grid_size : int or tuple of two ints
            Rows and columns at the most; -1 for all.
        limit : int
            Pictures at the most.
        """
        dense = self.to_dense().cpu()
        *batch, rows, columns = dense.shape
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        steps = [
            1 if size == -1 else max(1, -(-count // size))
            for count, size in zip((rows, columns), most, strict=True)
        ]
        pictures = []
        for number, position in enumerate(itertools.product(*map(range, batch))):
            if number == limit:
                pictures += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head",
                ]
                break
            lines = [f"{position}"]
            table = dense[position].float()
            for row in range(0, rows, steps[0]):
                pieces = (table[row : row + steps[0], c : c + steps[1]] for c in range(0, columns, steps[1]))
                lines.append("".join(2 * _drawn(float(each.mean())) for each in pieces))
            pictures.append("\n".join([*lines, ""]))
        return "\n".join(pictures)

    def __str__(self) -> str:
        head = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
        return f"{head}{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        shapes = (
            f"    {name}={None if x is None else x.shape},\n"
            for name, x in zip(_TENSORS, self._tensors(), strict=True)
        )
        return (
            f"BlockMask(\n{''.join(shapes)}"
            f"    BLOCK_SIZE={self.BLOCK_SIZE},\n"
            f"    shape={self.shape},\n"
            f"    sparsity={self.sparsity():.2f}%,\n"
            f"    mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}\n)"
        )


def _drawn(share: float) -> str:
    if share == 1:
        return "█"
    return "░" if share else " "


def _as_slice(index: Any, size: int) -> Any:
    """A number as a slice, which keeps the dimension."""
    if not isinstance(index, int):
        return index
    if -size <= index < 0:
        index += size
    return slice(index, index + 1)


def _of_a_slice(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


def _dense(counts: Tensor, indices: Tensor) -> Tensor:
    """1 at the columns that ``indices`` list for each row, of which the first ``counts`` count: int32."""
    listed = tensor.arange(indices.shape[-1], device=indices.device) < counts[..., None]
    result = tensor.zeros(indices.shape, dtype=tensor.int32, device=indices.device)
    return result.scatter(-1, indices.long(), listed.to(tensor.int32))


def _listed(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Counts of the ones of each row, and their columns before those of the zeros; both int32 and in order."""
    columns = dense.to(tensor.int32).argsort(dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(tensor.int32), columns.to(tensor.int32).contiguous()


def bands(mask: BlockMask) -> Iterator[tuple[slice, list[int], bool]]:
    """Rows of blocks that see the same columns in some batch and head: the queries, the columns, whether all in full.

    Nothing is in full where ``mask_mod`` decides, in any batch or head.
    """
    rows = mask.BLOCK_SIZE[0]
    partial = _dense(mask.kv_num_blocks, mask.kv_indices)
    seen = partial
    full = None
    if mask.full_kv_num_blocks is not None and mask.full_kv_indices is not None:
        full = _dense(mask.full_kv_num_blocks, mask.full_kv_indices)
        seen = partial | full
    columns = seen.flatten(0, -3).amax(0) if seen.dim() > 2 else seen
    shown: list[list[int]] = [[i for i, x in enumerate(row) if x] for row in columns.tolist()]
    whole = None
    if full is not None:
        every = full.flatten(0, -3).amin(0) if full.dim() > 2 else full
        whole = [[i for i, x in enumerate(row) if x] for row in every.tolist()]
    queries = mask.seq_lengths[0]
    for (blocks, in_full), group in itertools.groupby(
        range(len(shown)), lambda row: (shown[row], whole is not None and whole[row] == shown[row])
    ):
        members = [*group]
        yield slice(members[0] * rows, min((members[-1] + 1) * rows, queries)), blocks, in_full


def visible(mask: BlockMask, batch: int, heads: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Whether queries of these numbers see keys of these: bool, ``(batch or 1, heads or 1, queries, keys)``."""
    rows, columns = mask.BLOCK_SIZE
    at = (queries // rows)[:, None].long(), (keys // columns)[None, :].long()
    partial = _dense(mask.kv_num_blocks, mask.kv_indices)[..., *at].bool()
    if mask.mask_mod is not noop_mask:
        partial = partial & Numbers(batch, heads, queries, keys).masks(mask.mask_mod)
    if mask.full_kv_num_blocks is None or mask.full_kv_indices is None:
        return partial
    return partial | _dense(mask.full_kv_num_blocks, mask.full_kv_indices)[..., *at].bool()


def create_mask(
    mod_fn: Callable[..., Tensor],
    B: int | None,  # noqa: N803 - PyTorch's names
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: Any = None,
) -> Tensor:
    """What a ``mask_mod`` returns for all scores, or where a ``score_mod`` leaves a score of 0 above minus infinity.

    Parameters
    ----------
    mod_fn : callable
        A function of the numbers of batch, head, query and key, or of a score and these.
    B, H : int or None
        Batches and heads; None for 1.
    Q_LEN, KV_LEN : int
        Queries and keys.
    device : device, str or None
        Where; by default on the accelerator where there is one.

    Returns
    -------
    Tensor
        Of shape ``(B, H, Q_LEN, KV_LEN)``, bool of a ``score_mod``.

    Raises
    ------
    TypeError, ValueError
        If ``mod_fn`` is not callable, or takes another number of arguments.
    """
    score = takes_score(mod_fn)
    device = _default_device() if device is None else device
    sizes = B or 1, H or 1
    numbers = Numbers(
        *sizes,
        tensor.arange(Q_LEN, dtype=tensor.int32, device=device),
        tensor.arange(KV_LEN, dtype=tensor.int32, device=device),
    )
    if not score:
        return numbers.masks(mod_fn)
    scores = numbers.scores(mod_fn, tensor.zeros(*sizes, Q_LEN, KV_LEN, device=device))
    return ~tensor.isneginf(scores)


def _default_device() -> Any:
    return tensor.accelerator.current_accelerator() or "cpu"


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,  # noqa: N803 - PyTorch's names
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = 128,  # noqa: N803
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The blocks in which ``mask_mod`` lets some query see some key.

    ``mask_mod`` is asked for some rows of blocks at a time, so that memory is bounded.

    Parameters
    ----------
    mask_mod : callable
        Whether a query sees a key: a function of the numbers of batch, head, query and key.
    B, H : int or None
        Batches and heads that differ; None for 1, which serves all.
    Q_LEN, KV_LEN : int
        Queries and keys.
    device : device, str or None
        Where; by default on the accelerator where there is one.
    BLOCK_SIZE : int or tuple of two ints
        Queries and keys of a block.
    separate_full_blocks : bool
        Whether blocks that are seen in full are listed apart, for which ``mask_mod`` need not be asked again.
    compute_dq_write_order, dq_kv_order
        Accepted, and not used.

    Returns
    -------
    BlockMask
        Of shape ``(B, H, Q_LEN, KV_LEN)``.

    Raises
    ------
    TypeError, ValueError
        If ``mask_mod`` is not callable, takes another number of arguments, or sizes of blocks are not positive.

    Examples
    --------
    >>> from nn.attention.flex_attention import create_block_mask
    >>> window = create_block_mask(
    ...     lambda b, h, q, k: (q >= k) & (q - k < 128), None, None, 512, 512, device="cpu"
    ... )
    >>> window.to_dense()[0, 0].tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """
    if takes_score(mask_mod):
        raise ValueError("create-block_mask requires a mask_mod function: one of batch, head, q_idx, kv_idx")
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    if rows < 1 or columns < 1:
        raise ValueError(f"create_block_mask(): BLOCK_SIZE must be positive, got {BLOCK_SIZE}")
    device = _default_device() if device is None else device
    sizes = B or 1, H or 1
    keys = tensor.arange(KV_LEN, dtype=tensor.int32, device=device)
    step = max(1, _PIECE // max(1, sizes[0] * sizes[1] * rows * KV_LEN)) * rows
    counts = []
    for start in range(0, max(Q_LEN, 1), step):
        queries = tensor.arange(start, min(start + step, Q_LEN), dtype=tensor.int32, device=device)
        mask = Numbers(*sizes, queries, keys).masks(mask_mod)
        below, right = -mask.shape[-2] % rows, -KV_LEN % columns
        padded = _padded(mask, below, right)
        blocks = padded.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows))
        counts.append(blocks.sum((-3, -1)))
    count = tensor.cat(counts, -2)
    full = count == rows * columns
    partial = count > 0
    lists: list[Any] = [*_listed(partial & ~full if separate_full_blocks else partial), None, None]
    if separate_full_blocks:
        lists[2:] = _listed(full)
    return BlockMask.from_kv_blocks(
        lists[0], lists[1], lists[2], lists[3], (rows, columns), mask_mod, (Q_LEN, KV_LEN)
    )


def _padded(mask: Tensor, below: int, right: int) -> Tensor:
    if not below and not right:
        return mask
    *batch, rows, columns = mask.shape
    result = mask.new_zeros((*batch, rows + below, columns + right))
    result[..., :rows, :columns] = mask
    return result
