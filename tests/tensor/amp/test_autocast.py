"""Blocks of autocast: what holds inside of them, the casts they keep, and training in them."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import nn.functional
import nn.optim
import tensor
from tensor.core.modes.autocast import autocast_blocks, settings
from tests.tensor.conftest import device_name

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["device_name"]


@pytest.fixture(autouse=True)
def _nothing_stays() -> Any:
    yield
    assert (settings.depth, settings.casts, autocast_blocks.count) == (0, {}, 0)
    assert settings.dtypes == {"cpu": tensor.bfloat16, "cuda": tensor.float16}
    assert settings.keeps


def _half(device: str) -> Any:
    return tensor.float16 if device == "cuda" else tensor.bfloat16


# Blocks


def test_blocks_nest(device_name: str) -> None:
    x = tensor.ones(2, 2, device=device_name)
    with tensor.autocast(device_name):
        assert (x @ x).dtype is _half(device_name)
        with tensor.autocast(device_name, enabled=False):
            assert not tensor.is_autocast_enabled(device_name)
            assert (x @ x).dtype is tensor.float32
            with tensor.autocast(device_name, dtype=tensor.float16):
                assert (x @ x).dtype is tensor.float16
            assert (x @ x).dtype is tensor.float32
        with tensor.autocast(device_name, dtype=tensor.bfloat16):
            assert tensor.get_autocast_dtype(device_name) is tensor.bfloat16
            assert (x @ x).dtype is tensor.bfloat16
        assert (x @ x).dtype is _half(device_name)
        assert tensor.is_autocast_enabled(device_name)
    assert not tensor.is_autocast_enabled(device_name)
    assert (x @ x).dtype is tensor.float32


def test_blocks_end_with_an_exception() -> None:
    block = tensor.autocast("cpu")
    with pytest.raises(KeyError), block:
        raise KeyError
    assert not tensor.is_autocast_enabled("cpu")
    with block, block:
        assert tensor.is_autocast_enabled("cpu")
    assert not tensor.is_autocast_enabled("cpu")


def test_values_are_those_of_the_lower_precision(device_name: str) -> None:
    generator = tensor.Generator().manual_seed(0)
    a, b = (tensor.randn(4, 4, generator=generator).to(device_name) for _ in range(2))
    half = _half(device_name)
    with tensor.autocast(device_name):
        assert tensor.equal(a @ b, a.to(half) @ b.to(half))
        if device_name == "cuda":
            y = a @ b
            assert tensor.equal(tensor.softmax(y, -1), tensor.softmax(y.float(), -1))
            assert tensor.equal(y.sum(0), y.float().sum(0))


def test_decorated_functions_and_methods(device_name: str) -> None:
    x = tensor.ones(2, 2, device=device_name)

    @tensor.autocast(device_name)
    def product(a: Any, depth: int = 1) -> Any:
        """Multiply."""
        return product(a, depth - 1) if depth else a @ a

    class Net(nn.Module):
        @tensor.autocast(device_name)
        def forward(self, a: Any) -> Any:
            return a @ a

    assert product(x, depth=3).dtype is _half(device_name)
    assert (product.__name__, product.__doc__) == ("product", "Multiply.")
    assert Net()(x).dtype is _half(device_name)
    assert (x @ x).dtype is tensor.float32
    with pytest.raises(TypeError, match=r"requires a callable, but got Tensor. Did you mean"):
        tensor.autocast(device_name)(x)


def test_a_decorated_function_in_several_threads() -> None:
    x = tensor.ones(2, 2)
    inside, leave = threading.Barrier(3), threading.Barrier(3)

    @tensor.autocast("cpu")
    def product() -> Any:
        inside.wait()
        leave.wait()
        return (x @ x).dtype

    result: list[Any] = []
    threads = [threading.Thread(target=lambda: result.append((product(), (x @ x).dtype))) for _ in range(2)]
    for each in threads:
        each.start()
    inside.wait()
    # This thread is in no block.
    assert (x @ x).dtype is tensor.float32
    leave.wait()
    for each in threads:
        each.join()
    assert result == [(tensor.bfloat16, tensor.float32)] * 2


def test_settings_are_of_one_thread() -> None:
    result: list[Any] = []

    def look() -> None:
        x = tensor.ones(2, 2)
        result.append((tensor.is_autocast_enabled("cpu"), tensor.get_autocast_dtype("cpu"), (x @ x).dtype))

    with tensor.autocast("cpu", dtype=tensor.float16, cache_enabled=False):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert result == [(False, tensor.bfloat16, tensor.float32)]


def test_settings_as_functions() -> None:
    x = tensor.ones(2, 2)
    assert not tensor.is_autocast_enabled("cpu")
    tensor.set_autocast_enabled("cpu", True)
    try:
        assert tensor.is_autocast_cpu_enabled()
        assert not tensor.is_autocast_enabled()
        tensor.set_autocast_dtype("cpu", tensor.float16)
        assert tensor.get_autocast_cpu_dtype() is tensor.get_autocast_dtype("cpu") is tensor.float16
        assert (x @ x).dtype is tensor.float16
        tensor.set_autocast_cpu_dtype(tensor.bfloat16)
        assert (x @ x).dtype is tensor.bfloat16
    finally:
        tensor.set_autocast_cpu_enabled(False)
    assert (x @ x).dtype is tensor.float32
    tensor.set_autocast_enabled(True)
    assert tensor.is_autocast_enabled() and tensor.is_autocast_enabled("cuda")
    tensor.set_autocast_enabled(enabled=False)
    tensor.set_autocast_enabled(device_type="cpu", enabled=False)
    assert not tensor.is_autocast_enabled()
    assert tensor.get_autocast_gpu_dtype() is tensor.float16
    tensor.set_autocast_gpu_dtype(tensor.bfloat16)
    assert tensor.get_autocast_dtype("cuda") is tensor.bfloat16
    tensor.set_autocast_gpu_dtype(tensor.float16)
    tensor.set_autocast_cache_enabled(False)
    assert not tensor.is_autocast_cache_enabled()
    tensor.set_autocast_cache_enabled(True)
    assert (tensor.autocast_increment_nesting(), tensor.autocast_decrement_nesting()) == (1, 0)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: `<class 'int'>`"):
        tensor.autocast(0)  # type: ignore[arg-type]
    for call in (tensor.autocast, tensor.is_autocast_enabled, tensor.get_autocast_dtype):
        with pytest.raises(RuntimeError, match="unsupported autocast device_type 'gpu'"):
            call("gpu")
    assert tensor.amp.is_autocast_available("cuda") and tensor.amp.is_autocast_available("cpu")
    assert not tensor.amp.is_autocast_available("gpu")
    with pytest.raises(TypeError, match="'dtype' must be a dtype, not str"):
        tensor.autocast("cpu", dtype="float16")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="set_autocast_enabled.*must be bool, not int"):
        tensor.set_autocast_enabled("cpu", 1)
    with pytest.raises(TypeError, match="set_autocast_dtype.*must be a dtype, not int"):
        tensor.set_autocast_dtype("cpu", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="set_autocast_enabled.*must be bool, not str"):
        tensor.set_autocast_enabled()


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_a_wrong_dtype_warns_and_disables(kind: str) -> None:
    with pytest.warns(
        UserWarning, match="In CPU autocast, but the target dtype is not supported. Disabling"
    ) as result:
        block = tensor.autocast("cpu", dtype=getattr(tensor, kind))
    assert result[0].filename == __file__
    with block:
        assert not tensor.is_autocast_enabled("cpu")
        assert (tensor.ones(2, 2) @ tensor.ones(2, 2)).dtype is tensor.float32


def test_cuda_takes_float32_and_no_integers(device: drv.Device) -> None:
    x = tensor.ones(2, 2, device="cuda", dtype=tensor.float16)
    with tensor.autocast("cuda", dtype=tensor.float32):
        assert (x @ x).dtype is tensor.float32
    with pytest.warns(UserWarning, match="In CUDA autocast"):
        tensor.autocast("cuda", dtype=tensor.int32)


@pytest.mark.simulator_only
def test_without_a_device_cuda_warns_and_disables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drv, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="CUDA is not available. Disabling"):
        block = tensor.autocast("cuda")
    with block:
        assert not tensor.is_autocast_enabled("cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor.autocast("cuda", enabled=False)


def test_names_where_users_look(device: drv.Device) -> None:
    assert tensor.autocast is tensor.amp.autocast is nn.amp.autocast
    assert nn.amp.GradScaler is tensor.amp.GradScaler
    assert issubclass(tensor.cuda.amp.GradScaler, tensor.amp.GradScaler)
    x = tensor.ones(2, 2, device="cuda")
    with tensor.cuda.amp.autocast():
        assert (x @ x).dtype is tensor.float16
    with tensor.cuda.amp.autocast(False):
        assert (x @ x).dtype is tensor.float32
    with tensor.cuda.amp.autocast(dtype=tensor.bfloat16):
        assert (x @ x).dtype is tensor.bfloat16

    @tensor.cuda.amp.autocast()
    def product() -> Any:
        return x @ x

    assert product().dtype is tensor.float16
    assert tensor.cuda.amp.GradScaler(init_scale=2.0).get_scale() == 2.0


# Gradients and casts that are kept


def test_gradients_have_the_types_of_what_they_belong_to(device_name: str) -> None:
    layer = nn.Linear(3, 2, device=device_name)
    x = tensor.ones(4, 3, device=device_name, requires_grad=True)
    seen = []
    with tensor.autocast(device_name):
        y = layer(x)
        y.register_hook(lambda grad: seen.append(grad.dtype))
        loss = nn.functional.mse_loss(y, tensor.zeros(4, 2, device=device_name))
    assert (y.dtype, loss.dtype) == (_half(device_name), tensor.float32)
    loss.backward()
    assert seen == [_half(device_name)]
    assert x.grad is not None and x.grad.dtype is tensor.float32
    assert layer.weight.grad.dtype is layer.bias.grad.dtype is tensor.float32


def _casts_of(monkeypatch: pytest.MonkeyPatch, watched: Any) -> list[Any]:
    """What ``watched`` is cast to from now on."""
    casts: list[Any] = []
    to = tensor.Tensor.to

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self is watched:
            casts.append(args[0])
        return to(self, *args, **kwargs)

    monkeypatch.setattr(tensor.Tensor, "to", noted)
    return casts


def test_a_parameter_is_cast_once_in_the_outermost_block(
    device_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = nn.Parameter(tensor.ones(3, 3, device=device_name))
    x = tensor.ones(3, 3, device=device_name)
    casts = _casts_of(monkeypatch, weight)
    with tensor.autocast(device_name):
        y = x @ weight
        with tensor.autocast(device_name, enabled=False):
            pass
        with tensor.autocast(device_name):
            y = (y @ weight) @ weight
        assert casts == [_half(device_name)]
        # One for another type.
        with tensor.autocast(device_name, dtype=tensor.float16 if device_name == "cpu" else tensor.bfloat16):
            x @ weight
        assert len(casts) == 2
        y = y @ weight
        assert len(casts) == 2
    y.sum().backward()
    assert weight.grad is not None
    with tensor.autocast(device_name):
        x @ weight
    assert len(casts) == 3


def test_what_is_no_parameter_is_cast_each_time(device_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor.ones(3, 3, device=device_name)
    casts = _casts_of(monkeypatch, x)
    with tensor.autocast(device_name):
        x @ x
        assert len(casts) == 2
    weight = nn.Parameter(tensor.ones(3, 3, device=device_name))
    casts = _casts_of(monkeypatch, weight)
    with tensor.autocast(device_name, cache_enabled=False):
        x @ weight
        x @ weight
        assert len(casts) == 2
    with tensor.autocast(device_name):
        x @ weight
        tensor.clear_autocast_cache()
        x @ weight
        assert len(casts) == 4


@pytest.mark.parity
def test_gradients_of_uses_of_a_kept_cast_add_up() -> None:
    torch = pytest.importorskip("torch")

    def gradients(library: Any) -> Any:
        weight = (library.arange(9).reshape(3, 3).to(library.float32) / 8).requires_grad_()
        x = library.ones(2, 3)
        with library.autocast("cpu"):
            loss = (x @ weight @ weight).float().sum() + (x @ weight).float().exp().sum()
        loss.backward()
        return weight.grad.tolist()

    for ours, theirs in zip(gradients(tensor), gradients(torch), strict=True):
        assert ours == pytest.approx(theirs, rel=2e-2)


def test_a_cast_that_was_kept_unrecorded_is_not_used_in_recorded_operations(device_name: str) -> None:
    weight = nn.Parameter(tensor.ones(3, 3, device=device_name))
    x = tensor.ones(3, 3, device=device_name)
    with tensor.autocast(device_name):
        with tensor.no_grad():
            assert not (x @ weight).requires_grad
        y = x @ weight
        with tensor.inference_mode():
            assert not (x @ weight).requires_grad
    y.sum().backward()
    assert weight.grad is not None


def test_a_parameter_that_was_written_is_cast_again(device_name: str) -> None:
    weight = nn.Parameter(tensor.ones(2, 2, device=device_name))
    x = tensor.ones(2, 2, device=device_name)
    with tensor.autocast(device_name):
        assert (x @ weight).tolist() == [[2.0, 2.0], [2.0, 2.0]]
        with tensor.no_grad():
            weight.mul_(2)
        assert (x @ weight).tolist() == [[4.0, 4.0], [4.0, 4.0]]
        weight.data = tensor.zeros(2, 2, device=device_name)
        assert (x @ weight).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_casts_are_gone_after_the_block(device_name: str) -> None:
    weight = nn.Parameter(tensor.ones(2, 2, device=device_name))
    x = tensor.ones(2, 2, device=device_name)
    with tensor.autocast(device_name):
        x @ weight
        (kept,) = settings.casts.values()
        cast = weakref.ref(kept.result)
        del kept
    gc.collect()
    assert cast() is None


def test_memory_stays_the_same(device: drv.Device) -> None:
    layer = nn.Linear(64, 64, device="cuda")
    x = tensor.ones(8, 64, device="cuda")
    result = []
    for _ in range(4):
        with tensor.autocast("cuda"):
            loss = layer(layer(x)).float().mean()
        loss.backward()
        layer.zero_grad()
        del loss
        gc.collect()
        result.append(tensor.cuda.memory_allocated())
    assert len(set(result[1:])) == 1


@pytest.mark.simulator_only
def test_each_stream_has_its_own_cast() -> None:
    drv.simulator.install(check="race")
    weight = nn.Parameter(tensor.ones(8, 8, device="cuda"))
    x = tensor.ones(8, 8, device="cuda")
    side = tensor.cuda.Stream()
    side.wait_stream(tensor.cuda.current_stream())
    with tensor.autocast("cuda"):
        y = x @ weight
        with tensor.cuda.stream(side):
            z = x @ weight
    tensor.cuda.current_stream().wait_stream(side)
    (y + z).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[16.0] * 8] * 8


# Backward passes


def test_backward_passes_run_without(device_name: str) -> None:
    result = []

    class Watched(tensor.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            result.append(tensor.is_autocast_enabled(device_name))
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            result.append(tensor.is_autocast_enabled(device_name))
            result.append((grad @ grad).dtype)
            return grad * 2

    x = tensor.ones(2, 2, device=device_name, requires_grad=True)
    with tensor.autocast(device_name):
        Watched.apply(x).sum().backward()
        assert tensor.is_autocast_enabled(device_name)
    assert result == [True, False, tensor.float32]


def test_functions_of_ones_own(device_name: str) -> None:
    result: list[Any] = []

    class AsTheBlock(tensor.autograd.Function):
        @staticmethod
        @tensor.amp.custom_fwd(device_type=device_name)
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @tensor.amp.custom_bwd(device_type=device_name)
        def backward(ctx: Any, grad: Any) -> Any:
            a, b = ctx.saved_tensors
            result.append(
                (grad.dtype, tensor.is_autocast_enabled(device_name), tensor.get_autocast_dtype(device_name))
            )
            return (grad @ b.t()).to(a.dtype), (a.t() @ grad).to(b.dtype)

    class InSingle(tensor.autograd.Function):
        @staticmethod
        @tensor.amp.custom_fwd(device_type=device_name, cast_inputs=tensor.float32)
        def forward(ctx: Any, a: Any, more: Any) -> Any:
            result.append(
                (a.dtype, more["b"][0].dtype, more["n"].dtype, tensor.is_autocast_enabled(device_name))
            )
            return a @ more["b"][0]

        @staticmethod
        @tensor.amp.custom_bwd(device_type=device_name)
        def backward(ctx: Any, grad: Any) -> Any:
            result.append((grad.dtype, tensor.is_autocast_enabled(device_name)))
            return grad, None

    a = tensor.ones(2, 2, device=device_name, requires_grad=True)
    half = _half(device_name)
    with tensor.autocast(device_name):
        y = AsTheBlock.apply(a, a)
    assert y.dtype is half
    y.float().sum().backward()
    assert result == [(half, True, half)]
    assert a.grad is not None and a.grad.dtype is tensor.float32
    result.clear()
    more = {"b": [a.detach().to(half)], "n": tensor.ones(1, device=device_name, dtype=tensor.int64)}
    with tensor.autocast(device_name):
        y = InSingle.apply(a.to(half), more)
    assert y.dtype is tensor.float32
    y.sum().backward()
    assert result == [(tensor.float32, tensor.float32, tensor.int64, False), (tensor.float32, False)]
    result.clear()
    # Outside of blocks nothing is done.
    InSingle.apply(a.to(half), more).float().sum().backward()
    assert result == [(half, half, tensor.int64, False), (half, False)]
    with pytest.raises(ValueError, match="Expected `device_type`"):
        tensor.amp.custom_fwd(device_type=1)  # type: ignore[arg-type]


def test_second_derivatives(device_name: str) -> None:
    x = tensor.full((2, 2), 0.5, device=device_name, requires_grad=True)
    with tensor.autocast(device_name):
        loss = (x @ x).float().pow(2).sum()
    (grad,) = tensor.autograd.grad(loss, x, create_graph=True)
    assert grad.dtype is tensor.float32
    grad.sum().backward()
    assert x.grad is not None and x.grad.dtype is tensor.float32


# Training


class Net(nn.Module):
    """Layers of all three kinds of precision."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.rows = nn.LayerNorm(16)
        self.last = nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.norm(self.convolution(x)))
        x = nn.functional.max_pool2d(x, 2).flatten(1)
        return self.last(self.rows(x))


def _data(device: str) -> tuple[Any, Any]:
    generator = tensor.Generator().manual_seed(1)
    t = tensor.arange(12) % 3
    x = tensor.randn(12, 1, 6, 6, generator=generator) * 0.3 + t.reshape(-1, 1, 1, 1) - 1
    return x.to(device), t.to(device)


def test_a_network_learns_with_scaled_losses(device_name: str) -> None:
    tensor.manual_seed(0)
    net = Net().to(device_name)
    optimizer = nn.optim.Adam(net.parameters(), lr=0.03)
    scaler = tensor.amp.GradScaler(device_name, init_scale=2.0**8)
    x, t = _data(device_name)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        with tensor.autocast(device_name):
            y = net(x)
            assert y.dtype is _half(device_name)
            loss = nn.functional.cross_entropy(y, t)
            assert loss.dtype is tensor.float32
        scaler.scale(loss).backward()
        assert {each.grad.dtype for each in net.parameters()} == {tensor.float32}
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert net.norm.running_mean.dtype is tensor.float32


def test_training_follows_that_in_single_precision(device_name: str) -> None:
    x, t = _data(device_name)
    losses: dict[bool, list[float]] = {}
    for enabled in (True, False):
        tensor.manual_seed(0)
        net = Net().to(device_name)
        optimizer = nn.optim.SGD(net.parameters(), lr=0.1)
        losses[enabled] = []
        for _ in range(3):
            optimizer.zero_grad()
            with tensor.autocast(device_name, enabled=enabled):
                loss = nn.functional.cross_entropy(net(x), t)
            loss.backward()
            optimizer.step()
            losses[enabled].append(loss.item())
    assert losses[True] == pytest.approx(losses[False], rel=0.05)
    assert losses[True] != losses[False]


def test_accumulated_gradients_in_one_block(device_name: str) -> None:
    layer = nn.Linear(3, 3, device=device_name)
    x = tensor.ones(2, 3, device=device_name)
    with tensor.autocast(device_name):
        for _ in range(3):
            layer(x).float().sum().backward()
    assert layer.bias.grad.tolist() == [6.0] * 3


#: Layers, shapes of their inputs, and what they give on the CPU and on a CUDA device: (h)alf or (s)ingle precision.
LAYERS: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]], str]] = {
    "recurrent": (lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True), [(5, 2, 3)], "hh"),
    "gated": (lambda: nn.GRU(3, 4), [(5, 2, 3)], "hh"),
    "cell": (lambda: nn.RNNCell(3, 4), [(2, 3)], "hh"),
    "attention": (lambda: nn.MultiheadAttention(4, 2), [(3, 2, 4)] * 3, "hh"),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8), [(3, 2, 4)], "ss"),
    "batch norm": (lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4)), [(2, 3, 5)], "hh"),
    "group norm": (lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.GroupNorm(2, 4)), [(2, 3, 5)], "hs"),
    "bilinear": (lambda: nn.Bilinear(3, 3, 2), [(2, 3)] * 2, "ss"),
    "rectifier": (lambda: nn.PReLU(), [(2, 3)], "hh"),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.sampled(4)
def test_layers(device_name: str, name: str) -> None:
    make, shapes, kinds = LAYERS[name]
    layer = make().to(device_name)
    inputs = [tensor.ones(*shape, device=device_name, requires_grad=True) for shape in shapes]
    with tensor.autocast(device_name):
        result = layer(*inputs)
        result = result[0] if isinstance(result, tuple) else result
    assert result.dtype is {"h": _half(device_name), "s": tensor.float32}[kinds[device_name == "cuda"]]
    result.float().sum().backward()
    actual = [each.grad for each in (*layer.parameters(), *inputs)]
    assert all(grad is not None and grad.dtype is tensor.float32 for grad in actual)
