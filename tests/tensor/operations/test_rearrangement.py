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
    numbers = np.asarray(_RNG.standard_normal(shape) * 20)
    # NumPy gives empty arrays other strides than a tensor has.
    return tensor.empty(shape, dtype=dtypes.dtype_named(kind), device=device).copy_(
        tensor.from_numpy(numbers)
    )


def inputs(device: str, kind: str = "float32") -> dict[str, Any]:
    """Tensors of all ranks and layouts."""
    return {
        "number": make((), kind, device),
        "one": make((1,), kind, device),
        "vector": make((5,), kind, device),
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
    theirs = [torch_of(x) if isinstance(x, tensor.Tensor) else x for x in given]
    named = {key: torch_of(x) if isinstance(x, tensor.Tensor) else x for key, x in options.items()}
    assert_same_outcome(outcome(found, *given, **options), outcome(expected, *theirs, **named), assert_alike)


def assert_alike(found: Any, expected: Any) -> None:
    """Assert that tensors, or several of them, are the same but for rounding."""
    if isinstance(expected, (tuple, list)):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    if not expected.dtype.is_floating_point:
        assert_same(found, expected)
        return
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert found.stride() == expected.stride()
    np.testing.assert_allclose(
        array_of(found).astype(np.float64), array_of(expected).astype(np.float64), rtol=1e-5, atol=1e-5
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
    "tril": [(), (1,), (-2,), (100,), (-100,), (1 << 62,), (1.5,)],
    "triu": [(), (1,), (-2,), (100,), (-100,), (-(1 << 62),), (True,)],
    "diag": [(), (2,), (-1,), (9,)],
    "diag_embed": [(), (1,), (-2, 0, 1), (0, -1, 0), (1, 2, 0), (0, 1, 1), (0, 0, 7)],
    "diagflat": [(), (2,), (-1,)],
    "hsplit": [(1,), (2,), (3,), ((1, 2),), (0,), ((),)],
    "vsplit": [(1,), (2,), (3,), ((1, 2),), (-1,)],
    "dsplit": [(1,), (2,), (4,), ([1, 3],)],
    "repeat_interleave": [(2,), (0,), (3, 0), (2, -1), (1, 1), (-1,), (2, 5), (2.5,), ([1, 2], 0)],
    "diff": [(), (2,), (1, 0), (0, -1), (1, 1), (9,), (-1,), (1, 4)],
}
#: Functions that are no methods.
FUNCTIONS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "combinations": [
        ((), {}),
        ((3,), {}),
        ((0,), {}),
        ((-1,), {}),
        ((1, True), {}),
        ((3, True), {}),
        ((9,), {}),
    ],
    "vander": [((), {}), ((2,), {}), ((0,), {}), ((3, True), {}), ((-1,), {}), ((), {"increasing": True})],
    "trapezoid": [((), {}), ((), {"dx": 0.5}), ((), {"dim": 0}), ((), {"dx": 3, "dim": 1}), ((), {"dim": 4})],
    "trapz": [((), {})],
    "cumulative_trapezoid": [((), {}), ((), {"dx": 0.5}), ((), {"dim": 0}), ((), {"dx": 3, "dim": 1})],
}


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str, device: str) -> None:
    for given in inputs(device).values():
        for arguments in CALLS[name]:
            check(getattr(tensor, name), getattr(torch, name), given, *arguments)
            check(getattr(tensor.Tensor, name), getattr(torch.Tensor, name), given, *arguments)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_no_methods(name: str, device: str) -> None:
    for kind in ("float32", "int64", "bool"):
        for given in inputs(device, kind).values():
            for arguments, options in FUNCTIONS[name]:
                check(getattr(tensor, name), getattr(torch, name), given, *arguments, **options)


@pytest.mark.parametrize("kind", TYPES)
def test_types(kind: str, device: str) -> None:
    given = inputs(device, kind)
    for which in ("words", "unaligned", "steps"):
        for name, arguments in {
            "flip": ((0, 2),),
            "roll": ((4, 1), (2, 0)),
            "tril": (1,),
            "triu": (-1,),
            "diag_embed": (1,),
            "repeat_interleave": (2, 1),
        }.items():
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
    weight = _RNG.standard_normal(8000).astype(np.float32)
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
    "TrilBackward0": lambda lib, x: lib.tril(x, -1),
    "TriuBackward0": lambda lib, x: lib.triu(x),
    "tril_": lambda lib, x: (x * 2).tril_(1),
    "triu_": lambda lib, x: (x * 2).triu_(),
    "triu_ of a view": lambda lib, x: _changed(x * 2, lambda y: y[1:].triu_()),
    "DiagEmbedBackward0": lambda lib, x: lib.diag_embed(x, -1, 0, 2),
    "diag": lambda lib, x: lib.diag(x[0], 1),
    "diag of a vector": lambda lib, x: lib.diag(x[0, 1]),
    "diagflat": lambda lib, x: lib.diagflat(x, 1),
    "DiagonalScatterBackward0": lambda lib, x: x.diagonal_scatter(2 * x.diagonal(1)[:, :2], -1),
    "SelectScatterBackward0": lambda lib, x: x.select_scatter(3 * x[:, 1], 1, 0),
    "SliceScatterBackward0": lambda lib, x: x.slice_scatter(3 * x[:, 1:3], 1, 0, 2),
    "repeat_interleave": lambda lib, x: lib.repeat_interleave(x, 3, 1),
    "repeats": lambda lib, x: lib.repeat_interleave(x, lib.tensor([2, 0, 3], device=x.device), 0),
    "combinations": lambda lib, x: lib.combinations(x[0, 0], 3),
    "hsplit": lambda lib, x: x.hsplit([1, 3])[1],
    # That of PyTorch cannot be differentiated twice.
    "vander": lambda lib, x: (
        lib.vander(x[0, 0]) if lib is tensor else x[0, 0].unsqueeze(1) ** lib.arange(5, -1, -1)
    ),
    "trapezoid": lambda lib, x: lib.trapezoid(x, x * x, dim=1),
    "trapezoid of equal steps": lambda lib, x: lib.trapezoid(x, dx=2),
    "cumulative_trapezoid": lambda lib, x: lib.cumulative_trapezoid(x, x[0, 0]),
    "diff": lambda lib, x: lib.diff(x, 2, 1, prepend=x[:, :1], append=x),
    "broadcast_tensors": lambda lib, x: sum(lib.broadcast_tensors(x[:, :1], x[0], x[0, 0])),
}


def _changed(x: Any, change: Callable[[Any], Any]) -> Any:
    change(x)
    return x


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str, device: str) -> None:
    call = DIFFERENTIABLE[name]
    for given in (
        make((3, 4, 6), device=device) / 20,
        make((6, 3, 8), device=device).permute(1, 2, 0)[:, ::2] / 20,
    ):
        check_derivatives(
            lambda x: call(tensor, x),
            lambda x: call(torch, x),
            given,
            name=name if name.endswith("Backward0") else "",
        )


def test_triangles_in_place(device: str) -> None:
    for name in ("tril_", "triu_"):
        for given in inputs(device).values():
            if 0 in given.stride() and given.numel():
                with pytest.raises(RuntimeError, match="more than one element"):
                    getattr(given, name)()
                continue
            for diagonal in (0, -1, 2):
                whole = given.clone() if given.is_contiguous() else given
                mine, theirs = whole, torch_of(whole)
                version = mine._version
                ours = outcome(getattr(mine, name), diagonal)
                if assert_same_outcome(ours, outcome(getattr(theirs, name), diagonal)):
                    assert ours is mine
                    assert mine._version == version + 1


def test_triangles_of_all_kinds_of_words(device: str) -> None:
    """Words of several elements, cut by the diagonal at any place, in both orders of the dimensions."""
    for kind in (np.uint8, np.int16, np.float32, np.complex64):
        numbers = (_RNG.standard_normal((2, 16, 32)) * 50).astype(kind)
        given = tensor.from_numpy(numbers).to(device)
        turned = tensor.from_numpy(np.ascontiguousarray(numbers.transpose(0, 2, 1))).to(device).mT
        for diagonal in (-15, -3, 0, 5, 30):
            for x in (given, turned):
                np.testing.assert_array_equal(array_of(x.tril(diagonal)), np.tril(numbers, diagonal))
                np.testing.assert_array_equal(array_of(x.clone().triu_(diagonal)), np.triu(numbers, diagonal))


def test_out(device: str) -> None:
    given = make((4, 5), device=device)
    for name in ("tril", "triu", "diag"):
        for kind in ("float32", "float64", "int32"):
            for shape in ((0,), (4, 5), (5, 4)):
                out = tensor.empty(shape, dtype=dtypes.dtype_named(kind), device=device)
                theirs = outcome(getattr(torch, name), torch_of(given), out=torch_of(out))
                if assert_same_outcome(outcome(getattr(tensor, name), given, out=out), theirs):
                    assert_same(out, theirs)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        tensor.tril(given.requires_grad_(), out=tensor.empty(4, 5, device=device))


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


@pytest.mark.parametrize("name", PARTS)
def test_replaced_parts(name: str, device: str) -> None:
    whole = [make((2, 3, 4), device=device), make((4, 3, 2), device=device).permute(2, 1, 0)]
    for shape, arguments in PARTS[name]:
        for given in whole:
            for kind in ("float32", "int32"):
                part = make(shape, kind, device)
                check(getattr(tensor, name), getattr(torch, name), given, part, *arguments)
                before = array_of(given).copy()
                outcome(getattr(given, name), part, *arguments)
                np.testing.assert_array_equal(array_of(given), before)


def test_repeats_for_each_slice(device: str) -> None:
    def repeats(*numbers: int, kind: str = "int64") -> Any:
        return tensor.tensor(numbers, dtype=dtypes.dtype_named(kind), device=device)

    for given in (make((2, 3), device=device), make((3, 2), "int16", device).t()):
        for arguments in (
            (repeats(1, 0, 2), 1),
            (repeats(1, 0, 2, kind="int32"), -1),
            (repeats(2), 1),
            (tensor.tensor(2, device=device), 0),
            (repeats(1, 2, 3, 0, 0, 1),),
            (repeats(0, 0), 0),
            (repeats(1, 2), 1),
            (repeats(1, -2), 0),
            (repeats(1, 2, kind="int16"), 0),
            (repeats(1, 2).reshape(1, 2), 0),
            (repeats(1, 2, 3),),
        ):
            check(tensor.repeat_interleave, torch.repeat_interleave, given, *arguments)
            check(tensor.Tensor.repeat_interleave, torch.Tensor.repeat_interleave, given, *arguments)
        check(tensor.repeat_interleave, torch.repeat_interleave, given, repeats(1, 2), 0, output_size=3)
        check(tensor.repeat_interleave, torch.repeat_interleave, given, 2, 0, output_size=4)
        check(tensor.repeat_interleave, torch.repeat_interleave, given, 2, 0, output_size=5)
    for alone in (repeats(1, 0, 3), repeats(2, 1, kind="int32"), repeats(), tensor.tensor(3, device=device)):
        check(tensor.repeat_interleave, torch.repeat_interleave, alone)


def test_a_given_size_of_repeats_spares_a_wait() -> None:
    drv.simulator.install(schedule="lazy")
    given = tensor.arange(3.0, device="cuda")
    repeats = tensor.tensor([2, 0, 1], device="cuda")
    found = given.repeat_interleave(repeats, output_size=3)
    assert not tensor.cuda.current_stream().query()
    assert found.tolist() == [0, 0, 2]


def test_places_of_integrals(device: str) -> None:
    y = make((3, 4), device=device)
    places = [(4,), (3, 4), (1, 4), (3, 1), (5,), ()]
    for name in ("trapezoid", "cumulative_trapezoid"):
        for shape in places:
            check(getattr(tensor, name), getattr(torch, name), y, make(shape, device=device))
        check(getattr(tensor, name), getattr(torch, name), y, make((3,), device=device), dim=0)
        check(getattr(tensor, name), getattr(torch, name), y[:, :0], make((0,), device=device))
        with pytest.raises(TypeError):
            getattr(tensor, name)(y, y, dx=2)


def test_differences_with_more_around(device: str) -> None:
    for kind in ("float32", "int32", "bool"):
        x, more = make((2, 3), kind, device), make((2, 1), kind, device)
        check(tensor.diff, torch.diff, x, prepend=more)
        check(tensor.diff, torch.diff, x, 2, append=x)
        check(tensor.diff, torch.diff, x, 1, 0, prepend=x, append=x)
        check(tensor.diff, torch.diff, x, 0, 1, prepend=more)
        check(tensor.diff, torch.diff, x, 1, 1, prepend=more[0])
        check(tensor.diff, torch.diff, x, 1, 0, prepend=more)


def test_broadcasting(device: str) -> None:
    shapes: list[tuple[Any, ...]] = [
        ((2, 1), (3,)),
        ((),),
        ((1, 2), (4, 1, 1), 2),
        ((0, 1), (3,)),
        ((2,), (3,)),
        (),
    ]
    for given in shapes:
        found, expected = outcome(tensor.broadcast_shapes, *given), outcome(torch.broadcast_shapes, *given)
        if not isinstance(expected, Exception):
            assert found == tuple(expected)
            assert type(found) is tensor.Size
        else:
            assert isinstance(found, type(expected))
    tensors = [make(shape, device=device) for shape in ((2, 1), (3,), (4, 1, 1))]
    check(tensor.broadcast_tensors, torch.broadcast_tensors, *tensors)
    assert [x.shape for x in tensor.broadcast_tensors(tensors)] == [(4, 2, 3)] * 3
    with pytest.raises(RuntimeError, match="must match"):
        tensor.broadcast_tensors(make((2,)), make((3,)))


def test_results_made_in_inference_mode_belong_to_it() -> None:
    with tensor.inference_mode():
        given = make((3, 3))
        for found in (tensor.cat([given, given]), given.diag_embed(), given.select_scatter(given[0], 0, 1)):
            assert found.is_inference()
