"""A program is used for as long as its function would do the same; what cannot be told apart is not compiled."""

from __future__ import annotations

import dataclasses
import random
import time
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import drv
import nn
import tensor
from tensor.compiler import dynamo

_SCALE: Any = 2.0
_TABLE = {"gain": 3.0, "names": ["a"]}
_SETTINGS = SimpleNamespace(depth=2, inner=SimpleNamespace(gain=1.0))
_WEIGHT: Any = None


@pytest.fixture
def x(device: drv.Device) -> Any:
    """A tensor on the device."""
    return tensor.ones(3, device="cuda")


def _scaled(x: Any) -> Any:
    return _helper(x) * _SCALE


def _helper(x: Any) -> Any:
    for _ in range(_SETTINGS.depth):
        x = x + _TABLE["gain"] * _SETTINGS.inner.gain
    return x


def test_globals(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tensor.compile(_scaled, fullgraph=True)

    def check(value: float, programs: int) -> None:
        for _ in range(2):
            assert compiled(x).tolist() == [value] * 3
        assert compiled.programs == programs

    check(14.0, 1)
    monkeypatch.setitem(globals(), "_SCALE", 3.0)
    check(21.0, 2)
    monkeypatch.setitem(_TABLE, "gain", 1.0)
    check(9.0, 3)
    monkeypatch.setattr(_SETTINGS, "depth", 1)
    check(6.0, 4)
    monkeypatch.setattr(_SETTINGS.inner, "gain", 5.0)
    check(18.0, 5)
    monkeypatch.setitem(globals(), "_helper", lambda x: x)
    check(3.0, 6)
    monkeypatch.undo()
    check(14.0, 6)


def test_closures_defaults_and_tensors_by_reference(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 2.0
    inner = tensor.full((3,), 10.0, device="cuda")

    def function(x: Any, *, power: int = 2) -> Any:
        return (x * factor) ** power + inner + _WEIGHT

    monkeypatch.setitem(globals(), "_WEIGHT", tensor.ones(3, device="cuda"))
    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        assert compiled(x).tolist() == [15.0] * 3
    inner.fill_(20.0)
    assert compiled(x).tolist() == [25.0] * 3
    inner = tensor.full((3,), 30.0, device="cuda")
    _WEIGHT.zero_()
    assert compiled(x).tolist() == [34.0] * 3
    assert compiled.programs == 1
    factor = 3.0
    assert compiled(x).tolist() == [39.0] * 3
    assert compiled(x, power=1).tolist() == [33.0] * 3
    inner = tensor.ones(3, 1, device="cuda")
    assert compiled(x).tolist() == [[10.0] * 3] * 3
    assert compiled.programs == 4


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.gain = 1.0

    def forward(self, x: Any, flag: bool = False) -> Any:
        x = self.drop(self.layer(x)) * self.gain
        return -x if flag else x


def test_modules(x: Any) -> None:
    model = _Model().to("cuda").eval()
    compiled = tensor.compile(model, fullgraph=True)
    program = vars(compiled)["forward"]
    reference = _Model().to("cuda").eval()
    reference.load_state_dict(model.state_dict())

    def check(programs: int, *args: Any) -> None:
        for _ in range(2):
            tensor.testing.assert_close(compiled(x, *args), reference(x, *args))
        assert program.programs == programs

    check(1)
    check(2, True)
    for each in (model, reference):
        each.gain = 2.0
    check(3)
    for each in (model, reference):
        each.layer = nn.Linear(3, 3, device="cuda")
    reference.load_state_dict(model.state_dict())
    check(4)
    for each in (model, reference):
        each.layer.register_forward_hook(lambda module, args, result: result + 1)
    check(5)
    model.train()
    reference.train()
    tensor.manual_seed(0)
    one = compiled(x)
    tensor.manual_seed(0)
    tensor.testing.assert_close(one, reference(x))
    assert program.programs == 6
    with tensor.no_grad():
        for parameter in (*model.parameters(), *reference.parameters()):
            parameter.fill_(0.5)
    tensor.manual_seed(1)
    one = compiled(x)
    tensor.manual_seed(1)
    tensor.testing.assert_close(one, reference(x))
    assert program.programs == 6


def test_signatures(x: Any) -> None:
    compiled = tensor.compile(lambda x, y: x + y, fullgraph=True)
    for y, programs in (
        (1, 1),
        (1.0, 2),
        (True, 3),
        (1, 3),
        (x, 4),
        (x.clone(), 5),
        (x[:1], 6),
        (x.double(), 7),
    ):
        for _ in range(2):
            result = compiled(x, y)
        tensor.testing.assert_close(result, x + y)
        assert result.dtype is (x + y).dtype
        assert compiled.programs == programs


def test_slices_of_one_tensor(x: Any) -> None:
    """Where an argument begins in its memory differs from call to call, as batches of a data set do."""
    data = tensor.arange(40.0, device="cuda")
    compiled = tensor.compile(lambda x, y: x[1:] * y[:-1], fullgraph=True)
    for one, other in ((0, 8), (8, 16), (16, 8), (4, 4), (8, 8), (0, 8), (0, 16), (1, 2)):
        x, y = data[one : one + 4], data[other : other + 4]
        expected = [one + 1.0 + i for i in range(3)], [other + 0.0 + i for i in range(3)]
        assert compiled(x, y).tolist() == [a * b for a, b in zip(*expected, strict=True)]
    # Apart by the same distance and aligned alike, or of tensors of their own, they run one program.
    assert compiled.programs == 5
    compiled(data[0:4].clone(), data[8:12].clone())
    programs = compiled.programs
    compiled(data[16:20].clone(), data[8:12].clone())
    assert compiled.programs == programs
    # The same of tensors that the function reads.
    state = {"x": data[:4]}
    reading = tensor.compile(lambda: state["x"][2:] + 0.5, fullgraph=True)
    for begin in (0, 4, 12, 1):
        state["x"] = data[begin : begin + 4]
        assert reading().tolist() == [begin + 2.5, begin + 3.5]
    assert reading.programs == 2


def test_signs_of_zero(x: Any) -> None:
    compiled = tensor.compile(lambda x, y: (x * 0 + 1) / (x * y), fullgraph=True)
    for y in (0.0, -0.0, 0.0, -0.0):
        assert compiled(x, y).tolist() == [float("inf") if str(y) == "0.0" else float("-inf")] * 3


def test_modes(x: Any) -> None:
    x = x.requires_grad_()
    compiled = tensor.compile(lambda x: x * tensor.ones(3, device="cuda"), fullgraph=True)
    for _ in range(2):
        assert compiled(x).requires_grad
        with tensor.no_grad():
            assert not compiled(x).requires_grad
        with tensor.inference_mode():
            assert compiled(x).is_inference()
    assert compiled.programs == 3
    tensor.set_default_dtype(tensor.float64)
    try:
        assert compiled(x).dtype is tensor.float64
    finally:
        tensor.set_default_dtype(tensor.float32)


def _asks(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x


def _prints(x: Any) -> Any:
    return x * x.max().item()


def _draws(x: Any) -> Any:
    return x * random.random()


def _clock(x: Any) -> Any:
    return x * (time.time() > 0)


def _shape_of_data(x: Any) -> Any:
    return x[x > 0] * 2


def _view(x: Any) -> Any:
    return x[1:]


def _to_host(x: Any) -> Any:
    return x.cpu() + 1


def _seeds(x: Any) -> Any:
    tensor.manual_seed(0)
    return x + tensor.rand(3, device="cuda")


def _other_stream(x: Any) -> Any:
    side = tensor.cuda.Stream()
    side.wait_stream(tensor.cuda.current_stream())
    with tensor.cuda.stream(side):
        result = x * 2
    tensor.cuda.current_stream().wait_stream(side)
    return result


def _breaks(x: Any) -> Any:
    dynamo.graph_break()
    return x * 2


@tensor.compiler.disable
def _disabled(x: Any) -> Any:
    return x * 2


def _calls_disabled(x: Any) -> Any:
    return _disabled(x) + 1


class _Slots:
    __slots__ = ("value",)

    value: float


_COUNTS: list[int] = []


def _counts(x: Any) -> Any:
    _COUNTS.append(1)
    return x * len(_COUNTS)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_asks, "the host asks for a value on the device"),
        (_prints, "the host asks for a value on the device"),
        (_draws, r"it calls random\(\), which gives something else each time"),
        (_clock, r"it calls time\(\), which gives something else each time"),
        (_shape_of_data, "the host asks for a value on the device"),
        (_view, "its result is a view of a tensor from outside"),
        (_to_host, "takes part in work on|the host asks"),
        (_seeds, "random numbers are drawn in a way"),
        (_other_stream, "the current stream changes|comes from where compilation"),
        (_breaks, r"it calls graph_break\(\)"),
        (_calls_disabled, r"it calls _disabled\(\), which is not to be compiled"),
        (_counts, "it changes what it reads: a container has 1 elements instead of 0"),
    ],
)
def test_what_is_not_compiled(x: Any, function: Any, reason: str) -> None:
    _COUNTS.clear()
    compiled = tensor.compile(function)
    with pytest.warns(UserWarning, match=reason) as caught:
        compiled(x)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (
        "test_guards.py:" in str(caught[0].message)
        or "random numbers" in str(caught[0].message)
        or "view" in str(caught[0].message)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (2.0, -1.0):
            y = tensor.full((3,), value, device="cuda")
            if function not in (_draws, _counts):
                tensor.testing.assert_close(compiled(y), function(y))
            else:
                compiled(y)
    assert compiled.programs == 0
    whole = tensor.compile(function, fullgraph=True)
    _COUNTS.clear()
    with pytest.raises(tensor.compiler.CompilationError, match=reason):
        whole(x)


def test_foreign_arguments_and_results(x: Any) -> None:
    compiled = tensor.compile(lambda x, other: x * next(other))
    numbers = iter([2.0, 3.0])
    with pytest.warns(UserWarning, match="it reads a list_iterator, whose contents cannot be told apart"):
        assert compiled(x, numbers).tolist() == [2.0] * 3
    assert compiled(x, numbers).tolist() == [3.0] * 3
    compiled = tensor.compile(lambda x, options: x * options.value, fullgraph=True)
    options, others = _Slots(), SimpleNamespace(value=5.0)
    for options.value in (2.0, 3.0, 2.0):
        assert compiled(x, options).tolist() == [options.value] * 3
        assert compiled(x, others).tolist() == [5.0] * 3
    assert compiled.programs == 3
    compiled = tensor.compile(lambda x: SimpleNamespace(x=x * 2))
    with pytest.warns(UserWarning, match="its result is a SimpleNamespace"):
        assert compiled(x).x.tolist() == [2.0] * 3


def test_devices_that_are_current() -> None:
    """The one of this thread, and the one of new tensors that say nothing of theirs."""
    with drv.simulator.installed(devices=2):
        x = tensor.ones(2, device="cuda:0")
        compiled = tensor.compile(lambda x: (tensor.ones(2) + 1, x * 2))
        for name in ("cuda:0", "cpu", "cuda:0"):
            with tensor.device(name):
                assert str(compiled(x)[0].device) == name
        compiled = tensor.compile(lambda x: (tensor.ones(2, device="cuda") + 1, x * 2))
        for index in (0, 0, 1, 0):
            with tensor.cuda.device(index):
                assert compiled(x)[0].device.index == index


def test_a_leaf_that_is_written(x: Any) -> None:
    """That is in no graph; what was computed from it before, and needs it, cannot be differentiated."""
    weight = nn.Parameter(tensor.ones(3, device="cuda"))

    def function(x: Any) -> Any:
        with tensor.no_grad():
            weight.mul_(2)
        return weight * x

    compiled = tensor.compile(function, fullgraph=True)
    for count in (1, 2, 3):
        weight.grad = None
        result = compiled(x)
        assert result.tolist() == [2.0**count] * 3
        result.sum().backward()
        assert weight.grad is not None and weight.grad.tolist() == [1.0] * 3

    def too_late(x: Any) -> Any:
        result = (weight * x).square()
        with tensor.no_grad():
            weight.mul_(2)
        return result

    with pytest.warns(UserWarning, match="its backward pass cannot be recorded: .* modified by an inplace"):
        tensor.compile(too_late)(x.requires_grad_())


def test_a_tensor_that_is_no_leaf_is_written(x: Any) -> None:
    compiled = tensor.compile(lambda x, y: x.mul_(y))
    with pytest.warns(UserWarning, match="it writes to a tensor from outside that is no leaf of the graph"):
        for _ in range(2):
            x, y = (tensor.full((3,), 3.0, device="cuda", requires_grad=True) for _ in range(2))
            compiled(x * 2, y).sum().backward()
            assert x.grad is not None and x.grad.tolist() == [6.0] * 3


def test_the_limit(x: Any) -> None:
    compiled = tensor.compile(lambda x, y: x * y, recompile_limit=3)
    for y in range(3):
        compiled(x, y)
    with pytest.warns(
        UserWarning, match="compiled 3 times, .* keeps changing: argument 1 was 2 and is 7 .a tensor of no"
    ):
        assert compiled(x, 7).tolist() == [7.0] * 3
    assert compiled(x, 2).tolist() == [2.0] * 3
    tensor.compiler.reset()
    assert compiled.programs == 0
    assert compiled(x, 9).tolist() == [9.0] * 3
    assert compiled.programs == 1


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"x": (4,)},
            "argument 0 was a tensor.float32 of shape \\[3\\] and is a tensor.float32 of shape \\[4\\]",
        ),
        ({"factor": 3}, "argument 'factor' was 2.0 and is 3"),
        ({"recording": False}, "grad mode was True and is False"),
        ({"scale": 0.5}, "'scale' was 1.0 and is 0.5"),
    ],
    ids=["shape", "keyword", "mode", "global"],
)
def test_the_limit_says_what_changes(
    x: Any, changed: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "scale", 1.0)
    compiled = tensor.compile(lambda x, factor: x * factor * scale, recompile_limit=1)  # noqa: F821
    compiled(x, factor=2.0)
    if "scale" in changed:
        monkeypatch.setitem(globals(), "scale", changed["scale"])
    with (
        tensor.set_grad_enabled(changed.get("recording", True)),
        pytest.warns(UserWarning, match=text),
    ):
        compiled(tensor.ones(changed.get("x", (3,)), device="cuda"), factor=changed.get("factor", 2.0))


def test_strides(x: Any) -> None:
    compiled = tensor.compile(lambda x: (x * 2).exp(), fullgraph=True)
    matrix = tensor.arange(9.0, device="cuda").view(3, 3)
    for programs, each in ((1, matrix), (2, matrix.t()), (2, matrix.t()), (3, matrix[:, :1].expand(3, 3))):
        tensor.testing.assert_close(compiled(each), (each * 2).exp())
        assert compiled.programs == programs


def test_stance(x: Any) -> None:
    compiled = tensor.compile(lambda x: x * 2)
    with tensor.compiler.set_stance("force_eager"):
        compiled(x)
        assert compiled.programs == 0
    compiled(x)
    assert compiled.programs == 1


def test_is_compiling(x: Any) -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append(tensor.compiler.is_compiling())
        return x * 2

    with pytest.warns(UserWarning, match="it changes what it reads"):
        tensor.compile(function)(x)
    assert seen == [True]
    assert not tensor.compiler.is_compiling()


def test_an_error_in_the_function(x: Any) -> None:
    def function(x: Any) -> Any:
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        tensor.compile(function)(x)
    assert (x + 1).tolist() == [2.0] * 3
    assert not tensor.compiler.is_compiling()


@dataclasses.dataclass
class _Batch:
    x: Any
    gain: float = 2.0
    parent: Any = None

    def scaled(self) -> Any:
        return self.x * self.gain


@dataclasses.dataclass(slots=True)
class _SlottedBatch:
    x: Any
    gain: float = 2.0

    scaled = _Batch.scaled


@pytest.mark.parametrize("record", [_Batch, _SlottedBatch])
def test_records_are_told_apart_by_their_attributes(
    x: Any, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one in each call, as a loader of data makes them."""
    compiled = tensor.compile(lambda batch: batch.scaled() + 1, fullgraph=True)
    for number in range(12):
        assert compiled(record(x * number)).tolist() == [2.0 * number + 1] * 3
    assert compiled.programs == 1
    for gain, programs in ((3.0, 2), (2.0, 2), (3.0, 2)):
        assert compiled(record(x, gain)).tolist() == [gain + 1] * 3
        assert compiled.programs == programs
    assert compiled(record(x.double())).dtype is tensor.float64
    monkeypatch.setattr(record, "scaled", lambda self: self.x * 7)
    assert compiled(record(x)).tolist() == [8.0] * 3
    named = tensor.compile(lambda batch: batch.x * batch.gain, fullgraph=True)
    for number in range(12):
        assert named(SimpleNamespace(x=x, gain=2.0)).tolist() == [2.0] * 3, number
    assert named.programs == 1


class _Features(dict[str, Any]):
    """Of a program, or a library of models: entries are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class _Rows(list[Any]):
    gain: float


def test_containers_of_a_class_of_the_programs_own(x: Any) -> None:
    compiled = tensor.compile(lambda features: features.x * features.gain, fullgraph=True)
    rows_of = tensor.compile(lambda rows: rows[0] * rows.gain, fullgraph=True)
    for number in range(4):
        for gain in (2.0, 3.0):
            assert compiled(_Features(x=x * number, gain=gain)).tolist() == [number * gain] * 3
            rows = _Rows([x * number])
            rows.gain = gain
            assert rows_of(rows).tolist() == [number * gain] * 3
    assert (compiled.programs, rows_of.programs) == (2, 2)


def test_records_that_hold_themselves(x: Any) -> None:
    batch = _Batch(x)
    batch.parent = [batch]
    compiled = tensor.compile(lambda batch: batch.scaled())
    for _ in range(2):
        assert compiled(batch).tolist() == [2.0] * 3


def _adds_entry(x: Any, options: Any) -> Any:
    options["result"] = x * 2
    return x + 1


def _takes_entry(x: Any, options: Any) -> Any:
    return x + options.pop("gain")


def _changes_inner(x: Any, options: Any) -> Any:
    options["inner"][0] = x * 2
    return x + 1


def _sets_attribute(x: Any, options: Any) -> Any:
    x.name = "x"
    return x + 1


def _sets_data(x: Any, options: Any) -> Any:
    x.data = options["inner"][0] * 2
    return x + 1


def _requires_gradient(x: Any, options: Any) -> Any:
    x.requires_grad_()
    return x + 1


def _changes_shape(x: Any, options: Any) -> Any:
    return x.unsqueeze_(0) + 1


def _sets_mode(x: Any, options: Any) -> Any:
    tensor.set_grad_enabled(False)
    return x + 1


@pytest.mark.parametrize(
    "function",
    [
        _adds_entry,
        _takes_entry,
        _changes_inner,
        _sets_attribute,
        _sets_data,
        _requires_gradient,
        _changes_shape,
        _sets_mode,
    ],
)
def test_arguments_and_settings_that_are_changed(x: Any, function: Any) -> None:
    """A program would not change them again."""

    def outcome(function: Any) -> Any:
        argument, options = x * 3, {"gain": 1.0, "inner": [x * 5]}
        try:
            result = function(argument, options).tolist(), tensor.is_grad_enabled()
        finally:
            tensor.set_grad_enabled(True)
        return *result, str(options), argument.tolist(), argument.requires_grad, vars(argument)

    compiled, expected = tensor.compile(function), outcome(function)
    with pytest.warns(UserWarning, match="it changes its arguments, or settings"):
        assert outcome(compiled) == expected
    for _ in range(2):
        assert outcome(compiled) == expected
    assert compiled.programs == 0
