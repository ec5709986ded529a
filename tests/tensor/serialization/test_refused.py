"""What a checkpoint does not hold is named by its place when it is saved."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tensor import Tensor

from .checkpoints import assert_same, through_file

Point = namedtuple("Point", "x y")  # noqa: PYI024


class Own(Tensor):
    """A class of tensors that nobody announced."""


class Loud:
    def __repr__(self) -> str:
        return "<Loud>"

    def __reduce__(self) -> Any:
        return print, ("I was run",)


REFUSED = [
    ({"model": {"layers": [1, 2, 3, Loud()]}}, r"checkpoint\['model'\]\['layers'\]\[3\]: it is a .*Loud; a checkpoint holds"),
    (Loud(), "cannot save checkpoint: it is a"),
    ([{1, 2}], r"checkpoint\[0\]: it is a builtins.set"),
    ((b"bytes",), r"checkpoint\[0\]: it is a builtins.bytes"),
    ({"a": len}, r"checkpoint\['a'\]: it is a builtins.builtin_function"),
    ({"p": Point(1, 2)}, r"checkpoint\['p'\]: it is a .*Point, a named tuple: save tuple"),
    ({"m": nn.Linear(1, 1)}, r"checkpoint\['m'\]: it is a nn.layers.linear.Linear: save its state_dict\(\)"),
    ({"g": tensor.Generator()}, r"Generator: save its get_state\(\)"),
    ({"n": np.ones(3)}, r"checkpoint\['n'\]: it is a numpy.ndarray: save tensor.from_numpy"),
    ({"s": np.str_("a")}, r"checkpoint\['s'\]: it is a numpy.str_"),
    ({"l": np.longdouble(1)}, r"checkpoint\['l'\]: it is a numpy.longdouble"),
    ({"d": defaultdict(lambda: 1)}, r"checkpoint\['d'\]: its default factory .* is code"),
    ({"o": tensor.ones(1).as_subclass(Own)}, r"checkpoint\['o'\]: it is a .*Own, a kind of tensor"),
    ({"k": {frozenset(): 1}}, r"checkpoint\['k'\]: its key frozenset\(\) is a frozenset"),
    ({"k": {(1, Loud()): 1}}, r"checkpoint\['k'\]: its key \(1, <Loud>\) is a tuple"),
    ({tensor.ones(1): 1}, r"checkpoint: its key tensor\(\[1.\]\) is a Parameter|is a Tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=lambda each: str(each)[:30])
def test_what_a_checkpoint_does_not_hold(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        tensor.save(value, tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_attributes_are_named_by_their_place() -> None:
    argument = OrderedDict()
    argument.note = [Loud()]
    with pytest.raises(TypeError, match=r"checkpoint\['a'\].note\[0\]: it is"):
        through_file({"a": argument})
    leaf = tensor.ones(1)
    leaf.note = Loud()
    with pytest.raises(TypeError, match=r"checkpoint\[1\].note: it is"):
        through_file([0, leaf])


def test_values_without_end() -> None:
    ring: list[Any] = [1]
    ring.append({"a": ring})
    with pytest.raises(ValueError, match=r"checkpoint\[0\]\[1\]\['a'\]: it is part of itself"):
        through_file([ring])
    deep: Any = 0
    for _ in range(100):
        deep = [deep]
    assert_same(through_file(deep), deep)
    for nested in ([[deep]], {"a": {"b": deep}}, ((deep,),)):
        with pytest.raises(ValueError, match="nests deeper than 100 levels"):
            through_file(nested)
    key: Any = 0
    for _ in range(2000):
        key = (key,)
    with pytest.raises(ValueError, match="nests deeper"):
        through_file({key: 1})


def test_what_is_too_long_for_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensor.serialization.safetensors_file.LONGEST", 1000)
    tensor.save(list(range(100)), tmp_path / "it")
    with pytest.raises(ValueError, match="what is no tensor in it takes .* bytes, and 1000 are the most"):
        tensor.save(list(range(1000)), tmp_path / "it")
    assert len(tensor.load(tmp_path / "it")) == 100
