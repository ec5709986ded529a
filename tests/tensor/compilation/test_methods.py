"""Objects with methods of which one is compiled: what only the others read may change."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from typing import Any

import pytest

import tensor

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def x(device: Any) -> Any:
    return tensor.ones(3, device="cuda")


class _Trainer:
    """It counts, and logs, beside what is compiled."""

    scale = 2.0
    shift = 0.0

    def __init__(self) -> None:
        self.count, self.last = 0, None
        self.bias, self.gain = 1.0, 3.0
        self.history: list[float] = []

    @property
    def biased(self) -> float:
        return self.bias

    def _gain(self) -> float:
        return self.gain

    def loss(self, x: Any) -> Any:
        return (x * self.scale + self.biased + self.shift) * self._gain()

    def step(self) -> None:
        self.count += 1
        self.last = self.count
        self.history.append(0.5)
        self.note = self.count


def test_attributes_that_other_methods_read(x: Any) -> None:
    """They may change; those that the method reads, and what it calls, are guarded, and so are names in front of the class's."""
    for function_of in (lambda trainer: trainer.loss, lambda trainer: lambda x: trainer.loss(x)):
        trainer = _Trainer()
        compiled = tensor.compile(function_of(trainer), fullgraph=True)
        for _ in range(3):
            tensor.testing.assert_close(compiled(x), trainer.loss(x))
            trainer.step()
        assert compiled.programs == 1
        for number, name in enumerate(("bias", "gain", "scale", "shift")):
            setattr(trainer, name, getattr(trainer, name) + 1.5)
            tensor.testing.assert_close(compiled(x), trainer.loss(x))
            assert compiled.programs == number + 2


def test_attributes_whose_names_are_computed(x: Any) -> None:
    class Owner:
        def __init__(self) -> None:
            self.value1 = 2.0

        def scaled(self, x: Any) -> Any:
            return x * getattr(self, f"value{1}")

        def doubled(self, x: Any) -> Any:
            return x * (2 if hasattr(self, f"flag{1}") else 1)

        def matched(self, x: Any) -> Any:
            match self:
                case Owner(value1=2.0):
                    return x
                case _:
                    return x + 1

    owner: Any = Owner()
    compiled = tensor.compile(owner.scaled, fullgraph=True)
    for owner.value1 in (2.0, 3.0):
        tensor.testing.assert_close(compiled(x), owner.scaled(x))
    compiled = tensor.compile(owner.matched, fullgraph=True)
    for owner.value1 in (2.0, 3.0):
        tensor.testing.assert_close(compiled(x), owner.matched(x))
    compiled = tensor.compile(owner.doubled, fullgraph=True)
    for _ in range(2):
        tensor.testing.assert_close(compiled(x), owner.doubled(x))
        owner.flag1 = True


def test_methods_that_are_values(x: Any) -> None:
    """They are called by other names than their own, and what they read is guarded."""

    class Owner:
        def __init__(self) -> None:
            self.factor, self.count = 2.0, 0
            self.function, self.table = self._scaled, {"scaled": self._scaled}
            self.part = partial(Owner._scaled, self)

        def _scaled(self, x: Any) -> Any:
            return x * self.factor

        def by_attribute(self, x: Any) -> Any:
            return self.function(x)

        def by_table(self, x: Any) -> Any:
            return self.table["scaled"](x)

        def by_part(self, x: Any) -> Any:
            return self.part(x)

    for name in ("by_attribute", "by_table", "by_part"):
        owner = Owner()
        compiled = tensor.compile(getattr(owner, name), fullgraph=True)
        for owner.factor in (2.0, 3.0):
            for owner.count in range(2):
                tensor.testing.assert_close(compiled(x), x * owner.factor)
        assert compiled.programs == 2


@dataclass(order=True, unsafe_hash=True)
class _Options:
    size: int = 1
    text: str = field(default="a", compare=False)


def test_what_generated_methods_read(x: Any) -> None:
    """That of dataclasses is in no code that is looked through."""
    options = _Options()
    functions = (
        lambda x: x * (1 if options == _Options(2) else 2),
        lambda x: x * (1 if options < _Options(2) else 2),
        lambda x: x * (hash(options) % 101),
        lambda x: x * len(repr(options)),
    )
    compiled = [tensor.compile(each, fullgraph=True) for each in functions]
    for options.size, options.text in ((1, "a"), (2, "a"), (2, "abc")):
        for function, other in zip(functions, compiled, strict=True):
            tensor.testing.assert_close(other(x), function(x))


def test_methods_that_run_unnamed_are_not_compiled(x: Any) -> None:
    """What they read was not looked at."""

    class Owner:
        def __init__(self) -> None:
            self.factor = 2.0

        def step(self, x: Any) -> Any:
            return x * self.factor

    owner, names = Owner(), ["".join(("st", "ep"))]
    compiled = tensor.compile(lambda x: methodcaller(names[0], x)(owner) + x)
    with pytest.warns(UserWarning, match=r"it calls .*step\(\), which no code that it reads names"):
        compiled(x)
    owner.factor = 5.0
    tensor.testing.assert_close(compiled(x), x * 6)


class _Scaled:
    def __init__(self, x: Any, owner: _Trainer) -> None:
        self.x = x * owner.gain


def test_objects_that_are_made_inside(x: Any) -> None:
    """What their class reads when they are made is guarded, also where there is one before."""
    trainer = _Trainer()
    before = _Scaled(x, trainer)

    def function(x: Any) -> Any:
        return _Scaled(x, trainer).x + before.x

    compiled = tensor.compile(function, fullgraph=True)
    for trainer.gain in (3.0, 4.0):
        tensor.testing.assert_close(compiled(x), function(x))
    trainer.step()
    compiled(x)
    assert compiled.programs == 2
