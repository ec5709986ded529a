"""Reading at the places of a grid, and grids of affine maps: as PyTorch, and their derivatives."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import grid_sampling as kernels
from tensor.operations.resampling.grid_sampling import affine_grid, grid_sample
from tests.tensor.operations.neural_comparison import assert_like_torch, close

_RNG = np.random.default_rng(0)
PADDINGS = ("zeros", "border", "reflection")
#: Mode, rank, padding, alignment.
CASES = [
    *product(("bilinear", "nearest"), (2, 3), PADDINGS, (False, True)),
    *product(("bicubic",), (2,), PADDINGS, (False, True)),
]


def arrays(rank: int, kind: str = "float64") -> tuple[Any, Any]:
    """An image and a grid that goes beyond it on all sides."""
    size, out = ((5, 4), (3, 6)) if rank == 2 else ((3, 5, 4), (2, 3, 4))
    image = _RNG.standard_normal((2, 3, *size))
    grid = _RNG.uniform(-2.6, 2.6, (2, *out, rank))
    return image.astype(kind), grid.astype(kind)


@pytest.mark.parity
@pytest.mark.parametrize(("mode", "rank", "padding", "align"), CASES)
@pytest.mark.sampled(3)
def test_against_pytorch(mode: str, rank: int, padding: str, align: bool, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": align}
    result = assert_like_torch(
        device_name,
        lambda image, grid: grid_sample(image, grid, **options),
        lambda image, grid: torch.nn.functional.grid_sample(image, grid, **options),
        arrays(rank),
        tolerance=1e-12,
    )
    assert result.grad_fn.name() == f"GridSampler{rank}DBackward0"


@pytest.mark.parametrize(
    ("mode", "rank", "padding", "align"),
    [("bilinear", 2, "zeros", False), ("nearest", 3, "border", True)],
)
def test_the_order_of_sums_can_be_fixed(
    mode: str, rank: int, padding: str, align: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The derivatives by kernel and in operations agree."""
    drv.simulator.install(check="race")
    monkeypatch.setattr(kernels, "_BUSY", 0.05)
    image, grid = arrays(rank)
    result = []
    for device, fixed in (("cpu", False), ("cuda", False), ("cuda", True)):
        x, y = (tensor.from_numpy(each).to(device).requires_grad_() for each in (image, grid))
        output = grid_sample(x, y, mode, padding, align)
        tensor.use_deterministic_algorithms(fixed)
        try:
            grads = tensor.autograd.grad((output**2).sum(), (x, y))
        finally:
            tensor.use_deterministic_algorithms(False)
        result.append([output, *grads])
    for others in result[1:]:
        for left, right in zip(result[0], others, strict=True):
            close(left, right, 1e-12)


@pytest.mark.parametrize("wanted", ["image", "grid"])
def test_one_gradient(wanted: str, checked_device: str) -> None:
    image, grid = arrays(2)
    grads = []
    for device in ("cpu", checked_device):
        x, y = (tensor.from_numpy(each).to(device) for each in (image, grid))
        (x if wanted == "image" else y).requires_grad_()
        grid_sample(x, y, align_corners=False).square().sum().backward()
        assert (x.grad is None) == (wanted == "grid")
        grads.append((x if wanted == "image" else y).grad)
    close(grads[0], grads[1], 1e-12)


@pytest.mark.parametrize(
    ("mode", "rank", "padding", "align"),
    [
        ("bilinear", 2, "zeros", False),
        ("bilinear", 3, "reflection", True),
        ("bicubic", 2, "border", False),
        ("nearest", 2, "zeros", True),
    ],
)
def test_derivatives(mode: str, rank: int, padding: str, align: bool) -> None:
    image, grid = (tensor.from_numpy(each).requires_grad_() for each in arrays(rank))

    def call(image: Any, grid: Any) -> Any:
        return grid_sample(image, grid, mode, padding, align)

    assert tensor.autograd.gradcheck(call, (image, grid), fast_mode=True)
    assert tensor.autograd.gradgradcheck(call, (image, grid), fast_mode=True)


def test_second_derivatives_on_a_device() -> None:
    drv.simulator.install(check="race")
    result = []
    for device in ("cpu", "cuda"):
        image, grid = (tensor.from_numpy(each).to(device).requires_grad_() for each in _small())
        output = grid_sample(image, grid, align_corners=False)
        grads = tensor.autograd.grad((output**2).sum(), (image, grid), create_graph=True)
        result.append(tensor.autograd.grad(sum((each**2).sum() for each in grads), (image, grid)))
    for left, right in zip(*result, strict=True):
        close(left, right, 1e-11)


def _small() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((1, 2, 3, 3)), rng.uniform(-0.9, 0.9, (1, 2, 2, 2))


@pytest.mark.parametrize(
    ("mode", "kind"), [("bilinear", "bfloat16"), ("bilinear", "float32"), ("bicubic", "float16")]
)
@pytest.mark.sampled(4)
def test_types(mode: str, kind: str, device_name: str) -> None:
    image, grid = (tensor.from_numpy(each).to(device_name, getattr(tensor, kind)) for each in arrays(2))
    result, exact = [], []
    for results, dtypes in ((result, tensor.float32), (exact, tensor.float64)):
        x, y = image, grid
        if results is exact:
            x, y = x.to(dtypes), y.to(dtypes)
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        output = grid_sample(x, y, mode, "border", False)
        output.sum().backward()
        assert output.dtype is x.grad.dtype is y.grad.dtype is x.dtype
        results += [output, x.grad, y.grad]
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-5}[kind]
    for left, right in zip(result, exact, strict=True):
        close(left.double(), right, tolerance)


def test_places_without_a_number(device_name: str) -> None:
    """Zeros where zeros are outside, otherwise an element of the end."""
    image = tensor.arange(1.0, 10.0, device=device_name).view(1, 1, 3, 3)
    devices = [[float("nan"), 0.0], [float("inf"), 0.0], [float("-inf"), 0.0], [1e30, 0.0]]
    grid = tensor.tensor([[devices]], device=device_name)
    for mode in ("bilinear", "nearest"):
        assert grid_sample(image, grid, mode, "zeros", True).flatten().tolist() == [0, 0, 0, 0]
        assert grid_sample(image, grid, mode, "border", True).flatten().tolist() == [4, 6, 4, 6]


def test_the_identity_reads_what_is_there(device_name: str) -> None:
    image = tensor.from_numpy(_RNG.standard_normal((2, 3, 4, 5)))
    x = image.to(device_name).permute(0, 1, 3, 2)
    theta = tensor.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2, dtype=tensor.float64, device=device_name)
    for align in (False, True):
        grid = affine_grid(theta, x.shape, align_corners=align)
        for mode in ("bilinear", "nearest", "bicubic"):
            result = grid_sample(x, grid, mode, "border", align)
            np.testing.assert_allclose(result.cpu().numpy(), x.cpu().numpy(), atol=1e-12)


def test_nothing_to_read(device_name: str) -> None:
    image = tensor.ones(0, 2, 3, 3, device=device_name, requires_grad=True)
    grid = tensor.ones(0, 4, 5, 2, device=device_name, requires_grad=True)
    result = grid_sample(image, grid, align_corners=False)
    assert result.shape == (0, 2, 4, 5)
    result.sum().backward()
    assert image.grad.shape == image.shape
    assert grid.grad.shape == grid.shape
    without = grid_sample(tensor.ones(1, 2, 3, 3), tensor.ones(1, 0, 5, 2), align_corners=False)
    assert without.shape == (1, 2, 0, 5)
    image = tensor.ones(1, 0, 3, 3, device=device_name)
    grid = tensor.ones(1, 4, 5, 2, device=device_name, requires_grad=True)
    grid_sample(image, grid, align_corners=False).sum().backward()
    assert not grid.grad.any().item()


@pytest.mark.parity
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (1, 2, 5, 1), (2, 3, 2, 3, 4)])
def test_affine_grids(size: tuple[int, ...], align: bool, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rank = len(size) - 2
    theta = _RNG.standard_normal((size[0], rank, rank + 1))
    assert_like_torch(
        device_name,
        lambda x: affine_grid(x, size, align),
        lambda x: torch.affine_grid_generator(x, list(size), align),
        [theta],
        tolerance=1e-12,
    )


def test_defaults_are_warned_of() -> None:
    image, grid = tensor.ones(1, 1, 2, 2), tensor.zeros(1, 1, 1, 2)
    with pytest.warns(UserWarning, match="align_corners") as warned:
        grid_sample(image, grid)
        affine_grid(tensor.ones(1, 2, 3), (1, 1, 2, 2))
    assert [each.filename for each in warned] == [__file__, __file__]


def test_autocast() -> None:
    image, grid = tensor.ones(1, 1, 2, 2, dtype=tensor.float16), tensor.zeros(1, 1, 1, 2)
    with tensor.autocast("cpu"):
        assert grid_sample(image, grid, align_corners=False).dtype is tensor.float32


IMAGE, GRID = (1, 1, 3, 3), (1, 2, 2, 2)
WRONG: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], type[Exception], str]] = {
    "mode": (IMAGE, GRID, {"mode": "some"}, ValueError, "but got: 'some'"),
    "padding": (IMAGE, GRID, {"padding_mode": "some"}, ValueError, "but got: 'some'"),
    "dimensions": (IMAGE, GRID[:3], {}, RuntimeError, "same number of dimensions"),
    "three dimensions": (IMAGE[:3], GRID[:3], {}, RuntimeError, "4D or 5D"),
    "items": (IMAGE, (2, 2, 2, 2), {}, RuntimeError, "same batch size"),
    "places": (IMAGE, (1, 2, 2, 3), {}, RuntimeError, "size 2 in last dimension"),
    "empty": ((1, 1, 0, 3), GRID, {}, RuntimeError, "non-empty spatial"),
    "volume": ((1, 1, 3, 3, 3), (1, 2, 2, 2, 3), {"mode": "bicubic"}, RuntimeError, "only supports 4D"),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    image, grid, options, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        grid_sample(tensor.ones(image), tensor.ones(grid), **options, align_corners=False)
    torch = pytest.importorskip("torch")
    with pytest.raises(error):
        torch.nn.functional.grid_sample(torch.ones(image), torch.ones(grid), **options, align_corners=False)


def test_wrong_types() -> None:
    image, grid = tensor.ones(IMAGE), tensor.ones(GRID)
    with pytest.raises(TypeError, match="must be Tensor"):
        grid_sample(image, [0.0])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="same dtype"):
        grid_sample(image, grid.double(), align_corners=False)
    with pytest.raises(NotImplementedError, match="int64"):
        grid_sample(image.long(), grid.long(), align_corners=False)


@pytest.mark.parametrize(
    ("shape", "size", "error", "message"),
    [
        ((1, 2, 3), (1, 1, 2), NotImplementedError, "4D and 5D sizes"),
        ((1, 2, 2), (1, 1, 2, 2), ValueError, "1x2x3"),
        ((1, 2, 3), (1, 1, 2, 0), ValueError, "non-zero, positive"),
        ((1, 2, 3), (1, 1, 2, 2, 2), ValueError, "1x3x4"),
    ],
)
def test_wrong_maps(shape: Any, size: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        affine_grid(tensor.ones(shape), size, align_corners=False)
    with pytest.raises(ValueError, match="floating point"):
        affine_grid(tensor.ones(shape).long(), size, align_corners=False)
