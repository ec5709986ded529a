"""Attention of half precision and float32 on a device: kernels that read operands where they lie and have no scores in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import fused_attention
from nvrtc_kernels.dtypes import float32, float64
from nvrtc_kernels.layouts import broadcast_strides
from tensor.core.base import maker
from tensor.core.layout import contiguous

from .arrangement import packed_like
from .on_device import mask_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.attention import Dropout
    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .arrangement import Arrangement


def plan(
    arrangement: Arrangement, addresses: int, dropping: bool, tf32: bool
) -> Callable[..., tuple[Tensor, Tensor]]:
    """What computes result and logarithms in one kernel: ``run(query, key, value, mask, dropout, scale)``.

    The operands are what users gave, the result is what they get. ``addresses`` has the lowest bits that are set in
    an address of one of them.
    """
    operands = arrangement.fused
    assert operands is not None
    sizes, out = operands.sizes, operands.out
    device_state: Any = out.device_state
    seen = mask_rows(arrangement.mask)
    strides = *operands.strides, operands.strides_of(out.shape, out.strides, own=True)
    launch = fused_attention.plan(
        device_state.native,
        out.dtype,
        sizes,
        strides,
        _piece(sizes, out.dtype, strides[:3], addresses),
        seen,
        dropping=dropping,
        tf32=tf32,
        aligned=addresses == 0,
    )
    make, local = maker(out), device_state.local
    make_logarithms = maker(_rows(arrangement))

    def run(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: Dropout | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        result, logarithms = make(), make_logarithms()
        launch(
            local.stream.handle,
            scale,
            b"",
            b"" if seen is None or mask is None else seen.packed(mask._address),
            b"" if dropout is None else dropout.packed,
            query._address,
            key._address,
            value._address,
            result._address,
            logarithms._address,
        )
        return result, logarithms

    return run


def _rows(arrangement: Arrangement, dtype: Any = float32) -> Layout:
    """One number for each row of scores."""
    problem = arrangement.problem
    assert problem is not None
    return contiguous[(problem.matrices, problem.rows), dtype, arrangement.out.device_state]


def _piece(
    sizes: fused_attention.Sizes, dtype: dtype, strides: Sequence[Sequence[int]], addresses: int
) -> int:
    """How many elements the kernels read at a time."""
    steps = (step for each in strides for step in each[:-1])
    return fused_attention.piece_of(
        dtype.itemsize, sizes.width, sizes.values, *steps, addresses // dtype.itemsize
    )


def plan_backward(
    arrangement: Arrangement, grad: Layout, result: Layout, addresses: int, expected: tuple[bool, ...],
    dropping: bool, tf32: bool, outputs: Sequence[Layout] | None = None,
) -> Callable[..., tuple[Tensor | None, ...]]:  # fmt: skip
    """What computes gradients, in two launches, of few rows in one and of wide ones in three.

    ``run(grad, query, key, value, mask, result, logarithms, dropout, scale)`` gives those of query, key and value that are
    expected; rows of each lie in the order in memory that those of the operand have. With ``outputs``, layouts with neighbours
    in a row, ``run`` is given tensors of these as well, last, which it writes and returns.
    """
    operands = arrangement.fused
    assert operands is not None
    assert float64.itemsize == fused_attention.STATISTICS
    device_state: Any = grad.device_state
    sizes, seen = operands.sizes, mask_rows(arrangement.mask)
    strides = [
        *operands.strides,
        *(operands.strides_of(x.shape, x.strides, own=True) for x in (result, grad)),
    ]
    piece = _piece(sizes, grad.dtype, strides, addresses)
    makers: list[Callable[[], Tensor] | None] = []
    for number, layout in enumerate(arrangement.layouts):
        if arrangement.is_stretched(number):
            full = arrangement.full[number]
            layout = contiguous[full, grad.dtype, device_state]
            strides.append(broadcast_strides(full, layout.strides, (*sizes.shape, *full[-2:])))
        else:
            layout = packed_like(layout.shape, layout) if outputs is None else outputs[number]
            strides.append(operands.strides_of(layout.shape, layout.strides, own=number == 0))
        makers.append(maker(layout) if expected[number] else None)
    at_once = (
        expected[0]
        and any(expected[1:])
        and fused_attention.fits_one_launch(device_state.native, grad.dtype, sizes)
    )
    launch = fused_attention.plan_backward(
        device_state.native,
        grad.dtype,
        sizes,
        strides,
        piece,
        seen,
        dropping=dropping,
        of_key=expected[1],
        of_value=expected[2],
        tf32=tf32,
        at_once=at_once,
        aligned=addresses == 0,
    )
    # As many bytes as the kernel's own.
    make_statistics, local = maker(_rows(arrangement, float64)), device_state.local
    stretched = [arrangement.is_stretched(number) for number in range(3)]

    def run(
        grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, result: Tensor,
        logarithms: Tensor, dropout: Dropout | None, scale: float, into: Sequence[Tensor] | None = None,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        output = [None if make is None else make() for make in makers] if into is None else into
        statistics = None if at_once else make_statistics()
        launch(
            local.stream.handle,
            scale,
            b"",
            b"" if seen is None or mask is None else seen.packed(mask._address),
            b"" if dropout is None else dropout.packed,
            query._address,
            key._address,
            value._address,
            result._address,
            grad._address,
            logarithms._address,
            0 if statistics is None else statistics._address,
            *(0 if x is None else x._address for x in output),
        )
        return tuple(
            arrangement.gradient(number, x) if x is not None and stretched[number] else x
            for number, x in enumerate(output)
        )

    return run
