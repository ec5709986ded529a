"""Reading, writing and adding at indices and masks: against NumPy, and PyTorch where it is installed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tensor

_RNG = np.random.default_rng(0)
SOURCE = _RNG.standard_normal((3, 4, 5)).astype(np.float32)
ALL = slice(None)


def _i(*values: Any, kind: Any = np.int64) -> np.ndarray[Any, Any]:
    return np.array(values, kind)


def _mask(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, bool)


#: Keys that NumPy takes too, with the same meaning.
KEYS: dict[str, Any] = {
    "vector": _i(0, 2),
    "pairs": (_i(0, 2), _i(1, 3)),
    "second": (ALL, _i([0, 1], [2, 3])),
    "apart": (_i(0, 1), ALL, _i(1, 2)),
    "broadcast": (_i([0], [1]), _i(1, 2)),
    "new": (None, _i(1)),
    "last": (Ellipsis, _i(0, -1)),
    "slices": (slice(0, 2), ALL, _i(1)),
    "int32": _i(0, 1, kind=np.int32),
    "all": (_i(0), _i(1), _i(2)),
    "none": (slice(None, None, 2), _i()),
    "mask": SOURCE > 0,
    "mask of the second": (ALL, _mask(1, 0, 1, 0)),
    "mask of two": SOURCE[:, :, 0] > 0,
    "mask and indices": (_mask(1, 0, 1), _i(0, 1)),
    "empty mask": np.zeros((3, 4, 5), bool),
    "list": [0, 2],
    "lists": ([0, 1], [1, 2]),
    "bools": [True, False, True],
    "true": True,
    "false": False,
}


def _key(key: Any, device: str) -> Any:
    """The key with tensors for arrays."""
    if isinstance(key, np.ndarray):
        return tensor.from_numpy(key.copy()).to(device)
    return tuple(_key(part, device) for part in key) if isinstance(key, tuple) else key


def _array(x: Any) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = x.detach().cpu().numpy()
    return result


def _layouts(device: str) -> list[Any]:
    """The source in row-major order, and with its dimensions turned around in memory."""
    turned = np.ascontiguousarray(SOURCE.transpose(2, 0, 1))
    return [
        tensor.from_numpy(SOURCE.copy()).to(device),
        tensor.from_numpy(turned).to(device).permute(1, 2, 0),
    ]


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.sampled(4)
def test_keys(name: str, device_name: str) -> None:
    key = KEYS[name]
    expected = SOURCE[key]
    for source in _layouts(device_name):
        result = source[_key(key, device_name)]
        assert result.dtype is tensor.float32
        np.testing.assert_array_equal(_array(result), expected)
        assert result.is_contiguous()


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.sampled(4)
def test_writes(name: str, device_name: str) -> None:
    key = KEYS[name]
    shape = SOURCE[key].shape
    for value in (7.0, _RNG.standard_normal(shape).astype(np.float32)):
        expected = SOURCE.copy()
        expected[key] = value
        for source in _layouts(device_name):
            version = source._version
            source[_key(key, device_name)] = (
                value if isinstance(value, float) else tensor.from_numpy(value).to(device_name)
            )
            np.testing.assert_array_equal(_array(source), expected)
            assert source._version == version + 1 or key is False


@pytest.mark.parametrize("name", [n for n in KEYS if n != "false"])
@pytest.mark.sampled(4)
def test_derivatives_of_keys(name: str, device_name: str) -> None:
    key = KEYS[name]
    source = tensor.from_numpy(SOURCE.copy()).to(device_name).requires_grad_()
    (source[_key(key, device_name)] ** 2).sum().backward()
    expected = np.zeros_like(SOURCE)
    np.add.at(expected, key, 2 * SOURCE[key])
    np.testing.assert_allclose(_array(source.grad), expected, rtol=1e-6)


def test_indices_that_come_twice_add_up(device_name: str) -> None:
    source = tensor.from_numpy(SOURCE.copy()).to(device_name).requires_grad_()
    source[tensor.tensor([1, 1, 0, 1], device=device_name)].sum().backward()
    np.testing.assert_array_equal(_array(source.grad)[:, 0, 0], [1, 3, 0])


def test_written_parts_pass_gradients_to_the_values(device_name: str) -> None:
    source = tensor.from_numpy(SOURCE.copy()).to(device_name).requires_grad_()
    values = tensor.ones(2, 5, device=device_name, requires_grad=True)
    result = source * 2
    result[_key((_i(0, 2), _i(1, 3)), device_name)] = values * 3
    result.sum().backward()
    expected = np.full_like(SOURCE, 2)
    expected[[0, 2], [1, 3]] = 0
    np.testing.assert_array_equal(_array(source.grad), expected)
    np.testing.assert_array_equal(_array(values.grad), np.full((2, 5), 3))


def test_a_mask_and_one_number_need_no_look_at_the_device() -> None:
    import drv

    drv.simulator.install(schedule="lazy")
    source = tensor.arange(6.0, device="cuda")
    mask = source > 2
    source[mask] = 0
    stream = tensor.cuda.current_stream()
    assert not stream.query()
    assert source.tolist() == [0, 1, 2, 0, 0, 0]


BAD_KEYS = {
    "too many": ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
    "too many tensors": ((_i(0),) * 4, IndexError, "too many indices"),
    "shapes": ((_i(0, 1), _i(0, 1, 2)), IndexError, "could not be broadcast together"),
    "floats": (np.array([0.5]), IndexError, "must be long, int, byte or bool"),
    "mask": (_mask(1, 0), IndexError, r"shape of the mask \[2\] at index 0 does not match"),
    "text": ("a", IndexError, "only integers, slices"),
    "float": (1.5, IndexError, "only integers, slices"),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_bad_keys(name: str, device_name: str) -> None:
    key, error, message = BAD_KEYS[name]
    source = tensor.from_numpy(SOURCE.copy()).to(device_name)
    with pytest.raises(error, match=message):
        source[_key(key, device_name)]
    with pytest.raises(error, match=message):
        source[_key(key, device_name)] = 0
    np.testing.assert_array_equal(_array(source), SOURCE)


def test_bad_values(device_name: str) -> None:
    source = tensor.from_numpy(SOURCE.copy()).to(device_name)
    index = tensor.tensor([0, 1], device=device_name)
    with pytest.raises(
        RuntimeError, match=r"shape mismatch: value tensor of shape \[3\] cannot be broadcast"
    ):
        source[index] = tensor.ones(3, device=device_name)
    with pytest.raises(RuntimeError, match="destination dtypes match"):
        source[index] = tensor.ones(5, device=device_name, dtype=tensor.float64)
    np.testing.assert_array_equal(_array(source), SOURCE)


# Functions, against PyTorch

_INDEX = _i([[0, 1, 0, 2, 1]])
CALLS: dict[str, tuple[Any, ...]] = {
    "gather 1": ("gather", 1, _i([[0, 1, 2, 3, 0]], [[3, 2, 1, 0, 0]])),
    "gather 0": ("gather", 0, _i([[0, 1, 2, 0, 0]])),
    "gather int32": ("gather", -1, _i([[0, 1, 2, 0, 0]], kind=np.int32)),
    "gather none": ("gather", 0, np.zeros((0, 4, 5), np.int64)),
    "index_select": ("index_select", 1, _i(3, 0, 0)),
    "index_select last": ("index_select", 2, _i(4, 0, 1, kind=np.int32)),
    "index_select none": ("index_select", 2, _i()),
    "take": ("take", _i([0, -1, 7])),
    "take_along_dim": ("take_along_dim", _i([[0]], [[1]], [[2]]), 1),
    "take_along_dim flat": ("take_along_dim", _i(1, 2)),
    "masked_select": ("masked_select", SOURCE > 0),
    "masked_select stretched": ("masked_select", _mask(1, 0, 1, 0, 0)),
    "nonzero": ("nonzero",),
    "argwhere": ("argwhere",),
    "scatter": ("scatter", 0, _INDEX, np.ones((1, 1, 5), np.float32)),
    "scatter number": ("scatter", 0, _INDEX, 3.5),
    "scatter add": ("scatter", 0, _INDEX, np.ones((1, 1, 5), np.float32), {"reduce": "add"}),
    "scatter_add": ("scatter_add", 0, _INDEX, np.ones((1, 1, 5), np.float32)),
    "scatter_add 2": ("scatter_add", 2, _INDEX, np.ones((1, 1, 5), np.float32)),
    "index_add": ("index_add", 1, _i(0, 2, 0), _RNG.standard_normal((3, 3, 5)).astype(np.float32)),
    "index_add alpha": ("index_add", 0, _i(0, 0), np.ones((2, 4, 5), np.float32), {"alpha": 2.5}),
    "index_copy": ("index_copy", 1, _i(0, 2), np.ones((3, 2, 5), np.float32)),
    "index_fill": ("index_fill", 2, _i(0, -1), 2.5),
    "index_put": ("index_put", (_i(0, 1), _i(1, 1)), np.ones((2, 5), np.float32)),
    "index_put adds": ("index_put", (_i(0, 1, 0), _i(1, 1, 1)), np.ones((3, 5), np.float32), True),
    "put": ("put", _i(0, 5, 7), np.ones(3, np.float32)),
    "put adds": ("put", _i(0, 5, 0), np.ones(3, np.float32), True),
    "masked_fill": ("masked_fill", SOURCE > 0, 1.5),
    "masked_fill stretched": ("masked_fill", _mask(1, 0, 1, 0, 0), 2),
    "masked_fill tensor": ("masked_fill", SOURCE > 0, np.array(1.5, np.float32)),
    "masked_scatter": ("masked_scatter", SOURCE > 0, np.arange(60, dtype=np.float32)),
}
_PLACES = _i([[0, 1, 0, 2, 1]], [[0, 1, 1, 1, 1]])
_REDUCED = np.arange(-3, 7, dtype=np.float32).reshape(2, 1, 5)
CALLS |= {
    f"scatter_reduce {how} {own}": ("scatter_reduce", 0, _PLACES, _REDUCED, how, {"include_self": own})
    for how in ("sum", "prod", "mean", "amax", "amin")
    for own in (True, False)
}


def _call(library: Any, x: Any, call: tuple[Any, ...], move: Any, ending: str = "") -> tuple[Any, list[Any]]:
    """The result, and the operands whose gradients are wanted."""
    name, *rest = call
    named = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    argument = [
        tuple(move(part) for part in arg)
        if isinstance(arg, tuple)
        else move(arg)
        if isinstance(arg, np.ndarray)
        else arg
        for arg in rest
    ]
    method = getattr(x, name + ending, None)
    result = method(*argument, **named) if method else getattr(library, name + ending)(x, *argument, **named)
    return result, [arg for arg in argument if hasattr(arg, "requires_grad") and arg.requires_grad]


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.sampled(3)
def test_calls_against_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")

    def mine(array: np.ndarray[Any, Any]) -> Any:
        output = tensor.from_numpy(array.copy()).to(device_name)
        return output.requires_grad_() if array.dtype.kind == "f" else output

    def theirs(array: np.ndarray[Any, Any]) -> Any:
        output = torch.from_numpy(array.copy())
        return output.requires_grad_() if array.dtype.kind == "f" else output

    x, other = mine(SOURCE), theirs(SOURCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, sources = _call(tensor, x, CALLS[name], mine)
        expected, other_sources = _call(torch, other, CALLS[name], theirs)
    assert str(result.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    np.testing.assert_allclose(_array(result), expected.detach().numpy(), rtol=1e-5)
    assert result.requires_grad == expected.requires_grad
    if not result.requires_grad or "NotImplemented" in expected.grad_fn.name():
        return
    assert result.grad_fn.name().rstrip("01") == expected.grad_fn.name().rstrip("01")
    (result**2).sum().backward()
    (expected**2).sum().backward()
    for one, two in zip([x, *sources], [other, *other_sources], strict=True):
        np.testing.assert_allclose(_array(one.grad), two.grad.numpy(), rtol=1e-4, atol=1e-5)


IN_PLACE = [n for n, call in CALLS.items() if hasattr(tensor.Tensor, call[0] + "_")]


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.sampled(4)
def test_in_place_is_the_same(name: str, device_name: str) -> None:
    def move(array: np.ndarray[Any, Any]) -> Any:
        return tensor.from_numpy(array.copy()).to(device_name)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = _call(tensor, move(SOURCE), CALLS[name], move)
    target = move(SOURCE)
    result, _ = _call(tensor, target, CALLS[name], move, "_")
    assert result is target
    assert target._version >= 1
    np.testing.assert_array_equal(_array(target), _array(expected))


_KINDS = [
    tensor.bool, tensor.uint8, tensor.int8, tensor.int16, tensor.int32, tensor.int64, tensor.float16,
    tensor.bfloat16, tensor.float32, tensor.float64, tensor.complex64, tensor.complex128,
]  # fmt: skip


@pytest.mark.parametrize("kind", _KINDS, ids=str)
@pytest.mark.sampled(4)
def test_every_dtype(kind: Any, device_name: str) -> None:
    x = tensor.arange(6, device=device_name).to(kind)
    index = tensor.tensor([1, 3, 1], device=device_name)
    expected = x.cpu().tolist()
    assert x[index].tolist() == [expected[1], expected[3], expected[1]]
    assert x.gather(0, index).dtype is kind
    added = x.scatter_add(0, index, tensor.ones(3, device=device_name).to(kind)).tolist()
    assert added[0] == expected[0]
    if kind is not tensor.bool:
        assert (added[1], added[3]) == (expected[1] + 2, expected[3] + 1)
    x[index] = tensor.zeros(3, device=device_name).to(kind)
    assert not any(x.tolist()[1:4:2])


def test_numbers(device_name: str) -> None:
    x = tensor.tensor(3.0, device=device_name)
    zero = tensor.tensor(0, device=device_name)
    assert x.gather(0, zero).tolist() == 3
    assert x.index_select(0, zero).tolist() == 3
    assert x.take(zero).tolist() == 3
    assert x.scatter(0, zero, 5.0).tolist() == 5
    assert x.index_fill(0, zero, 5.0).tolist() == 5
    assert x.nonzero().shape == (1, 0)
    assert x[x > 1].tolist() == [3]
    assert [p.tolist() for p in x.nonzero(as_tuple=True)] == [[0]]


def _x() -> Any:
    return tensor.arange(12.0).view(3, 4)


def _t(*values: Any) -> Any:
    return tensor.tensor(values)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "gather dtype": (lambda: _x().gather(1, _t([0.5])), RuntimeError, "Expected dtype int32 or int64"),
    "gather rank": (lambda: _x().gather(1, _t(0)), RuntimeError, "same number of dimensions"),
    "gather dim": (lambda: _x().gather(5, _t([0])), IndexError, "Dimension out of range"),
    "gather size": (lambda: _x().gather(0, tensor.zeros(1, 5, dtype=tensor.int64)), RuntimeError, "Size does not match"),
    "gather bounds": (lambda: _x().gather(1, _t([7])), RuntimeError, "index 7 is out of bounds for dimension 1 with size 4"),
    "gather negative": (lambda: _x().gather(1, _t([-1])), RuntimeError, "index -1 is out of bounds"),
    "gather no tensor": (lambda: _x().gather(1, [[0]]), TypeError, "must be Tensor, not list"),
    "index_select bounds": (lambda: _x().index_select(0, _t(3)), IndexError, "out of bounds"),
    "index_select rank": (lambda: _x().index_select(0, _t([0])), IndexError, "supposed to be a vector"),
    "take bounds": (lambda: _x().take(_t(12)), IndexError, "index 12 is out of bounds for a tensor with size 12"),
    "take dtype": (lambda: _x().take(_t(1.0)), RuntimeError, "int64"),
    "key bounds": (lambda: _x()[_t(5)], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    "scatter dtype": (lambda: _x().scatter(1, _t([0]), tensor.zeros(1, 1).double()), RuntimeError, "self.dtype to be equal to src.dtype"),
    "scatter size": (lambda: _x().scatter(1, _t([0, 1]), tensor.zeros(1, 1)), RuntimeError, "no larger size than src"),
    "scatter reduce": (lambda: _x().scatter(1, _t([0]), tensor.ones(1, 1), reduce="foo"), RuntimeError, "add or multiply"),
    "scatter_reduce": (lambda: _x().scatter_reduce(1, _t([0]), tensor.ones(1, 1), "foo"), RuntimeError, "got foo"),
    "index_add count": (lambda: _x().index_add(0, _t(0), tensor.ones(2, 4)), RuntimeError, r"Number of indices \(1\)"),
    "index_add dtype": (lambda: _x().index_add(0, _t(0), tensor.ones(1, 4).double()), RuntimeError, "dtype"),
    "index_add bounds": (lambda: _x().index_add(0, _t(5), tensor.ones(1, 4)), RuntimeError, "out of bounds"),
    "index_copy count": (lambda: _x().index_copy(0, _t(0), tensor.ones(2, 4)), IndexError, "Number of indices"),
    "index_fill value": (lambda: _x().index_fill(0, _t(0), tensor.ones(2)), RuntimeError, "0-dimensional value"),
    "put count": (lambda: _x().put_(_t(0, 1), tensor.ones(3)), IndexError, "same number of elements"),
    "masked_fill mask": (lambda: _x().masked_fill(_t(1, 0, 1, 0), 1), RuntimeError, "only supports boolean masks"),
    "masked_fill value": (lambda: _x().masked_fill(_x() > 0, tensor.zeros(1)), RuntimeError, "0-dimensional value"),
    "masked_fill complex": (lambda: _x().masked_fill(_x() > 0, 1j), RuntimeError, "cannot be converted"),
    "masked_select mask": (lambda: _x().masked_select(_t(1, 0, 1, 0)), RuntimeError, "boolean"),
    "masked_scatter few": (lambda: _x().masked_scatter(_x() > 0, tensor.zeros(2)), RuntimeError, "Number of elements of source"),
    "take_along_dim": (lambda: _x().take_along_dim(_t(3, 2), 0), RuntimeError, "same number of dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()


def test_a_leaf_is_not_written() -> None:
    x = tensor.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x[_t(0)] = 1.0
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.index_fill_(0, _t(0), 1.0)
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize("call", ["gather", "index_select", "take", "key", "scatter", "index_add"])
def test_bad_indices_on_a_device_are_found_there(call: str) -> None:
    import drv

    drv.simulator.install()
    x = tensor.zeros(3, 4, device="cuda")
    index = tensor.tensor([[9]], device="cuda")
    calls: dict[str, Any] = {
        "gather": lambda: x.gather(1, index),
        "index_select": lambda: x.index_select(0, index.view(-1)),
        "take": lambda: x.take(index + 5),
        "key": lambda: x[index],
        "scatter": lambda: x.scatter(1, index, 1.0),
        "index_add": lambda: x.index_add(0, index.view(-1), tensor.ones(1, 4, device="cuda")),
    }
    calls[call]()
    with pytest.raises(drv.DeviceAssertError, match="out of bounds|assert"):
        tensor.cuda.synchronize()


def test_two_devices() -> None:
    import drv

    drv.simulator.install()
    x = tensor.zeros(3, 4, device="cuda")
    with pytest.raises(RuntimeError, match="at least two devices"):
        x.gather(1, tensor.tensor([[0]]))
    # An index on the CPU is moved, as in PyTorch; one on a device does not go to the CPU.
    assert x[tensor.tensor([0, 1])].shape == (2, 4)
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        tensor.zeros(3)[tensor.tensor([0], device="cuda")]


def test_deterministic_sums() -> None:
    assert not tensor.are_deterministic_algorithms_enabled()
    tensor.use_deterministic_algorithms(True)
    try:
        assert tensor.are_deterministic_algorithms_enabled()
        x = tensor.zeros(4)
        x.index_add_(0, _t(1, 1), tensor.ones(2))
        assert x.tolist() == [0, 2, 0, 0]
    finally:
        tensor.use_deterministic_algorithms(False)


def test_values_that_share_memory_are_read_first(device_name: str) -> None:
    x = tensor.arange(6.0, device=device_name)
    x[tensor.tensor([0, 1, 2, 3, 4], device=device_name)] = x[1:]
    assert x.tolist() == [1, 2, 3, 4, 5, 5]
