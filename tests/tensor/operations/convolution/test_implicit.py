"""Convolutions on tensor cores: against float64, from operands where they lie, in either format, every time the same."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import implicit_convolution as kernels
from nvrtc_kernels import warpgroup_convolution, warpgroup_products, warpgroup_strided_convolution
from tensor.core.modes.precision import settings
from tensor.operations.convolution import convolution, implicit
from tests.tensor.launched_kernels import launched
from tests.thinning import thinned

#: Relative to the largest element: results are rounded to half precision, operands of float32 to TF32.
ERRORS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-3}
_LAST = {4: tensor.channels_last, 5: tensor.channels_last_3d}
#: Function, shapes of input and weight, options.
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ("conv2d", (2, 32, 9, 10), (40, 32, 3, 3), {"padding": 1}),
    "1x1": ("conv2d", (2, 40, 9, 8), (72, 40, 1, 1), {}),
    "stride": ("conv2d", (1, 16, 11, 12), (16, 16, 3, 3), {"stride": 2, "padding": 1}),
    "stride beyond the kernel": ("conv2d", (1, 16, 9, 9), (8, 16, 1, 2), {"stride": 3}),
    "odd channels": ("conv2d", (2, 13, 6, 5), (11, 13, 3, 2), {"padding": (2, 1), "dilation": (2, 1)}),
    "groups": ("conv2d", (1, 16, 6, 7), (32, 8, 3, 3), {"groups": 2, "stride": (1, 2)}),
    "signals": ("conv1d", (2, 8, 40), (8, 8, 5), {"dilation": 3, "stride": 2, "padding": "valid"}),
    "same": ("conv1d", (16, 20), (8, 16, 4), {"padding": "same"}),
    "volumes": ("conv3d", (1, 8, 4, 5, 6), (8, 8, 2, 3, 2), {"stride": (2, 1, 3), "padding": 1}),
    "transposed": (
        "conv_transpose2d", (1, 16, 5, 6), (16, 24, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1},
    ),
    "transposed, dilated": ("conv_transpose2d", (1, 8, 4, 4), (8, 8, 3, 2), {"stride": 2, "dilation": 2, "groups": 1}),
}  # fmt: skip


@pytest.fixture(
    params=[
        ("eager", (8, 0)),
        ("random", (9, 0)),
        *(pytest.param(each, marks=pytest.mark.nightly) for each in (("random", (8, 0)), ("eager", (9, 0)))),
    ],
    ids=lambda each: f"{each[0]}, {each[1][0]}.{each[1][1]}",
)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """However little work there is, with products of warps and, on Hopper, of warpgroups."""
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    schedule, capability = request.param
    drv.simulator.install(check="full", schedule=schedule, capability=capability)
    yield schedule
    assert not drv.simulator.findings()


def _operands(name: str, dtype: str) -> list[Any]:
    function, image, weight, options = CASES[name]
    generator = tensor.Generator().manual_seed(len(name))
    filters = weight[1] * options.get("groups", 1) if "transpose" in function else weight[0]
    shapes = image, weight, (filters,)
    return [tensor.randn(shape, generator=generator).to(getattr(tensor, dtype)) for shape in shapes]


def _kernels(function: Any) -> tuple[Any, list[str]]:
    with launched() as names:
        result = function()
    parts = ("convolution_", "arrange", "sum_weight", "unfold", "fold", "copy", "cublas", "depthwise")
    return result, [each for each in names if each.startswith(parts)]


def _assert_close(result: Any, expected: Any, error: float) -> None:
    largest = float(expected.abs().max())
    np.testing.assert_allclose(
        result.detach().cpu().double().numpy(), expected.detach().numpy(), rtol=0, atol=error * largest
    )


#: What runs always; the others do with --nightly.
_ALWAYS = {("stride", "bfloat16", "last"), ("same", "float32", "contiguous")}


@pytest.mark.parametrize(
    ("name", "dtype", "form"),
    thinned(
        product(CASES, ERRORS, ("contiguous", "last")),
        lambda *each: each in _ALWAYS,
        lambda *each: ", ".join(each),
    ),
)
@pytest.mark.sampled(4)
def test_results_and_gradients(
    name: str, dtype: str, form: str, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_LEAST_PRODUCTS", 1 << 40)
    _check(name, dtype, form, copies=False)


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(
        product(CASES, ERRORS), lambda *each: each == ("groups", "bfloat16"), lambda *each: ", ".join(each)
    ),
)
def test_channels_become_neighbours_first(
    name: str, dtype: str, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is much to compute of an element, it is copied to where its neighbours are the other channels."""
    monkeypatch.setattr(kernels, "_LEAST_PRODUCTS", 0)
    monkeypatch.setattr(warpgroup_convolution, "_MOST_READS", 0)
    _check(name, dtype, "contiguous", copies=True)


def _check(name: str, dtype: str, form: str, *, copies: bool) -> None:
    function, options = getattr(convolution, CASES[name][0]), CASES[name][3]
    operands = _operands(name, dtype)
    exact = [x.double().requires_grad_() for x in operands]
    expected = function(*exact, **options)
    order = _LAST.get(operands[0].dim()) if form == "last" else None
    order = order or tensor.contiguous_format
    on_device = [
        (x.cuda().contiguous(memory_format=order) if x.dim() > 3 else x.cuda()).requires_grad_()
        for x in operands
    ]
    result, names = _kernels(lambda: function(*on_device, **options))
    # The image is a matrix where windows are single elements.
    channels = CASES[name][1][-len(CASES[name][2]) + 1] // options.get("groups", 1)
    copied = copies and not channels % (16 // operands[0].dtype.itemsize)
    if name != "1x1" or form == "last":
        assert {each.split("_")[0] for each in names} - {"copy"} == {"arrange", "convolution"}
        assert copied == any(each.startswith("copy") for each in names)
    assert result.is_contiguous(memory_format=order)
    _assert_close(result, expected, ERRORS[dtype])
    grad = tensor.randn(result.shape, generator=tensor.Generator().manual_seed(9)).to(result.dtype)
    expected.backward(grad.double())
    grad = grad.cuda().contiguous(memory_format=order)
    _, names = _kernels(lambda: result.backward(grad))
    assert "sum_weight_parts_" + dtype in names
    assert not {each.split("_")[0] for each in names} & {"unfold", "fold", *([] if copies else ["copy"])}
    for x, y in zip(on_device, exact, strict=True):
        assert x.dim() == 1 or x.grad.is_contiguous(memory_format=order)
        _assert_close(x.grad, y.grad, ERRORS[dtype])


#: Windows of a block, type, format, filters, channels, kernel, groups: every tile of results, and of gradients of weights.
_TILES = [
    (256, "float32", "contiguous", 72, 64, (3, 3), 1),
    (192, "bfloat16", "last", 72, 136, (3, 1), 1),
    (192, "float32", "last", 128, 72, (2, 2), 1),
    (128, "float16", "contiguous", 136, 72, (1, 1), 2),
    (256, "bfloat16", "contiguous", 64, 136, (2, 1), 1),
]


def test_images_are_copied_where_elements_are_read_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    drv.simulator.install(check="off", capability=(9, 0))
    x, weight = tensor.ones(1, 16, 20, 20, device="cuda"), tensor.ones(136, 16, 3, 3, device="cuda")

    def copies(weight: Any, **options: Any) -> bool:
        return _kernels(lambda: convolution.conv2d(x, weight, **options))[1][0].startswith("copy")

    assert copies(weight, padding=1)
    assert copies(weight, padding=1, stride=2)
    assert not copies(weight[:128], padding=1, stride=2)


@pytest.mark.parametrize(
    ("rows", "dtype", "form", "filters", "channels", "kernel", "groups"),
    thinned(_TILES, lambda *each: each in _TILES[:2]),
)
def test_tiles_of_warpgroups(
    rows: int,
    dtype: str,
    form: str,
    filters: int,
    channels: int,
    kernel: tuple[int, int],
    groups: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    monkeypatch.setattr(kernels, "_LEAST_PRODUCTS", 0)
    monkeypatch.setattr(warpgroup_convolution, "_MOST_READS", 0)
    monkeypatch.setattr(warpgroup_convolution, "_ROWS", (rows,))
    drv.simulator.install(check="full", schedule="random", capability=(9, 0))
    options = {"stride": (1, 2), "padding": 1, "groups": groups}
    image, weight = (2, channels * groups, 16, 21), (filters * groups, channels, *kernel)
    monkeypatch.setitem(CASES, "tiles", ("conv2d", image, weight, options))
    _check("tiles", dtype, form, copies=form == "contiguous")
    assert not drv.simulator.findings()


#: Type, shapes of image and weight, options, first column of longer rows, whether columns are read in pairs.
_PAIRS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any], int, bool]] = [
    ("bfloat16", (2, 13, 5, 12), (11, 13, 3, 3), {"stride": 2, "padding": 1}, 0, True),
    ("float32", (1, 16, 4, 10), (16, 8, 2, 5), {"stride": (1, 2), "padding": (1, 2), "groups": 2}, 2, True),
    # The same plan, from an odd address.
    ("float32", (1, 16, 4, 10), (16, 8, 2, 5), {"stride": (1, 2), "padding": (1, 2), "groups": 2}, 1, False),
    ("bfloat16", (2, 72, 5, 12), (11, 72, 3, 3), {"stride": 2, "padding": 1}, 3, False),
    ("float16", (1, 8, 3, 5, 16), (8, 8, 2, 2, 4), {"stride": (1, 1, 4), "dilation": (1, 2, 1)}, 0, True),
    ("float32", (1, 40, 3, 14), (8, 40, 1, 4), {"stride": 2, "padding": (0, 3)}, 0, True),
    ("float32", (1, 16, 5, 11), (8, 16, 3, 3), {"stride": 2, "padding": 1}, 0, False),
    ("bfloat16", (1, 16, 5, 12), (8, 16, 3, 3), {"stride": 2, "padding": 1, "dilation": 2}, 0, False),
    ("bfloat16", (1, 16, 5, 12), (8, 16, 3, 3), {"stride": (2, 1), "padding": 1}, 0, False),
    ("float16", (1, 16, 5, 12), (8, 16, 3, 1), {"stride": 2}, 0, False),
]


@pytest.mark.parametrize(
    ("dtype", "image", "weight", "options", "first", "paired"),
    thinned(
        _PAIRS,
        lambda *each: each in _PAIRS[:3],
        lambda *each: ", ".join(str(x) for x in (each[0], *each[3].items(), *each[4:])),
    ),
)
def test_columns_two_apart_are_read_in_pairs(
    dtype: str,
    image: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
    first: int,
    paired: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    monkeypatch.setattr(kernels, "_LEAST_PRODUCTS", 1 << 40)
    launched_in_pairs: list[bool] = []
    launcher = warpgroup_convolution.launcher

    def noted(device: Any, file: str, source: str, *arguments: Any, **others: Any) -> Any:
        launch = launcher(device, file, source, *arguments, **others)

        def run(*values: Any) -> None:
            launched_in_pairs.append(", 2>" in source)
            launch(*values)

        return run

    monkeypatch.setattr(warpgroup_convolution, "launcher", noted)
    drv.simulator.install(check="full", schedule="random", capability=(9, 0))
    generator = tensor.Generator().manual_seed(first)
    longer = (*image[:-1], image[-1] + 4) if first else image
    x, factor = (
        tensor.randn(shape, generator=generator).to(getattr(tensor, dtype)) for shape in (longer, weight)
    )
    function = convolution.conv3d if len(image) == 5 else convolution.conv2d
    columns = slice(first, first + image[-1])
    result = function(x.cuda()[..., columns], factor.cuda(), **options)
    assert launched_in_pairs == [paired]
    _assert_close(result, function(x.double()[..., columns], factor.double(), **options), ERRORS[dtype])
    assert not drv.simulator.findings()


#: Windows of a block, type, shapes of image and weight, options, first column of a longer image, whether rows come once.
_ROWS: list[tuple[int, str, tuple[int, ...], tuple[int, ...], dict[str, Any], int, bool]] = [
    # Blocks see the ends and beginnings of several items; the last channels of a line, and filters of a tile, are missing.
    (192, "bfloat16", (5, 40, 12, 16), (24, 40, 3, 3), {"stride": 2, "padding": 1}, 0, True),
    # Pieces of 16 bytes begin and end in the middle of rows, whose number is odd as is that of steps.
    (128, "float16", (3, 72, 8, 9), (136, 36, 3, 3), {"stride": (1, 2), "padding": 1, "groups": 2}, 0, True),
    # The same plan, from an address that is no multiple of 16.
    (128, "float16", (3, 72, 8, 9), (136, 36, 3, 3), {"stride": (1, 2), "padding": 1, "groups": 2}, 1, False),
    (128, "bfloat16", (2, 16, 20, 12), (72, 16, 3, 2), {"stride": (1, 2), "padding": (0, 1), "dilation": (1, 3)}, 0, True),
    (128, "float16", (2, 100, 8, 20), (8, 100, 2, 4), {"stride": (3, 2)}, 0, True),
    (128, "bfloat16", (1, 32, 24, 24), (70, 32, 5, 5), {"stride": 2, "padding": (4, 2)}, 0, True),
    (192, "bfloat16", (2, 16, 5, 12), (8, 16, 3, 3), {"stride": 2}, 0, False),
    (192, "bfloat16", (2, 16, 16, 16), (8, 16, 1, 3), {"stride": 2}, 0, False),
    (192, "bfloat16", (2, 16, 16, 16), (8, 16, 3, 3), {"stride": (2, 1)}, 0, False),
    (192, "float32", (2, 16, 16, 16), (8, 16, 3, 3), {"stride": 2}, 0, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "dtype", "image", "weight", "options", "first", "once"),
    thinned(
        _ROWS,
        lambda *each: each in _ROWS[:3],
        lambda *each: ", ".join(str(x) for x in (*each[:3], *each[4].items(), each[5])),
    ),
)
def test_rows_of_an_image_come_to_shared_memory_once(
    rows: int,
    dtype: str,
    image: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
    first: int,
    once: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    monkeypatch.setattr(kernels, "_LEAST_PRODUCTS", 1 << 40)
    monkeypatch.setattr(warpgroup_convolution, "_MOST_READS", 1 << 20)
    monkeypatch.setattr(warpgroup_strided_convolution, "_ROWS", (rows,))
    launches: list[str] = []
    for module in (warpgroup_convolution, warpgroup_strided_convolution):

        def noted(
            device: Any, file: str, *arguments: Any, launcher: Any = module.launcher, **others: Any
        ) -> Any:
            launch = launcher(device, file, *arguments, **others)

            def run(*values: Any) -> None:
                launches.append(file)
                launch(*values)

            return run

        monkeypatch.setattr(module, "launcher", noted)
    drv.simulator.install(check="full", schedule="random", capability=(9, 0))
    generator = tensor.Generator().manual_seed(first)
    x, factor, bias = (
        tensor.randn(shape, generator=generator).to(getattr(tensor, dtype))
        for shape in (image, weight, weight[:1])
    )
    # A channel of the last group, which windows of others do not see, nor those that are elsewhere.
    x[0, -1, 4, 4] = float("inf")
    memory = tensor.zeros(x.numel() + first, dtype=x.dtype, device="cuda")
    memory[first:] = x.view(-1).cuda()
    result = convolution.conv2d(memory[first:].view(*image), factor.cuda(), bias.cuda(), **options)
    expected = convolution.conv2d(x.double(), factor.double(), bias.double(), **options)
    assert launches == ["warpgroup_strided_convolution.cu" if once else "warpgroup_convolution.cu"]
    finite = expected.isfinite()
    assert tensor.equal(result.cpu().isfinite(), finite)
    zero = expected.new_zeros(())
    assert 0 < int((~finite).sum()) < finite.numel() // 4
    _assert_close(
        tensor.where(finite, result.cpu().double(), zero), tensor.where(finite, expected, zero), ERRORS[dtype]
    )
    assert not drv.simulator.findings()


@pytest.mark.parametrize(
    ("capability", "kernels", "expected"),
    [
        ((9, 0), [(1, 1, 30)], True),
        ((9, 0), [(1, 1, 31)], False),
        ((9, 0), [(1, 3, 3), (11, 11, 11)], False),
        ((8, 9), [(1, 3, 3)], False),
        ((10, 0), [(1, 3, 3)], False),
    ],
)
def test_what_warpgroups_take(
    capability: tuple[int, int], kernels: list[tuple[int, int, int]], expected: bool
) -> None:
    device: Any = SimpleNamespace(compute_capability=capability)
    assert warpgroup_convolution.takes(device, kernels) == expected
    assert warpgroup_products.has_products(device) == (capability == (9, 0))


@pytest.mark.parametrize("length", [30, 31])
def test_kernels_with_a_bit_for_each_element_and_longer_ones(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elements of all three dimensions share a word, up to its last bit; of longer kernels warps compute the products."""
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    monkeypatch.setattr(kernels, "_LEAST_PRODUCTS", 1 << 40)
    launches, directions = warpgroup_convolution.launches, []

    def noted(device: Any, dtype: Any, direction: str, *arguments: Any, **options: Any) -> Any:
        directions.append(direction)
        return launches(device, dtype, direction, *arguments, **options)

    monkeypatch.setattr(warpgroup_convolution, "launches", noted)
    drv.simulator.install(check="full", schedule="random", capability=(9, 0))
    monkeypatch.setitem(CASES, "long", ("conv1d", (1, 8, 33), (8, 8, length), {"padding": 3}))
    _check("long", "bfloat16", "contiguous", copies=False)
    assert directions == (["forward", "input"] if length == 30 else [])
    assert not drv.simulator.findings()


def test_addresses_strides_and_bits(schedule: str) -> None:
    """Rows at odd addresses and with gaps are read element by element, to the same results every time."""
    memory = tensor.randn(1, 4, 5, 20, device="cuda", dtype=tensor.float16)
    weight = tensor.randn(8, 16, 2, 1, device="cuda", dtype=tensor.float16)
    expected = None
    for first in (0, 1):
        image = memory[..., first : first + 16].permute(0, 3, 1, 2)
        for _ in range(2):
            result, names = _kernels(lambda image=image: convolution.conv2d(image, weight))
            assert names == ["arrange_weight_float16", "convolution_forward_float16"]
            if expected is not None and first == 0:
                assert tensor.equal(result, expected)
            expected = result
        _assert_close(
            result, convolution.conv2d(image.cpu().double(), weight.cpu().double()), ERRORS["float16"]
        )


def test_what_is_computed_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work, few channels, depthwise and exact float32 go another way."""
    drv.simulator.install(check="off")
    x, weight = tensor.ones(1, 16, 6, 6, device="cuda"), tensor.ones(8, 16, 3, 3, device="cuda")

    def name(*operands: Any, **options: Any) -> str:
        return _kernels(lambda: convolution.conv2d(*operands, **options))[1][0].split("_")[0]

    assert name(x, weight) == "unfold"
    # A plan stays as it is: what is asked next has other sizes.
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    x = tensor.ones(2, 16, 6, 6, device="cuda")
    assert name(x, weight) == "arrange"
    monkeypatch.setattr(settings, "convolution_tf32", False)
    assert name(x, weight) == "unfold"
    monkeypatch.undo()
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    assert name(x, weight) == "arrange"
    assert name(tensor.ones(2, 4, 6, 6, device="cuda"), tensor.ones(8, 4, 3, 3, device="cuda")) == "unfold"
    assert name(x, weight[:, :1].expand(8, 1, 3, 3).repeat(2, 1, 1, 1), groups=16) == "depthwise"
    assert name(x.double(), weight.double()) == "unfold"


def test_older_devices_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implicit, "LEAST_WORK", 0)
    drv.simulator.install(check="off", capability=(7, 5))
    x, weight = tensor.ones(2, 16, 6, 6, device="cuda"), tensor.ones(8, 16, 3, 3, device="cuda")
    assert "unfold_4_bytes" in _kernels(lambda: convolution.conv2d(x, weight))[1]
