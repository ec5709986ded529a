"""Elements in another order, against PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import dtypes

from ..comparison import array_of, assert_same, assert_same_outcome, outcome, torch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

torch = pytest.importorskip("torch")

_RNG = np.random.default_rng(0)
TYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The CPU, and a device; a simulated one reports whatever a kernel does wrong."""
    if request.param == "cuda" and not request.config.getoption("--gpu"):
        drv.simulator.install(check="full")
    yield request.param
    if request.param == "cuda":
        tensor.cuda.synchronize()


def make(shape: tuple[int, ...], kind: str = "float32", device: str = "cpu") -> Any:
    """Random elements."""
    numbers = _RNG.standard_normal(shape) * 20
    return tensor.from_numpy(np.asarray(numbers)).to(dtypes.dtype_named(kind)).to(device)


def inputs(device: str, kind: str = "float32") -> dict[str, Any]:
    """Tensors of all ranks and layouts."""
    return {
        "number": make((), kind, device),
        "one": make((1,), kind, device),
        "vector": make((7,), kind, device),
        "empty": make((0,), kind, device),
        "matrix": make((4, 6), kind, device),
        "row": make((1, 5), kind, device),
        "transposed": make((4, 6), kind, device).t(),
        "no rows": make((0, 3), kind, device),
        "no columns": make((3, 0), kind, device),
        "words": make((3, 4, 16), kind, device),
        "unaligned": make((3, 4, 17), kind, device)[:, :, 1:],
        "steps": make((6, 4, 8), kind, device)[::2, 1:, ::3],
        "permuted": make((2, 3, 4), kind, device).permute(2, 0, 1),
        "stretched": make((3, 1), kind, device).expand(2, 3, 4),
        "nothing": make((2, 0, 3), kind, device),
        "four": make((2, 3, 2, 5), kind, device),
    }


def check(found: Callable[..., Any], expected: Callable[..., Any], *given: Any, **options: Any) -> None:
    """Assert that a function and PyTorch's have the same outcome."""
    assert_same_outcome(
        outcome(found, *given, **options),
        outcome(expected, *(torch_of(x) if isinstance(x, tensor.Tensor) else x for x in given), **options),
    )


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
}


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str, device: str) -> None:
    for given in inputs(device).values():
        for arguments in CALLS[name]:
            check(getattr(tensor, name), getattr(torch, name), given, *arguments)
            check(getattr(tensor.Tensor, name), getattr(torch.Tensor, name), given, *arguments)


@pytest.mark.parametrize("kind", TYPES)
def test_types(kind: str, device: str) -> None:
    given = inputs(device, kind)
    for which in ("words", "unaligned", "steps"):
        for name, arguments in {"flip": ((0, 2),), "roll": ((4, 1), (2, 0))}.items():
            check(getattr(tensor, name), getattr(torch, name), given[which], *arguments)


def test_moves_of_all_kinds_of_words(device: str) -> None:
    """Flips and rolls of some dimensions of contiguous tensors are words of many elements, or of one."""
    numbers = _RNG.integers(0, 256, (4, 6, 32)).astype(np.uint8)
    given = tensor.from_numpy(numbers).to(device)
    for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        np.testing.assert_array_equal(array_of(given.flip(axes)), np.flip(numbers, axes))
    for shifts in ((0, 0, 16), (0, 0, 8), (0, 0, 3), (1, 2, 0), (0, 5, 0), (3, 5, 2)):
        np.testing.assert_array_equal(
            array_of(given.roll(shifts, (0, 1, 2))), np.roll(numbers, shifts, (0, 1, 2))
        )


def test_many_elements(device: str) -> None:
    """Threads with several words each."""
    numbers = np.arange(3 * 50 * 1100, dtype=np.int16).reshape(3, 50, 1100)
    given = tensor.from_numpy(numbers).to(device)
    np.testing.assert_array_equal(array_of(given[:, 1:].flip(0, 1)), np.flip(numbers[:, 1:], (0, 1)))
    np.testing.assert_array_equal(array_of(given.roll(7)), np.roll(numbers, 7))


def test_flip_takes_dimensions_one_by_one() -> None:
    given = make((2, 3, 4))
    assert_same(given.flip(0, -1), torch_of(given).flip(0, -1))


def derivatives(function: Callable[..., Any], given: list[Any], weight: Any, library: Any) -> list[Any]:
    """First derivatives of a weighted sum of the result's squares, and their own derivatives."""
    result = function(*given)
    weight = weight[: result.numel()].reshape(result.shape)
    first = library.autograd.grad((result * result * weight).sum(), given, create_graph=True)
    second = library.autograd.grad(sum((each**2 * (each + 1)).sum() for each in first), given)
    return [*first, *second]


def check_derivatives(
    found: Callable[..., Any], expected: Callable[..., Any], *given: Any, name: str = ""
) -> None:
    """Assert that the first and second derivatives are PyTorch's, and that the node is called as there."""
    mine = [x.detach().requires_grad_() for x in given]
    theirs = [torch_of(x).detach().requires_grad_() for x in given]
    weight = _RNG.standard_normal(5000).astype(np.float32)
    ours = derivatives(found, mine, tensor.from_numpy(weight).to(mine[0].device), tensor)
    for one, other in zip(ours, derivatives(expected, theirs, torch.from_numpy(weight), torch), strict=True):
        np.testing.assert_allclose(array_of(one), array_of(other), rtol=1e-4, atol=1e-4)
    if name:
        assert found(*mine).grad_fn.name() == name == expected(*theirs).grad_fn.name()


#: Called with the library and a tensor of three dimensions.
DIFFERENTIABLE: dict[str, Callable[[Any, Any], Any]] = {
    "FlipBackward0": lambda lib, x: lib.flip(x, (0, 2)),
    "RollBackward0": lambda lib, x: lib.roll(x, (1, 2), (0, 2)),
    "roll": lambda lib, x: lib.roll(x, 5),
    "rot90": lambda lib, x: lib.rot90(x, 3, (1, 2)),
    "rot180": lambda lib, x: lib.rot90(x, 2),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str, device: str) -> None:
    call = DIFFERENTIABLE[name]
    for which in ("words", "permuted", "steps"):
        given = inputs(device)[which] / 20
        check_derivatives(
            lambda x: call(tensor, x),
            lambda x: call(torch, x),
            given,
            name=name if name.endswith("Backward0") else "",
        )
