"""Text of arrays: fixed examples, and PyTorch's own text where it is importable."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import drv
import tensor
from nvrtc_kernels import dtypes
from tensor.methods import printing
from tests.pytorch import torch


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    _restore()
    yield
    _restore()


def _restore() -> None:
    printing.set_printoptions(profile="default")
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 20, -3], "tensor([ 1, 20, -3])"),
        ([True, False], "tensor([ True, False])"),
        ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.0, np.nan, -np.inf], "tensor([1., nan, -inf])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([1 + 2j, 0.5 - 1j], "tensor([1.0000+2.j, 0.5000-1.j])"),
        (3.0, "tensor(3.)"),
        ([], "tensor([])"),
        ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
        ([[[1], [2]], [[3], [4]]], "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])"),
    ],
)
def test_text(values: Any, expected: str) -> None:
    assert printing.tensor_text("tensor(", np.array(values), []) == expected


def test_long_arrays_are_shortened() -> None:
    text = printing.tensor_text("tensor(", np.arange(2000), [])
    assert text == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"


def test_suffixes_wrap_at_the_line_width() -> None:
    printing.set_printoptions(linewidth=30)
    text = printing.tensor_text("tensor(", np.arange(5), ["device='cuda:0'", "dtype=tensor.int32"])
    assert text == "tensor([0, 1, 2, 3, 4],\n       device='cuda:0',\n       dtype=tensor.int32)"


def test_an_unknown_profile_changes_nothing() -> None:
    before = printing.get_printoptions()
    with pytest.raises(
        ValueError, match="unknown print profile 'long'; expected one of default, short, full"
    ):
        printing.set_printoptions(precision=7, profile="long")
    assert printing.get_printoptions() == before


@pytest.mark.parametrize("name", ["precision", "threshold", "edgeitems", "linewidth"])
def test_wrong_options_change_nothing(name: str) -> None:
    before = printing.get_printoptions()
    for wrong, error in (("3", TypeError), (object(), TypeError), (-1, ValueError)):
        with pytest.raises(error, match=f"argument '{name}' must"):
            printing.set_printoptions(**{name: wrong})
    assert printing.get_printoptions() == before
    printing.set_printoptions(**{name: np.int64(7)})
    assert getattr(printing.get_printoptions(), name) == 7


DTYPES = st.sampled_from(["float32", "float64", "int64", "bool", "complex64"])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=7)
VALUES = st.one_of(
    arrays.arrays(dtype=DTYPES, shape=SHAPES),
    arrays.arrays(dtype="float32", shape=SHAPES, elements=st.integers(-(10**6), 10**6)),
    arrays.arrays(dtype="float32", shape=SHAPES, elements=st.floats(-10, 10, width=16)),
)


@pytest.mark.parity
@given(
    VALUES,
    st.sampled_from([2, 4, 6]),
    st.sampled_from([1, 3]),
    st.sampled_from([40, 80]),
    st.sampled_from([10, 1000]),
    st.sampled_from([None, True, False]),
)
def test_text_is_pytorchs(
    array: Any, precision: int, edgeitems: int, linewidth: int, threshold: int, sci_mode: bool | None
) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {
        "precision": precision,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
        "threshold": threshold,
        "sci_mode": sci_mode,
    }
    torch.set_printoptions(**options)
    printing.set_printoptions(**options)
    theirs = torch.from_numpy(array.copy())
    suffixes = ["dtype=torch.float64"] if array.dtype == np.float64 else []
    assert printing.tensor_text("tensor(", array, suffixes) == repr(theirs)


# Tensors


def assert_same_text(mine: Any, theirs: Any) -> None:
    """Assert that texts are equal but for the name of the library, and where that makes lines break."""
    result, expected = repr(mine), repr(theirs).replace("torch.", "tensor.")
    if "dtype=" in result:
        result, expected = (_SUFFIX.sub(r", \1=", text) for text in (result, expected))
    assert result == expected
    assert str(mine) == repr(mine) == f"{mine}" or not mine.dim()


_SUFFIX = re.compile(r",\s+(dtype|requires_grad|grad_fn|size)=")

VALUES_IN_TEXT = [
    "0", "1", "-1", "3.0", "0.1", "-0.0", "1e-5", "1e5", "123456.75", "1e8", "1e9", "1e20", "1e-20", "1e38",
    "nan", "inf", "-inf", "[]", "[[]]", "[[], []]", "[1]", "[1.0]", "[0.0, 0.0]", "[1e-9, 1]", "[1e-3, 1]",
    "[1000.0, 1.0]", "[1001.0, 1.0]", "[0.5, 1e4]", "[nan]", "[nan, nan]", "[inf, 1]", "[inf, 1.5]",
    "[nan, 1e-8]", "[1.5, nan, -inf]", "[1e8, 1]", "[1e8 + 64, 1]", "[99999999, 1.5]", "[2**62, -(2**62)]",
    "[-(2**63)]", "[True, False]", "True", "[1j]", "1j", "[1 + 2j, 0.5]", "[1e-8j, 1]", "[complex(nan, 1)]",
    "[complex(inf, -inf), 1]", "[complex(-0.0, -0.0)]", "[1e10 + 1j]", "[[1, 2], [3, 4]]", "[[[1.5]]]",
    "[[[[1, 2]], [[3, 4]]], [[[5, 6]], [[7, 8]]]]", "[0.1 + 0.2]", "[1 / 3, 2 / 3]", "[-1.5, 22.25]",
    "[1e-45]", "[3.4e38]", "[5e-324]", "[1.7e308]", "[65504.0]", "[0.00006]", "[1, 10, 100, 1000]",
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("name", [None, *(dtype.name for dtype in dtypes.ALL)])
def test_values(name: str | None) -> None:
    torch = pytest.importorskip("torch")
    for text in VALUES_IN_TEXT:
        data = eval(text, {"nan": np.nan, "inf": np.inf, "complex": complex})
        try:
            theirs = torch.tensor(data, dtype=name and getattr(torch, name))
        except (RuntimeError, TypeError, ValueError):
            continue
        assert_same_text(tensor.tensor(data, dtype=name and getattr(tensor, name)), theirs)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["float32", "int64", "bool", "float16", "complex64", "uint8", "float64"])
def test_shapes_and_summaries(name: str) -> None:
    torch = pytest.importorskip("torch")
    for shape in [
        (0,), (0, 3), (3, 0), (2, 0, 3), (1,), (1, 1), (1000,), (1001,), (7, 7), (6, 7), (1, 1001), (1001, 1),
        (11, 10, 10), (2, 3, 400), (4, 4, 4, 4), (7, 7, 7, 7), (1, 1, 1, 1, 2), (50,), (3, 50), (6,), (2000, 0),
    ]:  # fmt: skip
        count = int(np.prod(shape))
        theirs = (torch.arange(count) * 7 % 13).to(getattr(torch, name)).reshape(shape)
        mine = (tensor.arange(count) * 7 % 13).to(getattr(tensor, name)).reshape(shape)
        assert_same_text(mine, theirs)
        assert_same_text(mine.T if len(shape) == 2 else mine, theirs.T if len(shape) == 2 else theirs)


@pytest.mark.parity
def test_views_print_their_elements() -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = tensor.arange(24.0).reshape(4, 6), torch.arange(24.0).reshape(4, 6)
    assert_same_text(mine[1:3, ::2].t(), theirs[1:3, ::2].t())
    assert_same_text(mine[0].expand(2, 6), theirs[0].expand(2, 6))
    assert_same_text(mine[0, 0], theirs[0, 0])


@pytest.mark.parity
def test_gradients_are_shown() -> None:
    torch = pytest.importorskip("torch")

    def made(m: Any) -> list[Any]:
        x = m.tensor([[1.0, 2.5], [3.0, -4.0]], requires_grad=True)
        y = m.ones(3, dtype=m.float64, requires_grad=True)
        z = m.tensor(2.0, requires_grad=True)
        return [
            x, y, z, x + 1, x * x, x.sum(), y * 2, z * 3, x.t(), x[0], x.double(), x.clone(), x.detach(), (x + 1).mul_(2),
            x.exp(), x / 2, x @ x, x.mean(), m.zeros(0, requires_grad=True), m.zeros(2, 0, requires_grad=True) * 2,
            m.ones(1, dtype=m.complex64, requires_grad=True), x.reshape(-1), x.view(4), x.unsqueeze(0), -x, x - 1, x**2,
        ]  # fmt: skip

    for mine, theirs in zip(made(tensor), made(torch), strict=True):
        assert_same_text(mine, theirs)


@pytest.mark.parity
def test_long_suffixes_break_lines_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for width in range(20, 81):
        printing.set_printoptions(linewidth=width)
        torch.set_printoptions(linewidth=width)
        mine = tensor.arange(5.0, requires_grad=True)
        assert repr(mine) == repr(torch.arange(5.0, requires_grad=True))
        assert repr(mine + 1) == repr(torch.arange(5.0, requires_grad=True) + 1)
        for shape in ((3, 4), (2, 2, 3), (0, 3)):
            assert repr(tensor.zeros(shape)) == repr(torch.zeros(shape))


def test_devices_are_shown() -> None:
    drv.simulator.install(devices=2)
    assert repr(tensor.arange(3, device="cuda")) == "tensor([0, 1, 2], device='cuda:0')"
    assert repr(tensor.ones(2, device="cuda:1")) == "tensor([1., 1.], device='cuda:1')"
    assert repr(tensor.ones(2, device=1, dtype=tensor.int8)) == (
        "tensor([1, 1], device='cuda:1', dtype=tensor.int8)"
    )
    assert repr(tensor.zeros(0, 3, device="cuda")) == "tensor([], device='cuda:0', size=(0, 3))"
    assert repr(tensor.tensor(2.5, device="cuda", requires_grad=True)) == (
        "tensor(2.5000, device='cuda:0', requires_grad=True)"
    )
    assert repr(tensor.ones(2, device="cuda", requires_grad=True) * 2) == (
        "tensor([2., 2.], device='cuda:0', grad_fn=<MulBackward0>)"
    )
    assert repr(tensor.arange(1001, device="cuda")) == (
        "tensor([   0,    1,    2,  ...,  998,  999, 1000], device='cuda:0')"
    )
    with tensor.cuda.device(1):
        assert repr(tensor.ones(1, device="cuda")) == "tensor([1.], device='cuda:1')"


@pytest.mark.parity
def test_default_dtypes_have_no_suffix() -> None:
    torch = pytest.importorskip("torch")
    for name in ("float64", "float16"):
        try:
            tensor.set_default_dtype(getattr(tensor, name))
            torch.set_default_dtype(getattr(torch, name))
            for other in ("float32", "float64", "float16", "complex64", "complex128", "int64"):
                for shape in ((2,), (0,), (0, 2), ()):
                    mine = tensor.ones(shape, dtype=getattr(tensor, other))
                    assert_same_text(mine, torch.ones(shape, dtype=getattr(torch, other)))
        finally:
            tensor.set_default_dtype(tensor.float32)
            torch.set_default_dtype(torch.float32)


OPTIONS: list[dict[str, Any]] = [
    {"precision": 2}, {"precision": 0}, {"precision": 10}, {"threshold": 5}, {"threshold": 0},
    {"threshold": 5, "edgeitems": 1}, {"threshold": 5, "edgeitems": 2}, {"threshold": 5, "edgeitems": 0},
    {"linewidth": 30}, {"linewidth": 200}, {"linewidth": 1}, {"sci_mode": True}, {"sci_mode": False},
    {"profile": "default"}, {"profile": "short"}, {"profile": "full"}, {"profile": "short", "precision": 6},
    {"profile": "full", "linewidth": 40}, {"threshold": np.inf},
    {"sci_mode": True, "precision": 2},
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    tensor.set_printoptions(**options)
    torch.set_printoptions(**options)
    numbers = np.linspace(-1000, 12345.678, 1200)
    for shape in ((1200,), (3, 400), (10, 10, 12)):
        for name in ("float32", "int64", "bool", "complex64", "float16"):
            mine = tensor.from_numpy(numbers).reshape(shape).to(getattr(tensor, name))
            assert_same_text(mine, torch.from_numpy(numbers).reshape(shape).to(getattr(torch, name)))
    for value in (0.5, 3.0, 1e10, 7, 1e-7):
        assert_same_text(tensor.tensor(value), torch.tensor(value))


@pytest.mark.parity
def test_options_add_up_until_a_profile_is_chosen() -> None:
    torch = pytest.importorskip("torch")
    for options in ({"precision": 2}, {"sci_mode": True}, {"threshold": 3}, {}, {"profile": "default"}):
        tensor.set_printoptions(**options)
        torch.set_printoptions(**options)
        assert_same_text(tensor.arange(5) / 3, torch.arange(5) / 3)


@pytest.mark.parity
def test_containers_and_sizes() -> None:
    torch = pytest.importorskip("torch")

    def made(m: Any) -> list[Any]:
        x = m.arange(4.0).reshape(2, 2)
        return [[x, x], (x,), {"a": x}, x.shape, m.Size([]), x.dtype, x.device, m.strided, m.channels_last]

    for mine, theirs in zip(made(tensor), made(torch), strict=True):
        assert repr(mine) == repr(theirs).replace("torch.", "tensor.")
        assert str(mine) == str(theirs).replace("torch.", "tensor.")


def test_printing_waits_for_the_device(device_name: str) -> None:
    x = tensor.zeros(3, device=device_name)
    for _ in range(5):
        x += 1
    assert repr(x).startswith("tensor([5., 5., 5.]")


ANY = st.sampled_from("?bhilBefdFD").flatmap(lambda code: arrays.arrays(code, SHAPES))


@pytest.mark.parity
@given(ANY, st.sampled_from([None, True, False]), st.sampled_from([20, 80]), st.sampled_from([8, 1000]))
def test_tensors_of_anything(array: Any, sci_mode: bool | None, linewidth: int, threshold: int) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"sci_mode": sci_mode, "linewidth": linewidth, "threshold": threshold}
    tensor.set_printoptions(**options)
    torch.set_printoptions(**options)
    assert_same_text(tensor.from_numpy(array.copy()), torch.from_numpy(array.copy()))


class _Image(tensor.Tensor):
    pass


class _Quiet(tensor.Tensor):
    def __repr__(self) -> str:
        return f"quiet {super().__repr__()[:-1]}, more)"


def test_derived_classes_print_their_names() -> None:
    x = tensor.ones(2)
    assert str(x.as_subclass(_Image)) == "_Image([1., 1.])"
    assert str(x.as_subclass(_Quiet)) == "quiet _Quiet([1., 1.], more)"


@pytest.mark.parity
def test_derived_classes_print_as_pytorchs() -> None:
    class Image(torch.Tensor):
        pass

    assert repr(torch.ones(1, 2).as_subclass(Image)) == "Image([[1., 1.]])"
    for library in (tensor, torch):
        assert str(library.nn.Parameter(library.ones(1))).endswith("\ntensor([1.], requires_grad=True)")
        assert str(library.nn.Buffer(library.ones(1))) == "tensor([1.])"
