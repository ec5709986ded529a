"""Wrong arguments of every public function and method: the error names them, and nothing of the inside."""

from __future__ import annotations

import inspect
import re
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import nn
import nn.functional as functional
import tensor
from tensor import fft, linalg, special
from tensor.signal import windows
from tests.tensor.comparison import outcome
from tests.tensor.expressions import value
from tests.tensor.operations import samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMESPACES = {
    "tensor": tensor,
    "linalg": linalg,
    "fft": fft,
    "special": special,
    "windows": windows,
    "functional": functional,
    "Tensor": tensor.Tensor,
}
#: Functions that set something for the whole process, or read and write files.
STATE = frozenset(
    """
    load save manual_seed seed set_default_device set_default_dtype set_default_tensor_type set_num_threads
    set_printoptions set_rng_state use_deterministic_algorithms set_deterministic_debug_mode set_grad_enabled
    set_float32_matmul_precision set_autocast_cache_enabled set_autocast_enabled set_autocast_cpu_enabled
    set_autocast_dtype set_autocast_cpu_dtype set_autocast_gpu_dtype autocast_increment_nesting
    autocast_decrement_nesting set_anomaly_enabled
    """.split()  # noqa: SIM905
)
#: Where PyTorch's own checks are assertions.
ASSERTING = frozenset(("embedding", "embedding_bag", "multi_head_attention_forward"))
EXPECTED = (TypeError, ValueError, RuntimeError, IndexError, OverflowError)
#: What only an error of the inside says: attributes, names that begin with an underscore, how Python unpacks and calls.
INSIDE = re.compile(
    r"has no attribute|(?<![\w.])_[a-z]\w*|unpack non-iterable|values to unpack|subscriptable|takes \d+ positional|NVRTC"
)


def _tensor(*shape: int, device: str = "cpu") -> tensor.Tensor:
    count = 1
    for size in shape:
        count *= size
    return (tensor.arange(float(count), device=device) / (count + 1) + 0.1).reshape(shape)


#: Tensors of which some suit most functions.
OPERANDS: list[Callable[[str], Any]] = [
    lambda on: _tensor(3, 3, device=on),
    lambda on: _tensor(3, device=on),
    lambda on: _tensor(2, 3, 3, device=on),
    lambda on: _tensor(1, 2, 4, 4, device=on),
    lambda on: _tensor(1, 2, 4, 4, 4, device=on),
    lambda on: tensor.tensor([0, 2, 1], device=on),
    lambda on: tensor.eye(3, dtype=tensor.bool, device=on),
]
#: Values by the names of parameters, and else by their annotations.
BY_NAME: dict[str, list[Any]] = {"dim": [0], "dim0": [0], "dim1": [1], "dtype": [tensor.float32]}
BY_ANNOTATION: dict[str, list[Any]] = {
    "int": [2, 1],
    "float": [0.5],
    "bool": [True],
    "str": ["mean", "ij,jk"],
}
OTHERS: list[Any] = [2, (1,), (2, 2), "sum"]


def _is_tensor(parameter: inspect.Parameter) -> bool:
    return "Tensor" in str(parameter.annotation) or parameter.name in ("self", "tensors")


def _call(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    """What a function returns or raises for arguments by name."""
    args, named = [], {}
    left_out = False
    for each in inspect.signature(function).parameters.values():
        if each.name not in values:
            left_out = left_out or each.kind is each.POSITIONAL_OR_KEYWORD
        elif each.kind is each.VAR_POSITIONAL:
            args.append(values[each.name])
        elif left_out or each.kind is each.KEYWORD_ONLY:
            named[each.name] = values[each.name]
        else:
            args.append(values[each.name])
    return outcome(function, *args, **named)


def _arguments(
    required: list[inspect.Parameter], operand: Callable[[str], Any], chosen: tuple[Any, ...], on: str
) -> dict[str, Any]:
    """New tensors for the parameters that are tensors, and ``chosen`` values for the others."""
    rest = iter(chosen)
    return {
        each.name: [operand(on), operand(on)]
        if each.name == "tensors"
        else operand(on)
        if _is_tensor(each)
        else next(rest)
        for each in required
    }


def _suitable(function: Callable[..., Any], on: str) -> Callable[[], dict[str, Any]]:
    """What makes arguments that the function takes, or that are near."""
    required = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    others = [
        BY_NAME.get(each.name) or BY_ANNOTATION.get(str(each.annotation), OTHERS)
        for each in required
        if not _is_tensor(each)
    ]
    tries = [
        partial(_arguments, required, operand, chosen, on)
        for operand in OPERANDS
        for chosen in product(*[values[:3] for values in others])
    ]
    works = (make for make in tries if not isinstance(_call(function, make()), Exception))
    return next(works, tries[0])


def _wrong_values(parameter: inspect.Parameter, on: str) -> list[Any]:
    if parameter.name in ("dim", "dims", "axis"):
        return ["x", 1.5, 2**70, _tensor(3, 3, device=on), object()]
    if parameter.name == "dtype":
        return [_tensor(3, device=on), "float", 3, int, object()]
    if parameter.name == "device":
        return [_tensor(3, device=on), 1.5, "gpu", object()]
    if _is_tensor(parameter):
        return [3, None, "x", [1, 2], object(), tensor.float32]
    return [object(), "x", _tensor(3, 3, device=on)]


def _functions(space: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    known = set()
    for name in getattr(space, "__all__", None) or dir(space):
        function = getattr(space, name)
        if name not in STATE and not name.startswith("_") and inspect.isfunction(function):
            if function not in known:
                yield name, function
            known.add(function)


def _unclear(name: str, function: Callable[..., Any], on: str, *, few: bool = False) -> Iterator[str]:
    """Calls with one wrong argument whose errors are of another class than wrong arguments have, or tell of the inside."""
    make = _suitable(function, on)
    parameters = list(inspect.signature(function).parameters.values())
    # The first one of a method is the tensor whose method it is.
    for parameter in parameters[name.startswith("Tensor.") :]:
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        few_values = [_tensor(3, device=on) if parameter.name == "dtype" else None, "x", object()]
        for wrong in few_values if few else _wrong_values(parameter, on):
            given = make() | {parameter.name: wrong}
            result = _call(function, given)
            if not isinstance(result, Exception):
                continue
            asserting = function.__name__ in ASSERTING and type(result) is AssertionError
            if not (isinstance(result, EXPECTED) or asserting) or INSIDE.search(str(result)):
                yield f"{name}({parameter.name}={wrong!r}): {type(result).__name__}: {result}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("space", NAMESPACES)
def test_errors_say_nothing_of_the_inside(space: str) -> None:
    unclear = [
        told
        for name, function in _functions(NAMESPACES[space])
        for told in _unclear(f"{space}.{name}", function, "cpu")
    ]
    assert not unclear, "\n".join(unclear)


#: Pointwise operations, some of them, and reductions.
SHORT = [
    *sorted({sample.name for sample in samples.SAMPLES if hasattr(tensor, sample.name)})[::10],
    *("sum", "mean", "prod", "var", "amax", "argmax", "any", "cumsum", "softmax", "norm"),
]


@pytest.mark.filterwarnings("ignore")
def test_errors_say_nothing_of_the_inside_on_devices(device_name: str) -> None:
    unclear = [
        told for name in SHORT for told in _unclear(name, getattr(tensor, name), device_name, few=True)
    ]
    assert not unclear, "\n".join(unclear)


#: Arguments without which some functions do nothing, by the names of functions.
NEEDED: dict[str, dict[str, Any]] = {
    **{name: {"dim": 0} for name in ("softmax", "log_softmax", "softmin")},
    **{name: {"size": (2,)} for name in ("empty", "zeros", "ones", "rand", "randn")},
    **{name: {"size": (2,)} for name in ("new_empty", "new_zeros", "new_ones")},
    "empty_permuted": {"size": (2,), "physical_layout": (0,)},
    "arange": {"start": 3},
    "sparse_coo_tensor": {"size": (2,)},
    "randint": {"high": 3, "size": (2,)},
    "randint_like": {"high": 3},
    "normal": {"mean": 0.0, "size": (2,)},
    "sparse_compressed_tensor": {"layout": tensor.sparse_csr},
}


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("space", NAMESPACES)
def test_a_dtype_is_a_dtype_everywhere(space: str, device_name: str) -> None:
    told = []
    for name, function in _functions(NAMESPACES[space]):
        # The method type takes names of types, too.
        if "dtype" not in inspect.signature(function).parameters or name == "type":
            continue
        make = _suitable(function, device_name)
        for wrong in (_tensor(3, 3, device=device_name), "float32", 3, object()):
            result = _call(function, make() | NEEDED.get(name, {}) | {"dtype": wrong})
            if not (isinstance(result, TypeError) and "argument 'dtype'" in str(result)):
                told.append(f"{space}.{name}(dtype={wrong!r}): {result!r}")
    assert not told, "\n".join(told)


#: What is wrong with a call, and what the error says.
CALLS = {
    "f.relu(3)": r"relu\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "f.gelu(None)": r"gelu\(\): argument 'input' .*must be Tensor, not NoneType",
    "f.dropout('x')": r"argument 'input' .*must be Tensor, not str",
    "f.layer_norm(x, (3,), weight=3)": r"layer_norm\(\): argument 'weight' \(position 3\) must be Tensor, not int",
    "f.batch_norm(x, 3, 3)": r"argument 'running_mean' .*must be Tensor, not int",
    "f.cross_entropy(x, None)": r"argument 'target' \(position 2\) must be Tensor, not NoneType",
    "f.embedding(3, x)": r"argument '(input|indices)' .*must be Tensor, not int",
    "f.one_hot(3)": r"argument '(input|tensor)' .*must be Tensor, not int",
    "f.linear(x, 3)": r"linear\(\): argument 2 must be Tensor, not int",
    "f.cosine_similarity(3, x)": r"argument 'x1' \(position 1\) must be Tensor, not int",
    "f.pixel_shuffle(3, 2)": r"argument 'input' .*must be Tensor, not int",
    "f.conv1d(x, [1.0])": r"argument 'weight' .*must be Tensor, not list",
    "f.pad(3, (1, 1))": r"argument 'input' .*must be Tensor, not int",
    "x.expand_as(3)": r"expand_as\(\): argument 'other' .*must be Tensor, not int",
    "x.is_set_to(3)": r"is_set_to\(\): argument 'tensor' must be Tensor, not int",
    "x.clone(memory_format=3)": r"clone\(\): argument 'memory_format' must be tensor.memory_format, not int",
    "x.view('a')": "",
    "x.__delitem__(0)": "Tensor does not support deleting items",
    "m.detach(3)": r"detach\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "m.adjoint(3)": r"adjoint\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "m.as_strided_(3, (1,), (1,))": r"as_strided_\(\): argument 'input' \(position 1\) must be Tensor, not int",
    "m.fft.fft(x, out=3)": r"argument 'out' must be Tensor, not int",
    "m.sum(x, dtype=x)": r"sum\(\): argument 'dtype' must be tensor.dtype, not Tensor",
    "m.cumsum(x, 0, dtype=x)": r"cumsum\(\): argument 'dtype' must be tensor.dtype, not Tensor",
    "m.sum(x, out=3)": r"argument 'out' must be Tensor, not int",
    "m.max(x, 0, out=(x,))": "tuple of 2 elements, but got 1",
    "m.max(x, 0, out=(x, 3))": "expected Tensor as element 1 in argument 'out', but got int",
    "m.atleast_1d(x, 3)": "expected Tensor as element 1 in argument 'tensors'",
    "m.cat([x, 3])": "expected Tensor as element 1",
    "m.broadcast_tensors(x, 3)": "expected Tensor as element 1 in argument 'tensors'",
    "m.repeat_interleave(None)": "argument 'repeats' must be Tensor, not NoneType",
    "m.zeros(3, device=x)": "a device, got",
    "m.round(x, decimals=2**70)": "Overflow when unpacking long long",
    "m.tril_indices(3, 3, 2**70)": "Overflow when unpacking long long",
    "m.combinations(x[0], 2**70)": "Overflow when unpacking long long",
    "f.avg_pool1d(x, 2, 2**70)": "Overflow when unpacking long long",
    "x.copy_(2**70)": "without overflow",
    "m.tensordot(x, x, 1.5)": "tensordot expects dims to be int or tuple",
    "m.tensordot(x, x, None)": "tensordot expects dims to be int or tuple",
}


@pytest.mark.parametrize("text", CALLS)
def test_errors_name_the_argument(text: str, device_name: str) -> None:
    x = tensor.ones(3, 3, device=device_name)
    with pytest.raises(EXPECTED, match=CALLS[text] or None):
        value(text, tensor, device_name, x=x, f=functional)


def test_deleting_items_is_a_type_error(device_name: str) -> None:
    x = tensor.ones(3, device=device_name)
    with pytest.raises(TypeError, match="Tensor does not support deleting items"):
        del x[0]


def test_modules_say_what_they_were_called_with(device_name: str) -> None:
    for module in (
        nn.ReLU(),
        nn.Linear(3, 3),
        nn.LayerNorm(3),
        nn.Softmax(0),
        nn.MaxPool1d(2),
        nn.Dropout(0.5),
    ):
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            module.to(device_name)(3)


def test_the_inside_is_no_part_of_the_traceback() -> None:
    with pytest.raises(TypeError) as caught:
        functional.silu(3)  # type: ignore[arg-type]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_errors_of_users_own_classes_stay() -> None:
    class Index:
        def __index__(self) -> int:
            return self.missing  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(AttributeError, match="missing"):
        tensor.select(tensor.ones(2), 0, Index())  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="missing"):
        functional.softmax(tensor.ones(2), Index())  # type: ignore[arg-type]


@pytest.mark.parity
@pytest.mark.parametrize("text", CALLS)
def test_errors_have_pytorchs_class(text: str, device_name: str) -> None:
    import torch

    x = tensor.ones(3, 3, device=device_name)
    result = outcome(value, text, tensor, device_name, x=x, f=functional)
    expected = outcome(value, text, torch, x=torch.ones(3, 3), f=torch.nn.functional)
    assert isinstance(result, type(expected)), f"{result!r}, in PyTorch {expected!r}"
