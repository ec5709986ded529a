"""What a function reads besides its arguments, and what becomes of a program when that changes: never a wrong result."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import enum
import functools
import math
import operator
import os
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional
from nn.module import register_module_forward_hook

if TYPE_CHECKING:
    from collections.abc import Callable

    #: The function, and what changes what it reads, one after the other.
    Case = tuple[Callable[[Any], Any], list[Callable[[], Any]]]

pytestmark = pytest.mark.usefixtures("device")


@dataclasses.dataclass
class _Config:
    gain: float = 2.0
    activation: str = "relu"
    sizes: list[int] = dataclasses.field(default_factory=lambda: [1, 2])


@dataclasses.dataclass(frozen=True, slots=True)
class _Frozen:
    gain: float = 2.0
    sizes: tuple[int, ...] = (1, 2)


class _Choice(enum.Enum):
    DOUBLE = 2.0
    TRIPLE = 3.0


class _Pair(collections.namedtuple("_Pair", "gain table")):  # noqa: PYI024
    pass


class _Dictionary(dict[str, Any]):
    """Whose entries are attributes, too: asking it for any other one is a KeyError."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class _List(list[Any]):
    factor = 2.0
    offset: float


class _Offset:
    """A descriptor of a program's own."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __get__(self, owner: Any, cls: Any) -> float:
        return self.value


class _Meta(type):
    @property
    def doubled(cls) -> float:
        return 2 * cls.gain  # type: ignore[attr-defined, no-any-return]


def _full(value: float) -> Any:
    return tensor.full((4,), value, device="cuda")


def nested_functions() -> Case:
    gain = 2.0

    def inner(x: Any) -> Any:
        return x * gain

    def change() -> None:
        nonlocal gain
        gain = 3.0

    return lambda x: (lambda y: inner(y) + gain)(x), [change]


def partials() -> Case:
    table = _full(2.0)
    part = functools.partial(lambda x, y, z, gain: x * y * gain + z, table, z=_full(1.0), gain=2.0)
    return lambda x: part(x), [
        lambda: table.mul_(2.0),
        lambda: part.keywords.update(gain=5.0),
        lambda: part.keywords.update(z=_full(7.0)),
    ]


def defaults() -> Case:
    options = {"gain": 2.0}

    def inner(x: Any, gain: float = 2.0) -> Any:
        return x * gain

    def function(x: Any, chosen: Any = options, table: Any = _full(3.0), *, offset: Any = 1.0) -> Any:  # noqa: B008
        return inner(x) * chosen["gain"] + table + offset

    def set_defaults(function: Any, *values: Any) -> Callable[[], None]:
        return lambda: setattr(function, "__defaults__", values)

    return function, [
        lambda: options.update(gain=3.0),
        set_defaults(inner, 5.0),
        set_defaults(function, options, _full(9.0)),
        lambda: function.__kwdefaults__.update(offset=4.0),
        lambda: setattr(function, "__kwdefaults__", {"offset": _full(2.0)}),
    ]


def functions_exchanged() -> Case:
    def inner(x: Any) -> Any:
        return x * inner.gain  # type: ignore[attr-defined]

    def other(x: Any) -> Any:
        return inner(x) if x is None else x * 7

    inner.gain = 2.0  # type: ignore[attr-defined]
    return lambda x: inner(x), [
        lambda: setattr(inner, "gain", 3.0),
        lambda: setattr(inner, "__code__", other.__code__),
    ]


def generators() -> Case:
    gains = [1.0, 2.0, 3.0]

    def scaled(x: Any) -> Any:
        for each in gains:
            yield x * each

    return lambda x: sum(scaled(x)), [lambda: gains.append(4.0), lambda: gains.__setitem__(0, 9.0)]


def context_managers() -> Case:
    gains = [2.0]

    @contextlib.contextmanager
    def gain() -> Any:
        yield gains[0]

    def function(x: Any) -> Any:
        with gain() as each:
            return x * each

    return function, [lambda: gains.__setitem__(0, 5.0)]


def dataclass_configurations() -> Case:
    config, frozen = _Config(), _Frozen()

    def function(x: Any) -> Any:
        return getattr(functional, config.activation)(x * config.gain) * config.sizes[1] * frozen.gain

    def change() -> None:
        nonlocal frozen
        frozen = _Frozen(7.0)

    return function, [
        lambda: setattr(config, "gain", -1.0),
        lambda: setattr(config, "activation", "gelu"),
        lambda: config.sizes.__setitem__(1, 7),
        change,
    ]


def enumerations_and_named_tuples() -> Case:
    choice, pair = _Choice.DOUBLE, _Pair(2.0, _full(2.0))

    def function(x: Any) -> Any:
        return (x * choice.value + pair.table) * pair.gain

    def change_choice() -> None:
        nonlocal choice
        choice = _Choice.TRIPLE

    def change_pair() -> None:
        nonlocal pair
        pair = _Pair(3.0, _full(5.0))

    return function, [change_choice, change_pair]


def containers() -> Case:
    numbers, array = {1, 2}, np.array([1.0, 2.0])
    shown = {"gain": 2.0}
    proxy, ordered = types.MappingProxyType(shown), {"a": 2.0, "b": 3.0}
    attributes, several = _Dictionary(gain=2.0), _List([1.0])
    several.offset = 1.0
    first, gain = operator.itemgetter(0), operator.attrgetter("gain")

    def function(x: Any) -> Any:
        x = x * sum(numbers) + float(array[1]) * proxy["gain"]
        for name, each in ordered.items():
            x = x * each + (name == "a")
        return x * attributes.gain + first(several) * several.factor * several.offset + gain(attributes)

    return function, [
        lambda: (numbers.discard(1), numbers.add(7)),
        lambda: array.__setitem__(1, 5.0),
        lambda: shown.update(gain=3.0),
        lambda: ordered.update(a=ordered.pop("a")),
        lambda: attributes.update(gain=4.0),
        lambda: setattr(several, "offset", 8.0),
        lambda: setattr(_List, "factor", 9.0),
    ]


def classes() -> Case:
    class Base:
        table: Any = {"gain": 2.0}  # noqa: RUF012
        weight = _full(2.0)
        offset = _Offset(1.0)

        class Config:
            gain = 2.0

        def scale(self, x: Any) -> Any:
            return x * self.table["gain"] + self.weight + self.offset

    class Derived(Base, metaclass=_Meta):
        gain = 3.0

        def scale(self, x: Any) -> Any:
            return super().scale(x) * self.Config.gain * type(self).doubled + getattr(Base, "late", 0.0)

        @functools.cached_property
        def cached(self) -> float:
            return self.gain

    class Other(Derived):
        def scale(self, x: Any) -> Any:
            return x * 11

    one = Derived()
    return lambda x: one.scale(x) * one.cached, [
        lambda: Base.table.update(gain=3.0),
        lambda: setattr(Base, "table", {"gain": 4.0}),
        lambda: setattr(Base, "weight", _full(7.0)),
        lambda: setattr(vars(Base)["offset"], "value", 5.0),
        lambda: setattr(Base.Config, "gain", 4.0),
        lambda: setattr(Derived, "gain", 5.0),
        lambda: setattr(Base, "late", 5.0),
        lambda: setattr(one, "__class__", Other),
        lambda: setattr(Other, "scale", lambda self, x: x * 13),
    ]


def modules() -> Case:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.count = nn.Linear(4, 4), nn.Linear(4, 4), 2
            self.register_buffer("shift", tensor.ones(4))

        def forward(self, x: Any) -> Any:
            for name in ("first", "second")[: self.count]:
                x = getattr(self, name)(x)
            return x + self.shift if not hasattr(self, "extra") else x + self.extra

    layers: Any = Layers().cuda()
    handles: list[Any] = []
    return lambda x: layers(x), [
        lambda: setattr(layers, "count", 1),
        lambda: setattr(layers, "shift", _full(3.0)),
        lambda: setattr(layers, "extra", 5.0),
        lambda: setattr(layers, "first", nn.Tanh()),
        lambda: handles.append(register_module_forward_hook(lambda module, args, output: output * 3)),
        lambda: handles[0].remove(),
    ]


def parametrizations() -> Case:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4).cuda())
    original: Any = layer.parametrizations
    return lambda x: layer(x), [
        lambda: original.weight.original0.data.mul_(2),
        lambda: nn.utils.parametrize.remove_parametrizations(layer, "weight"),
    ]


def weak_references_and_long_ways() -> Case:
    config = _Config()
    reference, way = weakref.ref(config), types.SimpleNamespace(config=config)
    for _ in range(20):
        way = types.SimpleNamespace(next=way)

    def function(x: Any, _held: Any = config) -> Any:
        end = way
        for _ in range(20):
            end = end.next
        referent: Any = reference()
        return x * referent.gain + end.config.gain

    return function, [lambda: setattr(config, "gain", 3.0)]


def optional_tensors() -> Case:
    mask: Any = None

    def function(x: Any) -> Any:
        return x if mask is None else x * mask

    def change(value: Any) -> Callable[[], None]:
        def set_mask() -> None:
            nonlocal mask
            mask = value

        return set_mask

    values = _full(2.0), _full(3.0), None, _full(2.0).double(), nn.Parameter(_full(5.0))
    return function, [change(each) for each in values]


CASES = (
    nested_functions,
    partials,
    defaults,
    functions_exchanged,
    generators,
    context_managers,
    dataclass_configurations,
    enumerations_and_named_tuples,
    containers,
    classes,
    modules,
    parametrizations,
    weak_references_and_long_ways,
    optional_tensors,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_changes_are_noticed(case: Callable[[], Case], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_List, "factor", 2.0)
    function, changes = case()
    compiled = tensor.compile(function, fullgraph=True, recompile_limit=20)
    x = tensor.linspace(0.5, 2, 4, device="cuda")
    for number, change in enumerate((None, *changes)):
        if change is not None:
            change()
        expected = function(x)
        for _ in range(2):
            assert tensor.equal(compiled(x), expected), number
    assert compiled.programs >= 1


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of a program's own that holds another one."""
    outer, inner = types.ModuleType("of_a_program"), types.ModuleType("of_a_program.settings")
    for each in (outer, inner):
        each.__file__ = f"/of/a/program/{each.__name__}.py"
        monkeypatch.setitem(sys.modules, each.__name__, each)
    outer.settings, inner.GAIN, inner.OFFSETS = inner, 2.0, [1.0]  # type: ignore[attr-defined]
    return outer


def _importing(x: Any) -> Any:
    import of_a_program.settings as settings  # type: ignore[import-not-found]
    from of_a_program.settings import GAIN

    return x * GAIN + settings.OFFSETS[0]


def test_modules_of_a_program(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported by the function itself, or reached through others."""
    x = tensor.ones(3, device="cuda")
    namespace = {"package": package}
    exec(compile("def reaching(x): return x * package.settings.GAIN", __file__, "exec"), namespace)
    for function in (_importing, namespace["reaching"]):
        compiled = tensor.compile(function, fullgraph=True)
        for gain, offset in ((2.0, 1.0), (3.0, 1.0), (3.0, 4.0)):
            monkeypatch.setattr(package.settings, "GAIN", gain)
            monkeypatch.setattr(package.settings, "OFFSETS", [offset])
            assert tensor.equal(compiled(x), function(x))


_attributes = types.SimpleNamespace(step=2.0)


def _asks_for_a_global(x: Any) -> Any:
    try:
        return x * UNKNOWN_TO_ALL  # type: ignore[name-defined]
    except NameError:
        return x * max(1.0, 2.0)


def _attribute_like_a_global(x: Any) -> Any:
    return x * _attributes.step


def test_globals_that_appear(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor.ones(3, device="cuda")
    compiled = tensor.compile(_asks_for_a_global, fullgraph=True)
    assert compiled(x).tolist() == [2.0] * 3
    # One that stands for a function of Python's own.
    monkeypatch.setitem(globals(), "max", min)
    assert compiled(x).tolist() == [1.0] * 3
    monkeypatch.setitem(globals(), "UNKNOWN_TO_ALL", 7.0)
    assert compiled(x).tolist() == [7.0] * 3


def test_globals_with_the_names_of_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the variables of a script's loop: they are not what the function reads."""
    x = tensor.ones(3, device="cuda")
    compiled = tensor.compile(_attribute_like_a_global, fullgraph=True)
    for number in range(12):
        monkeypatch.setitem(globals(), "step", number)
        assert compiled(x).tolist() == [2.0] * 3
    assert compiled.programs == 1


def test_what_is_set_in_the_library_and_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = nn.Linear(3, 3).cuda(), tensor.ones(3, device="cuda")

    def function(x: Any) -> Any:
        return functional.relu(layer(x)) * math.e + float(os.environ.get("GAIN_OF_A_TEST", "1"))

    compiled = tensor.compile(function, fullgraph=True)

    def check() -> None:
        for _ in range(2):
            assert tensor.equal(compiled(x), function(x))

    check()
    monkeypatch.setattr(math, "e", 2.0)
    check()
    monkeypatch.setenv("GAIN_OF_A_TEST", "3")
    check()
    monkeypatch.setattr(functional, "relu", functional.gelu)
    check()
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x * 7)
    check()
    assert compiled.programs == 5


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * globals()["_attributes"].step, "it calls globals"),
        (lambda x: x * eval("2"), "it calls eval"),
        (lambda x: x * datetime.datetime.now().microsecond, "which gives something else each time"),
    ],
)
def test_what_cannot_be_told(function: Any, reason: str) -> None:
    with pytest.raises(tensor.compiler.CompilationError, match=reason):
        tensor.compile(function, fullgraph=True)(tensor.ones(3, device="cuda"))
