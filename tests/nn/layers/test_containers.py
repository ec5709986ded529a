"""Containers, compared with PyTorch's."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest

import nn
import tensor
from tests.nn.parity import assert_like_pytorch


def row(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))


def items(nn: Any) -> Any:
    return nn.ModuleList([nn.Linear(2, 3), nn.ReLU(), nn.ReLU()])


def table(nn: Any) -> Any:
    return nn.ModuleDict({"b": nn.Linear(2, 2), "a": nn.ReLU()})


def values(lib: Any, nn: Any) -> Any:
    return nn.ParameterList([lib.ones(2, 3), nn.Parameter(lib.zeros(1)), 5, "x", nn.ReLU()])


def named(lib: Any, nn: Any) -> Any:
    return nn.ParameterDict({"b": lib.ones(2, 3), "a": 4, "c": None})


def after(make: Any, change: Any) -> Any:
    """A program that changes a container, and tells its text, keys and the result."""

    def program(lib: Any, nn: Any) -> Any:
        output = make(nn) if make in (row, items, table) else make(lib, nn)
        result = change(output, lib, nn)
        return repr(output), list(output.state_dict()), repr(result)

    return program


def _set(index: Any, value: Any) -> Any:
    return lambda x, lib, nn: x.__setitem__(index, value(lib, nn))


def _delete(index: Any) -> Any:
    return lambda x, lib, nn: x.__delitem__(index)


def _relu(lib: Any, nn: Any) -> Any:
    return nn.ReLU()


ROW = {
    "nothing": lambda x, lib, nn: None,
    "first": lambda x, lib, nn: x[0],
    "last": lambda x, lib, nn: x[-1],
    "beyond": lambda x, lib, nn: x[3],
    "before": lambda x, lib, nn: x[-4],
    "word": lambda x, lib, nn: x["a"],
    "part": lambda x, lib, nn: x[1:],
    "every other": lambda x, lib, nn: x[::2],
    "length": lambda x, lib, nn: len(x),
    "iteration": lambda x, lib, nn: list(x),
    "contains": lambda x, lib, nn: x[0] in x,
    "set": _set(1, _relu),
    "set last": _set(-1, _relu),
    "set beyond": _set(7, _relu),
    "set number": _set(1, lambda lib, nn: 3),
    "delete": _delete(1),
    "delete first": _delete(0),
    "delete part": _delete(slice(0, 2)),
    "delete beyond": _delete(5),
    "append": lambda x, lib, nn: x.append(nn.ReLU()),
    "append number": lambda x, lib, nn: x.append(3),
    "insert": lambda x, lib, nn: x.insert(1, nn.Tanh()),
    "insert first": lambda x, lib, nn: x.insert(0, nn.Tanh()),
    "insert at end": lambda x, lib, nn: x.insert(3, nn.Tanh()),
    "extend": lambda x, lib, nn: x.extend(nn.Sequential(nn.ReLU(), nn.Tanh())),
    "extend nothing": lambda x, lib, nn: x.extend(nn.Sequential()),
    "extend number": lambda x, lib, nn: x.extend(3),
    "pop": lambda x, lib, nn: x.pop(1),
    "pop part": lambda x, lib, nn: x.pop(slice(0, 1)),
    "pop beyond": lambda x, lib, nn: x.pop(8),
    "added": lambda x, lib, nn: x + nn.Sequential(nn.Tanh()),
    "added in place": lambda x, lib, nn: x.__iadd__(nn.Sequential(nn.Tanh())) is x,
}


@pytest.mark.parity
@pytest.mark.parametrize("name", ROW)
@pytest.mark.parametrize("make", [row, items])
def test_rows(make: Any, name: str) -> None:
    assert_like_pytorch(after(make, ROW[name]))


SEQUENTIAL = {
    "insert from end": lambda x, lib, nn: x.insert(-1, nn.Tanh()),
    "insert beyond": lambda x, lib, nn: x.insert(9, nn.ReLU()),
    "insert number": lambda x, lib, nn: isinstance(_failure(lambda: x.insert(0, 3)), Exception),
    "added to list": lambda x, lib, nn: x + [nn.ReLU()],
    "times": lambda x, lib, nn: x * 2,
    "times before": lambda x, lib, nn: 3 * x,
    "times in place": lambda x, lib, nn: x.__imul__(2) is x,
    "times nothing": lambda x, lib, nn: x * 0,
    "times nothing in place": lambda x, lib, nn: x.__imul__(0),
    "times word": lambda x, lib, nn: x * "a",
    "by name": lambda x, lib, nn: nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Linear(1, 1))),
    "by name and more": lambda x, lib, nn: nn.Sequential(OrderedDict(a=nn.ReLU()), nn.ReLU()),
    "of a list": lambda x, lib, nn: nn.Sequential([nn.ReLU()]),
    "attribute": lambda x, lib, nn: nn.Sequential(OrderedDict(a=nn.ReLU())).a,
    "delete by name": lambda x, lib, nn: _without_first(nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))),
    "none": lambda x, lib, nn: nn.Sequential(nn.ReLU(), None),
    "nothing": lambda x, lib, nn: nn.Sequential()(3),
}


def _failure(call: Any) -> Any:
    try:
        return call()
    except (TypeError, AssertionError) as error:
        return error


def _without_first(made: Any) -> Any:
    del made[0]
    return made


@pytest.mark.parity
@pytest.mark.parametrize("name", SEQUENTIAL)
def test_sequential(name: str) -> None:
    assert_like_pytorch(after(row, SEQUENTIAL[name]))


def test_sequential_calls_one_after_the_other() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = tensor.ones(4, 2)
    expected = model[2](model[1](model[0](x)))
    assert model(x).tolist() == expected.tolist()


LISTS = {
    "of nothing": lambda x, lib, nn: nn.ModuleList(),
    "of equal ones": lambda x, lib, nn: nn.ModuleList(
        [nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU()), nn.Tanh()]
    ),
    "of a list": lambda x, lib, nn: nn.ModuleList(x),
    "call": lambda x, lib, nn: x(3),
    "insert far": lambda x, lib, nn: x.insert(9, nn.Tanh()),
    "extend module": lambda x, lib, nn: x.extend(nn.ReLU()),
    "extend with number": lambda x, lib, nn: x.extend([3]),
    "of numbers": lambda x, lib, nn: nn.ModuleList([3]),
    "names": lambda x, lib, nn: [each for each in dir(x) if each.isdigit()],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", LISTS)
def test_module_list(name: str) -> None:
    assert_like_pytorch(after(items, LISTS[name]))


TABLES = {
    "of nothing": lambda x, lib, nn: nn.ModuleDict(),
    "of pairs": lambda x, lib, nn: nn.ModuleDict([("x", nn.ReLU()), ["y", nn.Tanh()]]),
    "of a dict": lambda x, lib, nn: nn.ModuleDict(x),
    "of a number": lambda x, lib, nn: nn.ModuleDict(3),
    "of numbers": lambda x, lib, nn: nn.ModuleDict([3]),
    "of triples": lambda x, lib, nn: nn.ModuleDict([("a", nn.ReLU(), 3)]),
    "get": lambda x, lib, nn: x["a"],
    "get missing": lambda x, lib, nn: x["z"],
    "set": _set("z", _relu),
    "set known": _set("b", _relu),
    "set method": _set("type", _relu),
    "set dot": _set("a.b", _relu),
    "set number": _set(3, _relu),
    "set wrong": _set("a", lambda lib, nn: 3),
    "delete": _delete("a"),
    "delete missing": _delete("z"),
    "pop": lambda x, lib, nn: x.pop("b"),
    "pop missing": lambda x, lib, nn: x.pop("z"),
    "clear": lambda x, lib, nn: x.clear(),
    "update": lambda x, lib, nn: x.update({"a": nn.Tanh(), "z": nn.ReLU()}),
    "names": lambda x, lib, nn: [list(x), list(x.keys()), list(x.values()), list(x.items()), len(x)],
    "contains": lambda x, lib, nn: ["a" in x, "z" in x, 3 in x],
    "call": lambda x, lib, nn: x(3),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", TABLES)
def test_module_dict(name: str) -> None:
    assert_like_pytorch(after(table, TABLES[name]))


VALUES = {
    "nothing": lambda x, lib, nn: nn.ParameterList(),
    "get": lambda x, lib, nn: [x[0], x[-2], x[2]],
    "beyond": lambda x, lib, nn: x[5],
    "word": lambda x, lib, nn: x["a"],
    "part": lambda x, lib, nn: x[1:3],
    "set": _set(2, lambda lib, nn: lib.ones(1)),
    "set parameter": _set(0, lambda lib, nn: 3),
    "append": lambda x, lib, nn: x.append(lib.ones(4)) is x,
    "extend": lambda x, lib, nn: x.extend([lib.ones(4), 3]) is x,
    "extend number": lambda x, lib, nn: x.extend(3),
    "added in place": lambda x, lib, nn: x.__iadd__([lib.ones(4), 3]) is x,
    "length": lambda x, lib, nn: [len(x), [type(each).__name__ for each in x]],
    "call": lambda x, lib, nn: x(),
    "one": lambda x, lib, nn: nn.ParameterList([lib.ones(1)]),
    "scalar": lambda x, lib, nn: nn.ParameterList([lib.tensor(1.0, dtype=lib.float64)]),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", VALUES)
def test_parameter_list(name: str) -> None:
    assert_like_pytorch(after(values, VALUES[name]))


NAMED = {
    "nothing": lambda x, lib, nn: nn.ParameterDict(),
    "of pairs": lambda x, lib, nn: nn.ParameterDict([("z", lib.ones(1)), ("a", 3)]),
    "ordered": lambda x, lib, nn: nn.ParameterDict(OrderedDict(z=lib.ones(1), a=3)),
    "of a number": lambda x, lib, nn: nn.ParameterDict(3),
    "number for a name": lambda x, lib, nn: nn.ParameterDict([(1, 2)]),
    "of triples": lambda x, lib, nn: nn.ParameterDict([("a", 1, 2)]),
    "get": lambda x, lib, nn: [x["b"], x["a"], x.get("z"), x.get("z", 3), x.get("a"), x["c"]],
    "missing": lambda x, lib, nn: x["z"],
    "number": lambda x, lib, nn: x[3],
    "set": _set("z", lambda lib, nn: lib.ones(1)),
    "set wrong": _set("b", lambda lib, nn: 3),
    "set number": _set(3, lambda lib, nn: 3),
    "delete": _delete("b"),
    "delete plain": _delete("a"),
    "delete missing": _delete("z"),
    "pop": lambda x, lib, nn: x.pop("b"),
    "popitem": lambda x, lib, nn: [x.popitem(), x.popitem()],
    "popitem of nothing": lambda x, lib, nn: (
        nn.ParameterDict().popitem() if nn.__name__ == "nn" else {}.popitem()
    ),
    "clear": lambda x, lib, nn: x.clear(),
    "setdefault": lambda x, lib, nn: [x.setdefault("b", 1), x.setdefault("z", lib.ones(1))],
    "copy": lambda x, lib, nn: x.copy(),
    "fromkeys": lambda x, lib, nn: x.fromkeys(["p", "q"], 1),
    "update": lambda x, lib, nn: x.update({"z": lib.ones(1), "b": lib.zeros(1)}),
    "or": lambda x, lib, nn: x | nn.ParameterDict({"z": lib.ones(1)}),
    "or in place": lambda x, lib, nn: x.__ior__({"z": lib.ones(1)}) is x,
    "or from the right": lambda x, lib, nn: {"z": 3} | x,
    "names": lambda x, lib, nn: [list(x), list(x.keys()), list(reversed(x)), len(x), "a" in x, "z" in x],
    "values": lambda x, lib, nn: [list(x.values()), list(x.items())],
    "call": lambda x, lib, nn: x(3),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMED)
def test_parameter_dict(name: str) -> None:
    assert_like_pytorch(after(named, NAMED[name]))


def test_text_on_devices() -> None:
    import drv

    drv.simulator.install()
    text = repr(nn.ParameterList([tensor.ones(2, 3)]).cuda())
    assert text == "ParameterList(  (0): Parameter containing: [tensor.float32 of size 2x3 (GPU 0)])"


@pytest.mark.parametrize("make", [row, items, table])
def test_copies(make: Any) -> None:
    result = make(nn)
    for other in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert repr(other) == repr(result)
        state = result.state_dict()
        assert {key: value.tolist() for key, value in other.state_dict().items()} == {
            key: value.tolist() for key, value in state.items()
        }


@pytest.mark.parametrize("make", [values, named])
def test_copies_of_parameter_containers(make: Any) -> None:
    result = make(tensor, nn)
    for other in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert repr(other) == repr(result)
        assert len(other) == len(result)


def test_list_is_inserted_to_like_a_list() -> None:
    result = items(nn)
    result.insert(-1, nn.Tanh())
    assert [type(each).__name__ for each in result] == ["Linear", "ReLU", "Tanh", "ReLU"]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        result.insert(0, 3)


def test_subclass_of_sequential() -> None:
    class Doubling(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * 2

    model = Doubling(nn.Identity(), nn.Identity())
    assert model(3) == 6
    assert isinstance(model[:1], Doubling)


def test_nothing_is_added_if_something_is_no_module() -> None:
    result = items(nn)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        result.extend([nn.ReLU(), 3])
    assert len(result) == 3
