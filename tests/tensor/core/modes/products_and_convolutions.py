"""Everything that is built on matrix products or convolutions, as ``name: (call, shapes of the operands)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensor
from nn import functional

Operation = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]


def _product(name: str, *shapes: tuple[int, ...]) -> Operation:
    return getattr(tensor, name), shapes


PRODUCTS: dict[str, Operation] = {
    "mm": _product("mm", (6, 40), (40, 5)),
    "mm, transposed": (lambda a, b: tensor.mm(a.t(), b.t()), ((40, 6), (5, 40))),
    "mm, copied": (lambda a, b: tensor.mm(a[:, ::2], b[::2, ::2]), ((6, 80), (80, 10))),
    "bmm": _product("bmm", (3, 6, 40), (3, 40, 5)),
    "mv": _product("mv", (6, 40), (40,)),
    "matmul": _product("matmul", (2, 3, 6, 40), (3, 40, 5)),
    "matmul of a vector": _product("matmul", (40,), (3, 40, 5)),
    "inner": _product("inner", (6, 40), (5, 40)),
    "addmm": _product("addmm", (5,), (6, 40), (40, 5)),
    "addmv": _product("addmv", (6,), (6, 40), (40,)),
    "addbmm": _product("addbmm", (6, 5), (3, 6, 40), (3, 40, 5)),
    "baddbmm": _product("baddbmm", (3, 6, 5), (3, 6, 40), (3, 40, 5)),
    "tensordot": (lambda a, b: tensor.tensordot(a, b, 2), ((3, 5, 8), (5, 8, 4))),
    "einsum": (lambda a, b: tensor.einsum("bij,bkj->ik", a, b), ((3, 6, 40), (3, 5, 40))),
    "cdist": (
        lambda a, b: tensor.cdist(a, b, compute_mode="use_mm_for_euclid_dist"),
        ((6, 40), (5, 40)),
    ),
    "linear": (functional.linear, ((6, 40), (5, 40), (5,))),
    "linear of a batch": (functional.linear, ((2, 3, 40), (5, 40))),
    "bilinear": (functional.bilinear, ((6, 12), (6, 13), (5, 12, 13))),
    "attention": (
        functional.scaled_dot_product_attention,
        ((2, 3, 7, 16), (2, 3, 9, 16), (2, 3, 9, 16)),
    ),
}


def _small(weights: tuple[Any, ...]) -> list[Any]:
    """Weights with which errors do not grow from step to step."""
    return [weight * 0.2 for weight in weights]


_RECURRENT = ((5, 2, 16), (1, 2, 24), (72, 16), (72, 24))
PRODUCTS |= {
    "gru": (
        lambda x, h, *weights: tensor.gru(x, h, _small(weights), False, 1, 0.0, False, False, False)[0],
        _RECURRENT,
    ),
    "lstm": (
        lambda x, h, c, *weights: tensor.lstm(x, (h, c), _small(weights), False, 1, 0.0, False, False, False)[
            0
        ],
        ((5, 2, 16), (1, 2, 24), (1, 2, 24), (96, 16), (96, 24)),
    ),
    "rnn_tanh": (
        lambda x, h, *weights: tensor.rnn_tanh(x, h, _small(weights), False, 1, 0.0, False, False, False)[0],
        ((5, 2, 16), (1, 2, 24), (24, 16), (24, 24)),
    ),
}

CONVOLUTIONS: dict[str, Operation] = {
    "conv1d": _product("conv1d", (2, 8, 12), (4, 8, 3)),
    "conv2d": _product("conv2d", (2, 6, 7, 8), (4, 6, 3, 3)),
    "conv2d of single elements": _product("conv2d", (2, 20, 5, 6), (4, 20, 1, 1)),
    "conv2d in groups": (lambda x, w: tensor.conv2d(x, w, groups=2), ((2, 8, 6, 6), (4, 4, 3, 3))),
    "conv3d": _product("conv3d", (2, 4, 4, 5, 6), (3, 4, 2, 2, 2)),
    "conv_transpose1d": _product("conv_transpose1d", (2, 16, 9), (16, 4, 3)),
    "conv_transpose2d": _product("conv_transpose2d", (2, 16, 4, 5), (16, 4, 3, 3)),
    "conv_transpose3d": _product("conv_transpose3d", (2, 16, 3, 3, 3), (16, 2, 2, 2, 2)),
}
