"""Nested arguments divided between devices, and nested results joined."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any, NamedTuple

import pytest

import tensor
from nn.utils.rnn import pack_sequence
from parallel.data_parallel.scatter_gather import gather, is_namedtuple, scatter, scatter_kwargs
from tests.parallel.simulated import install

pytestmark = pytest.mark.simulator_only
Pair = namedtuple("Pair", "first second")  # noqa: PYI024 - both kinds are to be known


class Named(NamedTuple):
    x: Any
    label: str


@pytest.fixture(autouse=True)
def machine() -> None:
    install(2)


def test_structures_are_walked() -> None:
    x, thing = tensor.arange(5), object()
    argument = (
        x,
        [x, {"a": (x, thing), 3: None}],
        Named(x, "name"),
        Pair(x, []),
        OrderedDict(z=x, a=1),
        defaultdict(list, y=x),
        (),
        {},
    )
    first, second = scatter(argument, (0, 1))
    for part, expected in ((first, [0, 1, 2]), (second, [3, 4])):
        assert type(part) is tuple
        assert part[0].tolist() == part[1][0].tolist() == part[1][1]["a"][0].tolist() == expected
        assert part[1][1]["a"][1] is thing
        assert part[1][1][3] is None
        assert type(part[2]) is Named and part[2].label == "name" and part[2].x.tolist() == expected
        assert type(part[3]) is Pair and part[3].second == []
        assert type(part[4]) is OrderedDict and list(part[4]) == ["z", "a"]
        assert part[5].default_factory is list and part[5]["y"].tolist() == expected
        assert part[6:] == ((), {})
    assert first[0].device.index == 0
    assert second[5]["y"].device.index == 1
    assert first[1] is not argument[1]


def test_dim_and_fewer_samples_than_devices() -> None:
    parts = scatter({"x": tensor.zeros(3, 4)}, (0, 1), dim=1)
    assert [part["x"].shape for part in parts] == [(3, 2), (3, 2)]
    assert len(scatter([tensor.zeros(1, 4)], (0, 1))) == 1
    assert len(scatter((tensor.zeros(1, 4), "shared"), (0, 1))) == 1


def test_kwargs() -> None:
    args, named = scatter_kwargs((tensor.zeros(4),), {"scale": 2}, (0, 1))
    assert len(args) == len(named) == 2
    assert named == ({"scale": 2}, {"scale": 2})
    args, named = scatter_kwargs((), {"x": tensor.zeros(4)}, (0, 1))
    assert args == ((), ())
    args, named = scatter_kwargs((tensor.zeros(4),), {}, (0, 1))
    assert named == ({}, {})
    assert scatter_kwargs((), {}, (0, 1)) == ((), ())
    assert scatter_kwargs(None, None, (0, 1)) == ((), ())


def test_packed_sequences_are_no_chunks() -> None:
    packed = pack_sequence([tensor.zeros(3), tensor.zeros(2)])
    with pytest.raises(TypeError, match="cannot divide a PackedSequence.*total_length"):
        scatter((packed,), (0, 1))
    with pytest.raises(TypeError, match="PackedSequence: call pad_packed_sequence"):
        gather([packed, packed], 0)


def test_outputs_are_walked() -> None:
    def output(device: int, n: int) -> Any:
        x = tensor.full((n, 2), float(device), device=device)
        return [x, {"a": (x, None)}, Named(x, x), OrderedDict(z=x)]

    for target in (0, 1, "cuda:1", -1, "cpu"):
        joined = gather([output(0, 2), output(1, 1)], target)
        assert type(joined) is list
        assert joined[0].tolist() == [[0, 0], [0, 0], [1, 1]]
        where = "cpu" if target in (-1, "cpu") else f"cuda:{0 if target == 0 else 1}"
        assert str(joined[0].device) == where
        assert type(joined[1]["a"]) is tuple and joined[1]["a"][1] is None
        assert type(joined[2]) is Named
        assert type(joined[3]) is OrderedDict


def test_scalars_become_a_vector_with_a_warning() -> None:
    scalars = [tensor.tensor(float(i), device=i, requires_grad=True) for i in range(2)]
    with pytest.warns(UserWarning, match="all input tensors were scalars") as caught:
        joined = gather(scalars, 0)
    assert caught[0].filename == __file__
    assert joined.tolist() == [0, 1]
    (joined * tensor.tensor([2.0, 3.0], device=0)).sum().backward()
    assert [each.grad.item() for each in scalars] == [2, 3]


def test_gather_errors() -> None:
    x = tensor.zeros(2, device=0)
    with pytest.raises(ValueError, match=r"same keys, .* \['a'\], \['b'\]"):
        gather([{"a": x}, {"b": x}], 0)
    with pytest.raises(ValueError, match="a tuple of 1, 2 elements"):
        gather([(x,), (x, x)], 0)
    with pytest.raises(TypeError, match="got int"):
        gather([3, 4], 0)
    with pytest.raises(TypeError, match=r"tensors\[1\] to be a Tensor, got NoneType"):
        gather([x, None], 0)


def test_kinds_of_tuples() -> None:
    assert is_namedtuple(Named(1, "")) and is_namedtuple(Pair(1, 2))
    assert not is_namedtuple((1, 2)) and not is_namedtuple([1])
