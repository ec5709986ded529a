"""The array API standard: names and rules that are not PyTorch's."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

import tensor
from tensor import array_api as xp
from tests.pytorch import torch


def test_namespace_of_a_tensor(device_name: str) -> None:
    x = tensor.zeros(2, device=device_name)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12").__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match=r"version '2020\.01'"):
        x.__array_namespace__(api_version="2020.01")
    assert all(hasattr(xp, name) for name in xp.__all__)


def test_tensors_move() -> None:
    x = tensor.ones(2)
    assert x.to_device("cpu").device.type == "cpu"


def test_tensors_move_on_a_stream(device: object) -> None:
    x = tensor.ones(2)
    stream = tensor.cuda.Stream()
    y = x.to_device("cuda", stream=stream)
    stream.synchronize()
    assert y.device.type == "cuda"
    assert y.to_device("cpu").tolist() == [1, 1]


def test_arrays_without_dimensions_promote() -> None:
    x, y = tensor.ones(2), tensor.tensor(2.0, dtype=tensor.float64)
    assert xp.add(x, y).dtype is tensor.float64
    assert xp.where(tensor.tensor([True, False]), x, y).dtype is tensor.float64
    assert xp.multiply(x, 2).dtype is xp.multiply(2.0, x).dtype is tensor.float32
    assert xp.result_type(x, y) is tensor.float64
    assert xp.result_type(tensor.int32, 2.0) is tensor.float32
    with pytest.raises(ValueError, match="at least one array or dtype"):
        xp.result_type(1, 2)


@pytest.mark.parametrize(
    ("dtype", "kind", "expected"),
    [
        ("float32", "real floating", True),
        ("bfloat16", "numeric", True),
        ("complex64", ("bool", "complex floating"), True),
        ("int8", "unsigned integer", False),
        ("uint16", "integral", True),
        ("bool", "numeric", False),
        ("int32", tensor.int32, True),
    ],
)
def test_kinds_of_dtypes(dtype: str, kind: Any, expected: bool) -> None:
    assert xp.isdtype(getattr(tensor, dtype), kind) is expected


def test_dtypes_and_limits() -> None:
    with pytest.raises(ValueError, match="kind is 'real'"):
        xp.isdtype(tensor.float32, "real")
    assert xp.can_cast(tensor.int32, tensor.float64)
    assert not xp.can_cast(tensor.ones(1), tensor.int8)
    assert xp.finfo(tensor.ones(1, dtype=tensor.complex128)).dtype is tensor.float64
    assert xp.iinfo(tensor.int8) == xp.iinfo(tensor.ones(1, dtype=tensor.int8))
    x = tensor.ones(2)
    assert xp.astype(x, tensor.float32, copy=False) is x
    assert xp.astype(x, tensor.int8).dtype is tensor.int8


def test_sets(device_name: str) -> None:
    x = tensor.tensor([[3, 1, 3], [2, 1, 9]], device=device_name)
    values, indices, inverse, counts = xp.unique_all(x)
    assert values.tolist() == xp.unique_values(x).tolist() == [1, 2, 3, 9]
    assert indices.tolist() == [1, 3, 0, 5]
    assert tensor.equal(values[inverse], x)
    assert counts.tolist() == xp.unique_counts(x).counts.tolist() == [2, 1, 2, 1]
    assert tensor.equal(xp.unique_inverse(x).inverse_indices, inverse)


def test_creation() -> None:
    assert xp.arange(3, 1).tolist() == []
    assert xp.arange(3, 1).dtype is tensor.int64
    assert xp.arange(3).tolist() == [0, 1, 2]
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.eye(2, k=5).tolist() == [[0, 0], [0, 0]]
    assert xp.linspace(0, 4, 4, endpoint=False).tolist() == [0, 1, 2, 3]
    assert xp.full(2, 3).tolist() == [3, 3]
    assert xp.zeros(2).shape == xp.empty(2).shape == xp.ones((2,)).shape
    first, second = xp.meshgrid(tensor.arange(2), tensor.arange(3))
    assert first.shape == second.shape == (3, 2)
    assert xp.meshgrid() == []
    assert xp.tril(tensor.ones(2, 2), k=-1).tolist() == xp.triu(tensor.ones(2, 2), k=1).T.tolist()


def test_manipulation() -> None:
    x = tensor.arange(6).reshape(2, 3)
    assert xp.concat([x, x.double()], axis=None).shape == (12,)
    assert xp.concat([x, x.double()]).dtype is tensor.float64
    assert xp.permute_dims(x, (1, 0)).shape == xp.matrix_transpose(x).shape == (3, 2)
    assert xp.take(x, tensor.tensor([-1]), axis=1).tolist() == [[2], [5]]
    assert xp.take(x[0], tensor.tensor([1])).tolist() == [1]
    assert xp.take_along_axis(x, tensor.tensor([[1], [0]])).tolist() == [[1], [3]]
    assert xp.repeat(x[0], tensor.tensor([1, 0, 2], dtype=tensor.int8)).tolist() == [0, 2, 2]
    assert xp.flip(x).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert xp.squeeze(x[:1], 0).shape == (3,)
    assert [each.tolist() for each in xp.unstack(x)] == x.tolist()
    assert xp.tile(x, (2, 1)).shape == xp.stack([x, x]).flatten(0, 1).shape == (4, 3)
    assert xp.expand_dims(x, 0).shape == xp.moveaxis(xp.expand_dims(x, axis=-1), -1, 0).shape == (1, 2, 3)
    assert xp.roll(x, 1, axis=1).tolist() == [[2, 0, 1], [5, 3, 4]]
    assert [each.shape for each in xp.broadcast_arrays(x, x[0])] == [(2, 3)] * 2
    assert xp.broadcast_to(x[0], (2, 3)).shape == (2, 3)
    for call, words in (
        (lambda: xp.squeeze(x, 0), "not of size 1"),
        (lambda: xp.take(x, tensor.tensor([0])), "axis must be specified"),
        (lambda: xp.cumulative_sum(x), "axis must be specified"),
        (lambda: xp.nonzero(tensor.tensor(1)), "without dimensions"),
        (lambda: xp.vecdot(x, x[:, :1]), "along axis -1 differ"),
        (lambda: xp.reshape(x.T, (6,), copy=False), "copy=False"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(IndexError, match="axis 2 is out of range"):
        xp.sum(x, axis=2)
    assert xp.reshape(x, (6,), copy=True).data_ptr() != x.data_ptr()
    assert xp.reshape(x, (6,)).data_ptr() == xp.reshape(x, (6,), copy=False).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.sampled(4)
def test_reductions_are_numpys(name: str, axis: Any, keepdims: bool, device_name: str) -> None:
    array = np.random.default_rng(0).standard_normal((2, 3, 4)) > 0.5
    array = array if name in ("all", "any") else array * 1.5
    result = getattr(xp, name)(tensor.tensor(array, device=device_name), axis=axis, keepdims=keepdims)
    expected = getattr(np, name)(array, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-6)


def test_other_statistics() -> None:
    x = tensor.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert xp.cumulative_sum(x[0], include_initial=True).tolist() == [0, 0, 2]
    assert xp.cumulative_prod(x, axis=1, include_initial=True).tolist() == [[1, 0, 0], [1, 3, 0]]
    assert xp.count_nonzero(x, axis=0, keepdims=True).tolist() == [[1, 1]]
    assert [each.tolist() for each in xp.nonzero(x)] == [[0, 1], [1, 0]]
    assert xp.sort(x, axis=0, descending=True).tolist() == [[3, 2], [0, 0]]
    assert xp.argsort(x).tolist() == [[0, 1], [1, 0]]
    assert (xp.argmax(x), xp.argmin(x, axis=0).tolist()) == (2, [0, 1])
    assert xp.diff(x, axis=1).tolist() == [[2], [-3]]
    assert xp.searchsorted(x[0], tensor.tensor([1])).tolist() == [1]
    assert xp.clip(tensor.tensor([1, 5]), tensor.tensor(2.0), 3).tolist() == [2, 3]
    assert xp.clip(x).tolist() == x.tolist()
    assert math.isnan(xp.sign(tensor.tensor(math.nan)))
    assert xp.sign(tensor.tensor(3 + 4j)).item() == pytest.approx(0.6 + 0.8j)


def test_linear_algebra_and_transforms() -> None:
    x = tensor.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert xp.vecdot(tensor.tensor([1, 2]), tensor.tensor([3, 4])) == 11
    assert xp.vecdot(x, x.double()).dtype is tensor.float64
    assert xp.linalg.trace(x, offset=1) == 1
    assert xp.linalg.vector_norm(x, axis=1).tolist() == pytest.approx([5**0.5, 10**0.5])
    assert xp.linalg.vector_norm(-x, axis=(), ord=1).tolist() == x.tolist()
    assert xp.linalg.matrix_norm(x, keepdims=True).shape == (1, 1)
    assert xp.linalg.matrix_rank(x) == 2
    assert xp.linalg.solve(x, x[0]).tolist() == pytest.approx([1, 0])
    assert xp.linalg.solve(x, tensor.ones(3, 2, 1)).shape == (3, 2, 1)
    assert xp.linalg.outer(x[0], x[0]).tolist() == [[4, 2], [2, 1]]
    assert xp.linalg.cross(tensor.eye(3)[0], tensor.eye(3)[1]).tolist() == [0, 0, 1]
    assert xp.linalg.cross(tensor.eye(3)[:2], tensor.eye(3)[1]).tolist() == [[0, 0, 1], [0, 0, 0]]
    assert xp.linalg.diagonal(x).tolist() == [2, 3]
    assert (xp.linalg.pinv(x) @ x).flatten().tolist() == pytest.approx([1, 0, 0, 1], abs=1e-5)
    assert xp.linalg.svd(x, full_matrices=False).S.tolist() == pytest.approx(xp.linalg.svdvals(x).tolist())
    assert xp.tensordot(x, x, axes=1).tolist() == xp.matmul(x, x).tolist()
    assert xp.fft.ifft(xp.fft.fft(x, axis=0), axis=0).real.flatten().tolist() == pytest.approx([2, 1, 1, 3])
    assert xp.fft.fftn(x, axes=(0,)).shape == (2, 2)
    assert xp.fft.ifftshift(xp.fft.fftshift(x)).tolist() == x.tolist()


def test_what_there_is(device: object) -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert info.default_device() == tensor.device("cpu")
    assert info.default_dtypes()["real floating"] is tensor.float32
    assert [str(each) for each in info.devices()][:2] == ["cpu", "cuda:0"]
    assert [*info.dtypes(kind="unsigned integer")] == ["uint8"]
    assert "bool" in info.dtypes(kind=("bool", "integral"))
    with pytest.raises(ValueError, match="kind is 'real'"):
        info.dtypes(kind="real")


def test_functions_say_what_they_are() -> None:
    functions = [getattr(xp, name) for name in xp.__all__ if inspect.isfunction(getattr(xp, name))]
    assert len(functions) > 100
    assert all(each.__doc__ for each in functions)


@pytest.mark.parity
@pytest.mark.parametrize(
    "name", ["add", "atan2", "floor_divide", "hypot", "logaddexp", "maximum", "remainder", "pow"]
)
def test_functions_of_two_are_pytorchs(name: str) -> None:
    random = np.random.default_rng(0)
    a, b = random.random((3, 4)) + 0.5, random.random(4) + 0.5
    result = getattr(xp, name)(tensor.from_numpy(a), tensor.from_numpy(b))
    expected = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b))
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-12)


INF = math.inf


def _shown(x: tensor.Tensor) -> list[Any]:
    """Elements as text, so that zeros show their signs and NaN equals NaN."""
    return [
        f"{each.real:g} {each.imag:g}" if isinstance(each, complex) else f"{each:g}" for each in x.tolist()
    ]


def test_special_cases_of_quotients(device_name: str) -> None:
    x1 = tensor.tensor([INF, INF, -INF, -INF, 3, -3, 3, -3, INF, 1], device=device_name)
    x2 = tensor.tensor([2, -2, 2, -2, -INF, INF, INF, -INF, INF, 0.1], device=device_name)
    expected = ["inf", "-inf", "-inf", "inf", "-0", "-0", "0", "0", "nan", "9"]
    assert _shown(xp.floor_divide(x1, x2)) == expected
    assert _shown(xp.floor_divide(x1[:2], 2)) == ["inf", "inf"]
    assert _shown(xp.floor_divide(-7.0, x2[:2])) == ["-4", "3"]
    assert xp.floor_divide(tensor.tensor([-7]), 2).tolist() == [-4]


def test_special_cases_of_remainders(device_name: str) -> None:
    x1 = tensor.tensor([0.0, -0.0, 6, -6, 5, -5], device=device_name)
    assert _shown(xp.remainder(x1, -3.0)) == ["-0", "-0", "-0", "-0", "-1", "-2"]
    assert _shown(xp.remainder(x1, tensor.tensor(3.0, device=device_name))) == ["0", "0", "0", "0", "2", "1"]
    assert xp.remainder(tensor.tensor([-7, 7]), 3).tolist() == [2, 1]


def test_special_cases_of_complex_functions(device_name: str) -> None:
    parts = [(0, 0), (-0.0, 0), (INF, 0), (-INF, 1), (INF, 1), (-INF, INF), (INF, INF), (-INF, math.nan)]
    parts += [(INF, math.nan), (math.nan, 0), (math.nan, 1), (1, INF)]
    x = tensor.tensor([complex(*each) for each in parts], device=device_name)
    expected = [
        "0 0",
        "0 0",
        "inf 0",
        "-1 0",
        "inf inf",
        "-1 0",
        "inf nan",
        "-1 0",
        "inf nan",
        "nan 0",
        "nan nan",
    ]
    assert _shown(xp.expm1(x)) == [*expected, "nan nan"]
    edges = tensor.tensor([complex(INF, 2), complex(INF, -2), complex(-INF, 2)], device=device_name)
    assert _shown(xp.tanh(edges)) == ["1 0", "1 -0", "-1 0"]
    small = tensor.tensor([1e-5 + 1e-5j, 0.5 - 2j], device=device_name)
    assert xp.expm1(small).tolist() == pytest.approx([np.expm1(each) for each in small.tolist()], rel=1e-5)
    assert xp.tanh(small).tolist() == pytest.approx([np.tanh(each) for each in small.tolist()], rel=1e-5)
    assert xp.expm1(tensor.tensor([1e-10])).item() == pytest.approx(1e-10)


#: Where operators of tensors are PyTorch's and not the standard's: left operand, operator, right operand.
DEVIATIONS = [
    ([INF, -INF], "__floordiv__", 2.0),
    ([3.0, -3.0], "__floordiv__", -INF),
    ([0.0, -0.0], "__mod__", -1.0),
    ([0.0, -0.0], "__mod__", 1.0),
]


@pytest.mark.parity
@pytest.mark.parametrize(("elements", "operator", "other"), DEVIATIONS)
def test_operators_stay_pytorchs(elements: list[float], operator: str, other: float) -> None:
    x, theirs = tensor.tensor(elements), torch.tensor(elements)
    assert _shown(getattr(x, operator)(other)) == _shown(getattr(theirs, operator)(other))


@pytest.mark.parity
def test_subscripts_and_promotion_stay_pytorchs() -> None:
    for library in (tensor, torch):
        x = library.zeros(3)
        with pytest.raises(ValueError, match="step must be greater than zero"):
            x[::-1]
        with pytest.raises(IndexError, match="shape of the mask"):
            x[library.zeros(0, dtype=library.bool)]
        assert str((x / library.tensor(1.0, dtype=library.float64)).dtype).endswith("float32")
