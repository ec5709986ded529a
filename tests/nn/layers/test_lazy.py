"""Lazy modules: what they are before and after their first call, against PyTorch's."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nn.module.lazy import LazyModuleMixin
from nn.parameter import is_lazy
from tests.nn.parity import assert_like_pytorch, assert_refused_like_pytorch, copy_weights
from tests.nn.test_signatures import assert_same_parameters
from tests.tensor.comparison import array_of

#: Class, arguments, and shape of the first input.
CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "linear": ("Linear", (3,), {}, (2, 5)),
    "linear without bias": ("Linear", (3,), {"bias": False}, (4, 2, 5)),
    "conv1d": ("Conv1d", (4, 3), {"groups": 2}, (2, 4, 6)),
    "conv2d": ("Conv2d", (4, (3, 2)), {"padding": 1}, (2, 3, 5, 4)),
    "conv2d unbatched": ("Conv2d", (4, 2), {"bias": False}, (3, 5, 4)),
    "conv3d": ("Conv3d", (2, 2), {"stride": 2}, (1, 3, 4, 4, 4)),
    "conv_transpose1d": (
        "ConvTranspose1d",
        (4, 3),
        {"groups": 2, "stride": 2, "output_padding": 1},
        (2, 4, 5),
    ),
    "conv_transpose2d": ("ConvTranspose2d", (4, 2), {}, (2, 3, 4, 4)),
    "conv_transpose3d": ("ConvTranspose3d", (2, 2), {"bias": False}, (1, 3, 2, 2, 2)),
    "batch_norm1d": ("BatchNorm1d", (), {}, (4, 3)),
    "batch_norm2d": ("BatchNorm2d", (), {"affine": False}, (4, 3, 2, 2)),
    "batch_norm3d": ("BatchNorm3d", (), {"track_running_stats": False}, (2, 3, 2, 2, 2)),
    "instance_norm1d": ("InstanceNorm1d", (), {}, (2, 3, 4)),
    "instance_norm2d": ("InstanceNorm2d", (), {"affine": False, "momentum": 0.2}, (2, 3, 4, 4)),
    "instance_norm3d": ("InstanceNorm3d", (), {"bias": False}, (2, 3, 2, 2, 2)),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(3)
def test_as_pytorch(case: str, device_name: str, full_precision: None) -> None:
    torch = pytest.importorskip("torch")
    name, args, options, shape = CASES[case]
    mine, theirs = (
        getattr(nn, f"Lazy{name}")(*args, **options),
        getattr(torch.nn, f"Lazy{name}")(*args, **options),
    )
    assert_same_parameters(type(mine).__init__, type(theirs).__init__)
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert mine.has_uninitialized_params() == theirs.has_uninitialized_params()
    mine.to(device_name)
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x, other = tensor.from_numpy(array.copy()).to(device_name), torch.from_numpy(array)
    mine(x)
    theirs(other)
    assert type(mine) is getattr(nn, name)
    assert type(theirs) is getattr(torch.nn, name)
    assert repr(mine) == repr(theirs)
    assert not mine._forward_pre_hooks
    assert all(type(each) is nn.Parameter for each in mine.parameters())
    assert all(type(each) is tensor.Tensor for each in mine.buffers())
    assert all(each.device.type == device_name for each in (*mine.parameters(), *mine.buffers()))
    copy_weights(mine.cpu(), theirs)
    mine.to(device_name)
    result, expected = mine(x), theirs(other)
    # Convolutions on devices may round to TF32.
    tolerance = 5e-3 if "Conv" in name and device_name == "cuda" else 1e-5
    np.testing.assert_allclose(array_of(result), array_of(expected), rtol=1e-4, atol=tolerance)
    if result.requires_grad:
        result.sum().backward()
    assert all(each.grad is not None for each in mine.parameters())


@pytest.mark.parametrize("case", CASES)
def test_state_dicts(case: str) -> None:
    name, args, options, shape = CASES[case]
    make = getattr(nn, f"Lazy{name}")
    x = tensor.randn(*shape)
    ready = make(*args, **options)
    ready(x)
    state = ready.state_dict()
    # Into a module that has no shapes yet; they come with it.
    fresh = make(*args, **options)
    fresh.load_state_dict(state)
    assert not fresh.has_uninitialized_params()
    result = copy.deepcopy(fresh).eval()(x)
    assert tensor.equal(result, copy.deepcopy(ready).eval()(x))
    fresh(x)
    assert type(fresh) is type(ready)
    assert repr(fresh) == repr(ready)
    # What has no shapes leaves what has none as it is, and is an error for what has.
    empty = make(*args, **options)
    if not empty.has_uninitialized_params():
        return
    other = make(*args, **options)
    other.load_state_dict(empty.state_dict())
    assert other.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="without a shape"):
        ready.load_state_dict(empty.state_dict())


def test_loading_that_fails_leaves_no_shapes() -> None:
    lazy = nn.LazyLinear(3)
    with pytest.raises(RuntimeError, match="Missing key"):
        lazy.load_state_dict({"weight": tensor.ones(3, 2)})
    assert is_lazy(lazy.weight)
    lazy.load_state_dict({"weight": tensor.ones(3, 2)}, strict=False)
    assert tuple(lazy.weight.shape) == (3, 2)
    assert is_lazy(lazy.bias)
    # The weight's values are those that were loaded until the rest is there.
    lazy.load_state_dict({"weight": tensor.ones(3, 2), "bias": tensor.ones(3)})
    assert lazy(tensor.ones(1, 2)).tolist() == [[3, 3, 3]]
    assert repr(lazy) == "Linear(in_features=2, out_features=3, bias=True)"
    assigned = nn.LazyLinear(3, bias=False)
    weight = nn.Parameter(tensor.ones(3, 2))
    assigned.load_state_dict({"weight": weight}, assign=True)
    assert assigned.weight is weight


def test_first_values_are_those_of_the_module() -> None:
    tensor.manual_seed(0)
    expected = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 5))
    lazy = nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(5))
    tensor.manual_seed(0)
    lazy(tensor.ones(1, 3, 4, 4))
    for left, right in zip(lazy.parameters(), expected.parameters(), strict=True):
        assert tensor.equal(left, right)


def test_an_optimizer_made_before_the_first_call() -> None:
    lazy = nn.LazyLinear(2)
    optimizer = nn.optim.SGD(lazy.parameters(), lr=0.5)
    weight = lazy.weight
    out = lazy(tensor.ones(1, 3))
    # The parameters are the same objects.
    assert optimizer.param_groups[0]["params"][0] is weight is lazy.weight
    before = weight.detach().clone()
    out.sum().backward()
    optimizer.step()
    np.testing.assert_allclose(array_of(weight), array_of(before) - 0.5, rtol=1e-6)


def test_conversions() -> None:
    drv.simulator.install()
    lazy = nn.LazyBatchNorm1d(dtype=tensor.float64)
    assert lazy.weight.dtype is lazy.running_mean.dtype is tensor.float64
    weight = lazy.weight
    lazy.cuda().half()
    assert lazy.weight is weight
    for each in (lazy.weight, lazy.running_mean):
        assert is_lazy(each)
        assert each.is_cuda
        assert each.device == tensor.device("cuda", 0)
        assert each.get_device() == 0
        assert each.dtype is tensor.float16
        assert each.is_floating_point()
        assert not each.is_complex()
        assert each.to("cpu", tensor.float32).dtype is tensor.float32
        assert type(each.cpu()) is type(each.float()) is type(each)
    out = lazy(tensor.ones(4, 2, device="cuda", dtype=tensor.float16))
    assert out.is_cuda
    assert lazy.running_mean.dtype is tensor.float16


def test_copies_and_pickles() -> None:
    lazy = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    others = [copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))]
    lazy(tensor.ones(2, 4))
    for other in others:
        assert other[0].has_uninitialized_params()
        assert repr(other[0].weight) == "<UninitializedParameter>"
        assert repr(other[1].running_mean) == "<UninitializedBuffer>"
        assert other(tensor.ones(2, 5)).shape == (2, 3)
        assert type(other[0]) is nn.Linear
        assert not other[0]._forward_pre_hooks
    assert lazy[0].weight.shape == (3, 4)


@pytest.mark.parity
def test_a_module_of_ones_own() -> None:
    def program(library: Any, layers: Any) -> Any:
        mixin = LazyModuleMixin if layers is nn else layers.modules.lazy.LazyModuleMixin

        class Scale(layers.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.factor = layers.Parameter(library.ones(1))

            def forward(self, x: Any, *, times: int = 1) -> Any:
                return x * self.factor * times

        class LazyScale(mixin, Scale):  # type: ignore[misc, valid-type]
            cls_to_become = Scale

            def __init__(self) -> None:
                super().__init__()
                self.factor = layers.UninitializedParameter()

            def initialize_parameters(self, x: Any, *, times: int = 1) -> None:
                self.factor.materialize(x.shape[-1:])
                with library.no_grad():
                    self.factor.fill_(times)

        output = LazyScale()
        before = type(output).__name__, output.has_uninitialized_params(), repr(output.factor)
        result = output(library.ones(2, 3), times=2)
        return before, result, type(output).__name__, output.factor

    assert_like_pytorch(program)


def test_what_is_left_uninitialized_is_an_error() -> None:
    class Half(LazyModuleMixin, nn.Linear):
        def __init__(self) -> None:
            super().__init__(1, 1)
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, *inputs: Any) -> None:
            pass

    with pytest.raises(RuntimeError, match="Half has not been fully initialized"):
        Half()(tensor.ones(1))

    class Nothing(LazyModuleMixin, nn.Identity):
        pass

    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Nothing"):
        Nothing()(tensor.ones(1))


USES: dict[str, Any] = {
    "arithmetic": lambda w: w + 1,
    "a function": lambda w: tensor.matmul(w, w),
    "linear": lambda w: nn.functional.linear(tensor.ones(2, 2), w),
    "in place": lambda w: tensor.no_grad()(w.zero_)(),
    "indexing": lambda w: w[0],
    "numel": lambda w: w.numel(),
    "stride": lambda w: w.stride(),
    "numpy": lambda w: w.detach().numpy(),
    "tolist": lambda w: w.tolist(),
    "initialisation": lambda w: nn.init.ones_(w),
    "vector": lambda w: nn.utils.parameters_to_vector([w]),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("kind", ["UninitializedParameter", "UninitializedBuffer"])
def test_use_before_there_is_a_shape(kind: str, name: str) -> None:
    result = getattr(nn, kind)()
    with pytest.raises(ValueError, match=r"uninitialized (parameter|buffer).*materialize"):
        USES[name](result)
    result.materialize((2, 2))
    result.data.fill_(1)
    USES[name](result.detach().requires_grad_(False))


def test_shape_and_shared_memory() -> None:
    result = nn.UninitializedParameter(requires_grad=False)
    assert not result.requires_grad
    for use in (lambda: result.shape, lambda: result.size(), lambda: result.share_memory_()):
        with pytest.raises(RuntimeError, match="Call the module with an input"):
            use()
    assert str(result) == "<UninitializedParameter>"
    assert result.data.numel() == 0
    result.materialize(4, dtype=tensor.float16)
    assert type(result) is nn.Parameter
    assert result.dtype is tensor.float16
    assert not result.requires_grad
    with pytest.raises(RuntimeError, match="DataParallel"):
        nn.LazyLinear(2)._replicate_for_data_parallel()


WRONG: dict[str, tuple[Any, str]] = {
    "rank": (lambda layers, t: layers.LazyConv2d(2, 1)(t.ones(3, 4)), "Expected 3D .unbatched. or 4D"),
    "groups": (lambda layers, t: layers.LazyConv1d(4, 1, groups=2)(t.ones(1, 3, 4)), "divisible by groups"),
    "batch norm's rank": (lambda layers, t: layers.LazyBatchNorm2d()(t.ones(3, 4)), "expected 4D"),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(name: str) -> None:
    assert_refused_like_pytorch(*WRONG[name])


def test_instance_norm_of_one_sample() -> None:
    # PyTorch takes the length for the channels.
    lazy = nn.LazyInstanceNorm1d()
    lazy(tensor.randn(3, 5))
    assert lazy.num_features == 3


@pytest.mark.parity
def test_there_are_all_lazy_modules() -> None:
    torch = pytest.importorskip("torch")
    expected = {name for name in dir(torch.nn) if name.startswith(("Lazy", "Uninitialized"))}
    assert {name for name in nn.__all__ if name.startswith(("Lazy", "Uninitialized"))} == expected
    for name in expected:
        assert inspect.isclass(getattr(nn, name))
