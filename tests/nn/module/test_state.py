"""State dicts: what they hold, and reading them back."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest

import nn
import tensor
from tests.nn.parity import assert_like_pytorch


def model_of(lib: Any, nn: Any) -> Any:
    """Two levels, with parameters of several ranks and both kinds of buffers."""

    class Inner(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, start: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(lib.full((2, 3), start))
            self.scale = nn.Parameter(lib.tensor(start))
            self.register_buffer("mean", lib.zeros(3))
            self.register_buffer("cache", lib.ones(1), persistent=False)

    model = nn.Module()
    model.first = Inner(1.0)
    model.second = Inner(2.0)
    model.extra = Inner(3.0)
    model.extra.get_extra_state = lambda: 1  # not seen: it is not the class's
    return model


class _Counting:
    """Extra state: how often it was taken."""

    def get_extra_state(self) -> Any:
        return {"count": 7}

    def set_extra_state(self, state: Any) -> None:
        self.seen = state


def loading(change: Any, **options: Any) -> Any:
    """A program that loads a changed state dict, and tells the report or the result."""

    def program(lib: Any, nn: Any) -> Any:
        source = model_of(lib, nn)
        for each in source.parameters():
            each.data.mul_(10)
        state = source.state_dict()
        change(lib, nn, state)
        model = model_of(lib, nn)
        try:
            keys = model.load_state_dict(state, **options)
        except RuntimeError as error:
            return str(error).replace("Module:", "").split("\n")
        return repr(keys).strip("_"), list(keys.missing_keys), list(keys.unexpected_keys), model.state_dict()

    return program


def _set(key: str, make: Any) -> Any:
    return lambda lib, nn, state: state.__setitem__(key, make(lib, nn))


CHANGES = {
    "none": lambda lib, nn, state: None,
    "missing": lambda lib, nn, state: [
        state.pop(each) for each in ("first.weight", "second.mean", "extra.scale")
    ],
    "unexpected": _set("first.other", lambda lib, nn: lib.ones(1)),
    "unexpected module": _set("third.weight", lambda lib, nn: lib.ones(1)),
    "non persistent": _set("first.cache", lambda lib, nn: lib.ones(1)),
    "below a parameter": _set("first.weight.x", lambda lib, nn: lib.ones(1)),
    "name of a module": _set("first", lambda lib, nn: lib.ones(1)),
    "shape": _set("first.weight", lambda lib, nn: lib.ones(3, 2)),
    "old scalar": _set("first.scale", lambda lib, nn: lib.full((1,), 5.0)),
    "vector for scalar": _set("first.scale", lambda lib, nn: lib.ones(2)),
    "dtype": _set("first.weight", lambda lib, nn: lib.ones(2, 3, dtype=lib.float64)),
    "integers": _set("first.mean", lambda lib, nn: lib.tensor([1, 2, 3])),
    "parameter": _set("first.weight", lambda lib, nn: nn.Parameter(lib.ones(2, 3), requires_grad=False)),
    "extra state": _set("first._extra_state", lambda lib, nn: 5),
    "several": lambda lib, nn, state: (
        state.pop("second.mean"),
        state.update(
            {"x": lib.ones(1), "first.weight": lib.ones(1), "second.scale": lib.ones(3, 2), "y.z": 0}
        ),
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("assign", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_loading(name: str, strict: bool, assign: bool) -> None:
    assert_like_pytorch(loading(CHANGES[name], strict=strict, assign=assign))


def test_what_is_no_tensor() -> None:
    model = model_of(tensor, nn)
    with pytest.raises(
        RuntimeError, match=r'parameter named "first.weight", expected .*Tensor.* received .*list'
    ):
        model.load_state_dict({"first.weight": [1.0]}, strict=False)


@pytest.mark.parity
def test_what_is_no_mapping() -> None:
    assert_like_pytorch(lambda lib, nn: model_of(lib, nn).load_state_dict([("first.weight", 1)]))


def test_failed_loading_changes_nothing() -> None:
    model = model_of(tensor, nn)
    before = {name: value.tolist() for name, value in model.state_dict().items()}
    state = {name: value + 1 for name, value in model.state_dict().items()}
    state["extra.weight"] = tensor.ones(5)
    with pytest.raises(RuntimeError, match=r"size mismatch for extra.weight: .*\[5\].*\[2, 3\]"):
        model.load_state_dict(state)
    assert {name: value.tolist() for name, value in model.state_dict().items()} == before


@pytest.mark.parity
def test_assigned_parameters() -> None:
    def program(lib: Any, nn: Any) -> Any:
        model = model_of(lib, nn)
        model.first.weight.requires_grad_(False)
        kept = nn.Parameter(lib.ones(2, 3, dtype=lib.float64))
        plain = lib.ones(2, 3, dtype=lib.float16)
        model.load_state_dict({"first.weight": kept, "second.weight": plain}, strict=False, assign=True)
        return [
            model.first.weight is kept,
            kept.requires_grad,
            type(model.second.weight).__name__,
            model.second.weight.requires_grad,
            str(model.second.weight.dtype),
            model.second.weight.data_ptr() == plain.data_ptr(),
        ]

    assert_like_pytorch(program)


def test_what_is_assigned_to_a_parameter_may_need_no_other_conversion(device_name: str) -> None:
    model = model_of(tensor, nn)
    model.load_state_dict({"first.weight": tensor.full((2, 3), 4.0, device=device_name)}, strict=False)
    assert model.first.weight.device.type == "cpu"
    assert model.first.weight.tolist() == [[4.0] * 3] * 2
    model.to(device_name).load_state_dict({"first.weight": tensor.full((2, 3), 5.0)}, strict=False)
    assert model.first.weight.device.type == device_name
    assert model.first.weight.tolist() == [[5.0] * 3] * 2


@pytest.mark.parity
def test_views_and_variables() -> None:
    def program(lib: Any, nn: Any) -> Any:
        model = model_of(lib, nn)
        views, own = model.state_dict(), model.state_dict(keep_vars=True)
        return [
            type(views["first.weight"]).__name__,
            views["first.weight"].requires_grad,
            views["first.weight"].data_ptr() == model.first.weight.data_ptr(),
            own["first.weight"] is model.first.weight,
            type(views).__name__,
        ]

    assert_like_pytorch(program)


@pytest.mark.parity
def test_destination() -> None:
    def program(lib: Any, nn: Any) -> Any:
        destination: dict[str, Any] = {"old": 1}
        assert model_of(lib, nn).first.state_dict(destination=destination, prefix="p.") is destination
        return list(destination)

    assert_like_pytorch(program)


@pytest.mark.parity
def test_extra_state() -> None:
    def program(lib: Any, nn: Any) -> Any:
        class Counting(_Counting, nn.Module):  # type: ignore[name-defined,misc]
            pass

        class Taking(nn.Module):  # type: ignore[name-defined,misc]
            set_extra_state = _Counting.set_extra_state

        model, other = nn.Module(), Counting()
        model.inner = Counting()
        state = model.state_dict()
        model.load_state_dict(state)
        result = [state, model.inner.seen]
        for module, argument in ((other, {}), (Taking(), {}), (Taking(), {"_extra_state": 3})):
            for strict in (True, False):
                try:
                    keys = module.load_state_dict(argument, strict=strict)
                    result.append([list(keys.missing_keys), getattr(module, "seen", None)])
                except RuntimeError as error:
                    result.append(str(error))
        return result

    assert_like_pytorch(program)


@pytest.mark.parity
def test_hooks_of_state_dict() -> None:
    def program(lib: Any, nn: Any) -> Any:
        model = model_of(lib, nn)
        seen: list[Any] = []

        def rename(module: Any, state: Any, prefix: str, metadata: Any) -> None:
            state[prefix + "renamed"] = state.pop(prefix + "weight")
            seen.append((prefix, dict(metadata)))

        model.first.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append((prefix, keep)))
        handle = model.first.register_state_dict_post_hook(rename)
        result = [list(model.state_dict()), list(seen)]
        handle.remove()
        model._register_state_dict_hook(lambda module, state, prefix, metadata: {"only": 1})
        result.append(model.state_dict())
        return result

    assert_like_pytorch(program)


@pytest.mark.parity
def test_state_dict_post_hook_returns_nothing() -> None:
    def program(lib: Any, nn: Any) -> Any:
        model = model_of(lib, nn)
        model.register_state_dict_post_hook(lambda *args: {})
        model.state_dict()

    assert_like_pytorch(program)


@pytest.mark.parity
def test_hooks_of_loading() -> None:
    def program(lib: Any, nn: Any) -> Any:
        seen: list[Any] = []

        def rename(module: Any, state: Any, prefix: str, metadata: Any, strict: bool, *lists: Any) -> None:
            seen.append((type(module).__name__, sorted(state), prefix, dict(metadata), strict))
            state[prefix + "weight"] = state.pop(prefix + "old", lib.zeros(2, 3))

        def after(module: Any, keys: Any) -> None:
            seen.append(
                (type(module).__name__, list(keys.missing_keys), module.first.weight.detach().clone())
            )
            keys.missing_keys.clear()

        model = model_of(lib, nn)
        model.first.register_load_state_dict_pre_hook(rename)
        model.register_load_state_dict_post_hook(after)
        state = model.state_dict()
        state["first.old"] = state.pop("first.weight") + 1
        del state["second.mean"]
        keys = model.load_state_dict(state)
        return [seen, list(keys.missing_keys), list(state)]

    assert_like_pytorch(program)


def test_hooks_of_loading_are_copied_and_keep_nothing_alive() -> None:
    model = nn.Linear(1, 1)
    model.register_load_state_dict_pre_hook(_note_module)
    result = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for each in result:
        each.load_state_dict(model.state_dict())
        assert each.noted is each.weight
    assert not hasattr(model, "noted")
    watched = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert watched() is None
    finally:
        gc.enable()


def _note_module(module: Any, *_: Any) -> None:
    object.__setattr__(module, "noted", module.weight)


def test_loading_post_hook_returns_nothing() -> None:
    model = model_of(tensor, nn)
    model.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(RuntimeError, match="not expected to return"):
        model.load_state_dict(model.state_dict())


@pytest.mark.parity
def test_older_forms_are_read() -> None:
    def program(lib: Any, nn: Any) -> Any:
        class Versioned(nn.Module):  # type: ignore[name-defined,misc]
            _version = 2

            def __init__(self) -> None:
                super().__init__()
                self.w = nn.Parameter(lib.zeros(2))

            def _load_from_state_dict(
                self, state: Any, prefix: str, metadata: Any, strict: bool, *lists: Any
            ) -> None:
                if metadata.get("version", 1) < 2:
                    state[prefix + "w"] = state.pop(prefix + "v")
                super()._load_from_state_dict(state, prefix, metadata, strict, *lists)

        model = nn.Module()
        model.child = Versioned()
        first = model.load_state_dict({"child.v": lib.ones(2)})
        second = model.load_state_dict(model.state_dict())
        return [list(first.missing_keys), list(second.missing_keys), model.child.w]

    assert_like_pytorch(program)


class _CountedKey(str):
    """A key that counts how often it is compared by its beginning or searched."""

    looks = 0

    def startswith(self, *args: Any) -> bool:
        _CountedKey.looks += 1
        return super().startswith(*args)

    def find(self, *args: Any) -> int:
        _CountedKey.looks += 1
        return super().find(*args)


def _calls_of(function: Any) -> int:
    """How many Python and C functions ``function()`` calls."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def _work_on(layers: int) -> dict[str, int]:
    """Calls that each method makes on a module with ``layers`` submodules, and looks at keys while loading."""
    model = nn.Sequential(*[nn.Linear(1, 1) for _ in range(layers)])
    state = {_CountedKey(key): value for key, value in model.state_dict().items()}
    _CountedKey.looks = 0
    model.load_state_dict(state)
    work = {"looks at keys": _CountedKey.looks}
    programs = {
        "load_state_dict": lambda: model.load_state_dict(state),
        "load_state_dict(assign=True)": lambda: model.load_state_dict(state, assign=True),
        "state_dict": model.state_dict,
        "named_parameters": lambda: list(model.named_parameters()),
        "named_modules": lambda: list(model.named_modules()),
        "to": lambda: model.to(tensor.float64),
        "apply": lambda: model.apply(lambda module: None),
        "train": model.train,
        "zero_grad": model.zero_grad,
        "repr": lambda: repr(model),
    }
    for name, program in programs.items():
        work[name] = _calls_of(program)
    return work


def test_work_is_linear_in_the_number_of_layers() -> None:
    # What the collector finalizes is not the functions' work.
    gc.collect()
    gc.disable()
    try:
        _work_on(2)
        small, medium, large = _work_on(20), _work_on(40), _work_on(60)
    finally:
        gc.enable()
    growth = {name: (medium[name] - small[name], large[name] - medium[name]) for name in small}
    assert all(first == second for first, second in growth.values()), growth
    assert small["looks at keys"] > 40


@pytest.mark.parity
def test_a_submodule_whose_name_has_a_dot_is_loaded() -> None:
    def program(lib: Any, nn: Any) -> Any:
        model = nn.Sequential(nn.Linear(1, 1))
        setattr(model, "a.b", nn.Linear(1, 1))
        model.a = nn.Linear(1, 1, bias=False)
        state = {key: lib.full_like(value, 3.0) for key, value in model.state_dict().items()}
        return repr(model.load_state_dict(state, strict=False)).strip("_"), model.state_dict()

    assert_like_pytorch(program)
