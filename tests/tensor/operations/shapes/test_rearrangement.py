"""Elements in another order, triangles, diagonals and replaced parts, against PyTorch and NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import array_of, assert_same, assert_same_outcome, outcome, torch_of
from tests.tensor.operations.against_pytorch import RNG, TYPES, check, check_derivatives_of_call, inputs, make

if TYPE_CHECKING:
    from collections.abc import Callable

#: Functions with their arguments.
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "flip": [((0,),), ((-1,),), ((0, 1),), ((-1, 0),), ((),), ((0, 1, 2),), ((1, 2),), ((0, 0),), ((5,),)],
    "fliplr": [()],
    "flipud": [()],
    "roll": [
        (1,),
        (-3,),
        (0,),
        (4, -1),
        (-1, 0),
        ((1, 2), (0, 1)),
        ((2, 8), (0, 2)),
        ((1, 1, -2), (0, 0, 1)),
        (100, 1),
        ((1, 2), 0),
        ((), ()),
        (1, 7),
    ],
    "rot90": [
        (),
        (1, (0, 1)),
        (2, (1, 0)),
        (3, (0, -1)),
        (-1, (1, 2)),
        (4,),
        (1, (0, 0)),
        (1, (0, 5)),
        (1, (0,)),
    ],
    "tril": [(), (1,), (-2,), (100,), (-100,), (1 << 62,), (1.5,)],
    "triu": [(), (1,), (-2,), (100,), (-100,), (-(1 << 62),), (True,)],
    "diag": [(), (2,), (-1,), (9,)],
    "diag_embed": [(), (1,), (-2, 0, 1), (0, -1, 0), (1, 2, 0), (0, 1, 1), (0, 0, 7)],
    "diagflat": [(), (2,), (-1,)],
    "hsplit": [(1,), (2,), (3,), ((1, 2),), (0,), ((),)],
    "vsplit": [(1,), (2,), (3,), ((1, 2),), (-1,)],
    "dsplit": [(1,), (2,), (4,), ([1, 3],)],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str, checked_device: str) -> None:
    for argument in inputs(checked_device).values():
        for arguments in CALLS[name]:
            check(getattr(tensor, name), getattr(torch, name), argument, *arguments)
            check(getattr(tensor.Tensor, name), getattr(torch.Tensor, name), argument, *arguments)


@pytest.mark.parity
@pytest.mark.parametrize("kind", TYPES)
def test_types(kind: str, checked_device: str) -> None:
    argument = inputs(checked_device, kind)
    for which in ("words", "unaligned", "steps"):
        for name, arguments in {
            "flip": ((0, 2),),
            "roll": ((4, 1), (2, 0)),
            "tril": (1,),
            "triu": (-1,),
            "diag_embed": (1,),
            "repeat_interleave": (2, 1),
        }.items():
            check(getattr(tensor, name), getattr(torch, name), argument[which], *arguments)


def test_moves_of_all_kinds_of_words(checked_device: str) -> None:
    """Flips and rolls of some dimensions of contiguous tensors are words of many elements, or of one."""
    numbers = RNG.integers(0, 256, (4, 6, 32)).astype(np.uint8)
    argument = tensor.from_numpy(numbers).to(checked_device)
    for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        np.testing.assert_array_equal(array_of(argument.flip(axes)), np.flip(numbers, axes))
    for shifts in ((0, 0, 16), (0, 0, 8), (0, 0, 3), (1, 2, 0), (0, 5, 0), (3, 5, 2)):
        np.testing.assert_array_equal(
            array_of(argument.roll(shifts, (0, 1, 2))), np.roll(numbers, shifts, (0, 1, 2))
        )


def test_many_elements(checked_device: str) -> None:
    """Threads with several words each."""
    numbers = np.arange(3 * 50 * 1100, dtype=np.int16).reshape(3, 50, 1100)
    argument = tensor.from_numpy(numbers).to(checked_device)
    np.testing.assert_array_equal(array_of(argument[:, 1:].flip(0, 1)), np.flip(numbers[:, 1:], (0, 1)))
    np.testing.assert_array_equal(array_of(argument.roll(7)), np.roll(numbers, 7))


@pytest.mark.parity
def test_flip_takes_dimensions_one_by_one() -> None:
    argument = make((2, 3, 4))
    assert_same(argument.flip(0, -1), torch_of(argument).flip(0, -1))


#: Called with the library and a tensor of three dimensions.
DIFFERENTIABLE: dict[str, Callable[[Any, Any], Any]] = {
    "FlipBackward0": lambda lib, x: lib.flip(x, (0, 2)),
    "RollBackward0": lambda lib, x: lib.roll(x, (1, 2), (0, 2)),
    "roll": lambda lib, x: lib.roll(x, 5),
    "rot90": lambda lib, x: lib.rot90(x, 3, (1, 2)),
    "rot180": lambda lib, x: lib.rot90(x, 2),
    "TrilBackward0": lambda lib, x: lib.tril(x, -1),
    "TriuBackward0": lambda lib, x: lib.triu(x),
    "tril_": lambda lib, x: (x * 2).tril_(1),
    "triu_": lambda lib, x: (x * 2).triu_(),
    "triu_ of a view": lambda lib, x: _changed(x * 2, lambda y: y[1:].triu_()),
    "DiagEmbedBackward0": lambda lib, x: lib.diag_embed(x, -1, 0, 2),
    "diag": lambda lib, x: lib.diag(x[0], 1),
    "diag of a vector": lambda lib, x: lib.diag(x[0, 1]),
    "diagflat": lambda lib, x: lib.diagflat(x, 1),
    "fill_diagonal_": lambda lib, x: _changed(x[0] * 2, lambda y: y.fill_diagonal_(3)) * x[1],
    "DiagonalScatterBackward0": lambda lib, x: x.diagonal_scatter(2 * x.diagonal(1)[:, :2], -1),
    "SelectScatterBackward0": lambda lib, x: x.select_scatter(3 * x[:, 1], 1, 0),
    "SliceScatterBackward0": lambda lib, x: x.slice_scatter(3 * x[:, 1:3], 1, 0, 2),
    "hsplit": lambda lib, x: x.hsplit([1, 3])[1],
}


def _changed(x: Any, change: Callable[[Any], Any]) -> Any:
    change(x)
    return x


@pytest.mark.parity
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str, checked_device: str) -> None:
    check_derivatives_of_call(DIFFERENTIABLE[name], checked_device, name)


@pytest.mark.parity
def test_triangles_in_place(checked_device: str) -> None:
    for name in ("tril_", "triu_"):
        for argument in inputs(checked_device).values():
            if 0 in argument.stride() and argument.numel():
                with pytest.raises(RuntimeError, match="more than one element"):
                    getattr(argument, name)()
                continue
            for diagonal in (0, -1, 2):
                whole = argument.clone() if argument.is_contiguous() else argument
                mine, theirs = whole, torch_of(whole)
                version = mine._version
                ours = outcome(getattr(mine, name), diagonal)
                if assert_same_outcome(ours, outcome(getattr(theirs, name), diagonal)):
                    assert ours is mine
                    assert mine._version == version + 1


def test_triangles_of_all_kinds_of_words(checked_device: str) -> None:
    """Words of several elements, cut by the diagonal at any place, in both orders of the dimensions."""
    for dtype in (np.uint8, np.int16, np.float32, np.complex64):
        numbers = (RNG.standard_normal((2, 16, 32)) * 50).astype(dtype)
        argument = tensor.from_numpy(numbers).to(checked_device)
        turned = tensor.from_numpy(np.ascontiguousarray(numbers.transpose(0, 2, 1))).to(checked_device).mT
        for diagonal in (-15, -3, 0, 5, 30):
            for x in (argument, turned):
                np.testing.assert_array_equal(array_of(x.tril(diagonal)), np.tril(numbers, diagonal))
                np.testing.assert_array_equal(array_of(x.clone().triu_(diagonal)), np.triu(numbers, diagonal))


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out(checked_device: str) -> None:
    argument = make((4, 5), device=checked_device)
    for name in ("tril", "triu", "diag"):
        for dtype in ("float32", "float64", "int32"):
            for shape in ((0,), (4, 5), (5, 4)):
                out = tensor.empty(shape, dtype=dtypes.dtype_named(dtype), device=checked_device)
                theirs = outcome(getattr(torch, name), torch_of(argument), out=torch_of(out))
                if assert_same_outcome(outcome(getattr(tensor, name), argument, out=out), theirs):
                    assert_same(out, theirs)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        tensor.tril(argument.requires_grad_(), out=tensor.empty(4, 5, device=checked_device))


#: Arguments of the functions that replace a part, the part's shape first.
PARTS: dict[str, list[tuple[tuple[int, ...], tuple[Any, ...]]]] = {
    "diagonal_scatter": [((4, 2), ()), ((2, 2), (1, 1, 2)), ((4, 1), (-1,)), ((2, 4), ()), ((2,), (0, 0, 0))],
    "select_scatter": [
        ((3, 4), (0, 1)),
        ((2, 3), (2, -1)),
        ((3,), (0, 1)),
        ((3, 4), (0, 2)),
        ((3, 4), (5, 0)),
    ],
    "slice_scatter": [
        ((2, 3, 4), ()),
        ((2, 3, 2), (2, 1, 3)),
        ((2, 3, 2), (-1, None, None, 2)),
        ((2, 2, 4), (1, -2)),
        ((2, 0, 4), (1, 2, 1)),
        ((2, 1, 4), (1, -2)),
        ((2, 3, 4), (2, -100, 100)),
        ((2, 3, 4), (2, 0, 4, 0)),
        ((2, 3, 4), (7,)),
    ],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", PARTS)
def test_replaced_parts(name: str, checked_device: str) -> None:
    whole = [make((2, 3, 4), device=checked_device), make((4, 3, 2), device=checked_device).permute(2, 1, 0)]
    for shape, arguments in PARTS[name]:
        for argument in whole:
            for dtype in ("float32", "int32"):
                part = make(shape, dtype, checked_device)
                check(getattr(tensor, name), getattr(torch, name), argument, part, *arguments)
                before = array_of(argument).copy()
                outcome(getattr(argument, name), part, *arguments)
                np.testing.assert_array_equal(array_of(argument), before)


def test_results_made_in_inference_mode_belong_to_it() -> None:
    with tensor.inference_mode():
        argument = make((3, 3))
        for result in (
            tensor.cat([argument, argument]),
            argument.diag_embed(),
            argument.select_scatter(argument[0], 0, 1),
        ):
            assert result.is_inference()


@pytest.mark.parity
def test_filled_diagonals(checked_device: str) -> None:
    shapes = ((3, 4), (7, 3), (4, 3), (5, 3), (1, 1), (2, 2, 2), (0, 3), (2, 3, 2), (3,), ())
    for shape in shapes:
        for dtype in ("float32", "int64"):
            whole = make(shape, dtype, checked_device)
            for argument in (whole, whole.mT.contiguous().mT if len(shape) > 1 else whole):
                for arguments in ((2,), (2.5, True), (1j,)):
                    mine, theirs = argument.clone(), torch_of(argument.clone())
                    result = outcome(mine.fill_diagonal_, *arguments)
                    if assert_same_outcome(result, outcome(theirs.fill_diagonal_, *arguments)):
                        assert result is mine
