"""``mode="reduce-overhead"``: what is compiled is replayed as CUDA graphs, and gives what it gives without."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from nn import functional
from tensor import cuda
from tests.tensor.compilation.test_train_step import _GPT, _pairs, _Perceptron, _Residual, _texts
from tests.tensor.cuda.test_cuda_graph import schedules  # noqa: F401
from tests.tensor.driver_calls import counted

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator_only

MODE = "reduce-overhead"


def _replayed(function: Any, **options: Any) -> Any:
    return tensor.compile(function, mode=MODE, fullgraph=True, **options)


def _chain(x: Any, y: Any) -> Any:
    """Steps that are not fused into one: three sums of which each needs the last one."""
    for _ in range(3):
        x = (x - x.sum(1, keepdim=True)).sin()
    return x * y


def _graphs(call: Callable[[], Any]) -> int:
    """How many graphs a call launches."""
    with counted() as calls:
        call()
    return calls["cuGraphLaunch"]


def _is_replayed(function: Any, *args: Any) -> bool:
    return "are replayed as a CUDA graph" in function.explain(*args)


# Training


def _losses(make: Callable[[], Any], batches: list[Any], how: str, **options: Any) -> tuple[list[Any], int]:
    """Losses and what is left at the model after steps on ``batches``, and how many graphs were launched."""
    tensor.manual_seed(3)
    model = make().cuda()
    optimizer = nn.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def loss_of(x: Any, y: Any) -> Any:
        return model(x, y)

    forward = _replayed(loss_of) if how == "parts" else loss_of

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach() if how == "whole" else loss

    run = _replayed(step) if how == "whole" else step
    losses = [run(*batches[0])]
    with counted() as calls:
        losses += [run(x, y) for x, y in batches[1:]]
    gradients = [x.grad for x in model.parameters()]
    return [*losses, *model.parameters(), *model.buffers(), *gradients], calls["cuGraphLaunch"]


@pytest.mark.parametrize("how", ["parts", "whole"])
def test_a_training(schedules: None, how: str) -> None:  # noqa: F811
    batches = _pairs(6)
    expected, _ = _losses(_Perceptron, batches, "eager")
    results, launches = _losses(_Perceptron, batches, how)
    assert all(tensor.equal(one, other) for one, other in zip(results, expected, strict=True))
    # The first call is recorded, the second warms up, the third is captured; backward follows a replay later.
    assert launches == (4 + 3 if how == "parts" else 4)


@pytest.mark.parametrize("how", ["parts", "whole"])
@pytest.mark.parametrize("name", ["gpt", pytest.param("residual", marks=pytest.mark.nightly)])
def test_larger_models(name: str, how: str) -> None:
    """Under autocast; batch norms count."""
    drv.simulator.install(schedule="lazy", check="full", memory="2GiB")
    make: Any = {"gpt": _GPT, "residual": _Residual}[name]
    batches = (
        _texts(5)
        if name == "gpt"
        else [
            (tensor.randn(2, 2, 4, 4, device="cuda"), tensor.randint(0, 3, (2,), device="cuda"))
            for _ in range(5)
        ]
    )
    expected, _ = _losses(make, batches, "eager")
    results, launches = _losses(make, batches, how)
    # Gradients of weights in half precision are added up in another order.
    tolerance = 2e-2 if name == "gpt" else 0
    for one, other in zip(results, expected, strict=True):
        tensor.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert launches == (3 + 2 if how == "parts" else 3)


def test_gradients_that_are_added_up(schedules: None) -> None:  # noqa: F811
    """A gradient that is at its leaf is not written to by the next replay; from then on replays copy it."""
    tensor.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), nn.LayerNorm(3)).cuda()
    reference = copy.deepcopy(model)
    compiled = _replayed(model.forward)
    for step in range(8):
        x = tensor.randn(4, 6, device="cuda")
        with counted() as calls:
            compiled(x).square().mean().backward()
        reference(x).square().mean().backward()
        for one, other in zip(model.parameters(), reference.parameters(), strict=True):
            assert tensor.equal(one.grad, other.grad), step
    assert calls["cuGraphLaunch"] == 2


def test_backward_passes_that_come_later(schedules: None) -> None:  # noqa: F811
    """What a backward pass needs is not written to before; passes in any order, and several times."""
    weight = tensor.linspace(-1, 1, 8, device="cuda").requires_grad_()
    compiled = _replayed(lambda x: _chain(x * weight, weight))
    xs = [tensor.full((4, 8), 0.1 * number, device="cuda") for number in range(4)]
    expected = [tensor.autograd.grad(_chain(x * weight, weight).sum(), weight)[0] for x in xs]
    for _ in range(3):
        for x, each in zip(xs, expected, strict=True):
            result = compiled(x).sum()
            (first,) = tensor.autograd.grad(result, weight, retain_graph=True)
            (second,) = tensor.autograd.grad(result, weight)
            assert tensor.equal(first, each)
            assert tensor.equal(second, each)
        results = [compiled(x).sum() for x in xs]
        for result, each in reversed([*zip(results, expected, strict=True)]):
            assert tensor.equal(tensor.autograd.grad(result, weight)[0], each)
    assert _is_replayed(compiled, xs[0])


def test_second_derivatives(schedules: None) -> None:  # noqa: F811
    weight = tensor.linspace(-1, 1, 8, device="cuda").requires_grad_()
    compiled = _replayed(lambda x: _chain(x * weight, weight))

    def second(function: Any, x: Any) -> Any:
        (first,) = tensor.autograd.grad(function(x).sum(), weight, create_graph=True)
        return tensor.autograd.grad(first.square().sum(), weight)[0]

    x = tensor.ones(4, 8, device="cuda")
    expected = second(lambda x: _chain(x * weight, weight), x)
    for _ in range(4):
        assert tensor.allclose(second(compiled, x), expected)


# What goes in


def test_arguments_are_read_wherever_they_are(schedules: None) -> None:  # noqa: F811
    compiled = _replayed(_chain)
    base = tensor.randn(20, 8, device="cuda")
    y = tensor.randn(4, 1, device="cuda")
    shown = [base[:4], base[4:8], base[8:12].clone(), base[12:16]]
    for x in (*shown, *shown):
        assert tensor.equal(compiled(x, y.expand(4, 8)), _chain(x, y))
    for x in (base.t()[:4, 3:11], base.t()[4:, 1:9], base.t()[:4, :8], base.t()[2:6, :8]):
        assert tensor.equal(compiled(x, y.expand(4, 8)), _chain(x, y))
    # The third for memory that does not begin at a multiple of 16 bytes.
    assert compiled.programs == 3
    assert _is_replayed(compiled, base[:4], y.expand(4, 8))


def test_an_argument_that_shares_memory_with_another() -> None:
    drv.simulator.install(schedule="lazy", check="full")
    compiled = _replayed(_chain)
    for number in range(5):
        x = tensor.full((4, 16), 0.1 * number, device="cuda")
        assert tensor.equal(compiled(x[:, :8], x[:, 8:]), _chain(x[:, :8], x[:, 8:]))
    text = compiled.explain(x[:, :8], x[:, 8:])
    assert "are no CUDA graph: what it reads is not all of what one argument shows" in text


def test_what_is_written_in_place(schedules: None) -> None:  # noqa: F811
    """Arguments and buffers are, and count that; a backward pass that needs their former contents is an error."""
    total = tensor.zeros(8, device="cuda")

    def function(x: Any) -> Any:
        y = _chain(x, x)
        x.mul_(0.5)
        total.add_(y.sum(0))
        return y.sum()

    compiled = _replayed(function)
    expected = tensor.zeros(8, device="cuda")
    for number in range(6):
        x = tensor.full((4, 8), 0.1 * number, device="cuda")
        other, version, version_of_total = x.clone(), x._version, total._version
        assert tensor.equal(compiled(x), _chain(other, other).sum())
        expected += _chain(other, other).sum(0)
        assert tensor.equal(x, other * 0.5)
        assert tensor.equal(total, expected)
        assert (x._version, total._version) == (version + 1, version_of_total + 1)
        y = x.detach().requires_grad_().exp()
        compiled(y.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        total.copy_(expected)
    assert _is_replayed(compiled, x)


def test_parameters_that_move() -> None:
    """They are read where they are; a graph is captured anew, up to a limit."""
    drv.simulator.install(schedule="lazy", check="full")
    layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8)).cuda()
    compiled = _replayed(layers.forward)
    x = tensor.randn(2, 8, device="cuda")
    kept = []
    with tensor.no_grad():
        for _ in range(9):
            for _ in range(3):
                assert tensor.equal(compiled(x), layers(x))
            assert _graphs(lambda: compiled(x)) == (len(kept) < 8)
            kept.append(layers[0].weight.data)
            layers[0].weight.data = tensor.randn(8, 8, device="cuda")
            assert tensor.equal(compiled(x), layers(x))
        assert "it was captured 8 times" in compiled.explain(x)
    assert compiled.programs == 1


# What comes out


def test_results_are_the_callers(schedules: None) -> None:  # noqa: F811
    """Later calls do not write to them, also where they are views, or read by another stream."""
    compiled = _replayed(lambda x: (_chain(x, x), _chain(x, 2 * x).t()[1:]))
    side = cuda.Stream()
    results, doubled, expected = [], [], []
    for number in range(6):
        x = tensor.full((4, 8), 0.1 * number, device="cuda")
        results.append(compiled(x))
        expected.append((_chain(x, x), _chain(x, 2 * x).t()[1:]))
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            doubled.append(results[-1][0] * 2)
    cuda.current_stream().wait_stream(side)
    for one, twice, other in zip(results, doubled, expected, strict=True):
        assert tensor.equal(one[0], other[0])
        assert tensor.equal(one[1], other[1])
        assert tensor.equal(twice, 2 * other[0])
        assert one[1].stride() == other[1].stride()
    assert _is_replayed(compiled, x)


def test_calls_on_several_streams(schedules: None) -> None:  # noqa: F811
    """A replay does not begin while the last one is carried out elsewhere."""
    weight = tensor.linspace(-1, 1, 8, device="cuda").requires_grad_()
    compiled = _replayed(lambda x: _chain(x * weight, weight))
    xs = [tensor.full((4, 8), 0.1 * number, device="cuda") for number in range(6)]
    streams = [cuda.current_stream(), cuda.Stream(), cuda.Stream()]
    for each in streams[1:]:
        each.wait_stream(streams[0])
    gradients = []
    for number, x in enumerate(xs):
        with cuda.stream(streams[number % 3]):
            gradients.append(tensor.autograd.grad(compiled(x).sum(), weight)[0])
    for each in streams[1:]:
        streams[0].wait_stream(each)
    for x, each in zip(xs, gradients, strict=True):
        assert tensor.equal(each, tensor.autograd.grad(_chain(x * weight, weight).sum(), weight)[0])
    assert _is_replayed(compiled, xs[0])


def test_gradients_that_another_stream_reads(schedules: None) -> None:  # noqa: F811
    """``record_stream`` has the next replay wait."""
    weight = tensor.linspace(-1, 1, 8, device="cuda").requires_grad_()
    compiled = _replayed(lambda x: _chain(x * weight, weight))
    side, sums = cuda.Stream(), []
    xs = [tensor.full((4, 8), 0.1 * number, device="cuda") for number in range(6)]
    for x in xs:
        (gradient,) = tensor.autograd.grad(compiled(x).sum(), weight)
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            sums.append(gradient * 2)
        gradient.record_stream(side)
        del gradient
    cuda.current_stream().wait_stream(side)
    for x, each in zip(xs, sums, strict=True):
        assert tensor.equal(each, 2 * tensor.autograd.grad(_chain(x * weight, weight).sum(), weight)[0])


# Random numbers


def test_random_numbers(schedules: None) -> None:  # noqa: F811
    """Those of eager execution, forward and backward, between others, and after the generator was seeded."""
    weight = tensor.ones(4, 8, device="cuda", requires_grad=True)
    generator = tensor.Generator("cuda")

    def function(x: Any) -> Any:
        x = _chain(functional.dropout(x * weight, 0.5, True), x)
        return functional.dropout(x, 0.3, True) + tensor.rand(4, 8, device="cuda", generator=generator)

    def run(function: Any) -> list[Any]:
        results = []
        tensor.manual_seed(2)
        generator.manual_seed(3)
        for number in range(7):
            result = function(tensor.full((4, 8), 0.1 * number, device="cuda"))
            results += [result.detach(), *tensor.autograd.grad(result.sum(), weight)]
            for _ in range(number % 3):
                results.append(tensor.rand(3, device="cuda"))
            if number == 4:
                tensor.manual_seed(number)
        return results

    compiled = _replayed(function)
    expected = run(function)
    assert all(tensor.equal(one, other) for one, other in zip(run(compiled), expected, strict=True))
    assert all(tensor.equal(one, other) for one, other in zip(run(compiled), expected, strict=True))
    assert _is_replayed(compiled, tensor.zeros(4, 8, device="cuda"))


# Modes, and what is not replayed


def test_modes_are_signatures(schedules: None) -> None:  # noqa: F811
    layers = nn.Sequential(
        nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Softmax(1)
    ).cuda()
    reference = copy.deepcopy(layers)
    compiled = _replayed(layers.forward)
    x = tensor.randn(4, 8, device="cuda")
    for _ in range(4):
        for training in (True, False):
            for recording in (True, False):
                layers.train(training)
                reference.train(training)
                with tensor.set_grad_enabled(recording):
                    state = cuda.get_rng_state()
                    expected = reference(x)
                    cuda.set_rng_state(state)
                    result = compiled(x)
                assert tensor.equal(result, expected)
                assert result.requires_grad is recording
    assert all(tensor.equal(a, b) for a, b in zip(layers.buffers(), reference.buffers(), strict=True))
    assert _is_replayed(compiled, x)


def test_a_graph_of_the_programs_own(schedules: None) -> None:  # noqa: F811
    """What is replayed becomes part of it, launch by launch."""
    compiled = _replayed(_chain)
    x = tensor.ones(4, 8, device="cuda")
    for _ in range(4):
        compiled(x, x)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = compiled(x, x)
    x.fill_(0.3)
    g.replay()
    assert tensor.equal(y, _chain(x, x))
    assert tensor.equal(compiled(x, x), y)


def test_without_private_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs as in the default mode, and ``explain`` says why."""
    drv.simulator.install()
    compiled = _replayed(_chain)

    def refuse(*_: Any) -> None:
        raise drv.NotSupportedError("no private pools here\nwhile memory is guarded")

    x = tensor.zeros(4, 8, device="cuda")
    monkeypatch.setattr(type(x._layout.device_state.allocator), "begin_pool", refuse)
    for number in range(4):
        x = tensor.full((4, 8), 0.1 * number, device="cuda")
        assert tensor.equal(compiled(x, x), _chain(x, x))
    assert "6 calls are no CUDA graph: no private pools here\n" in compiled.explain(x, x) + "\n"


def test_memory_that_a_capture_does_not_get() -> None:
    drv.simulator.install(memory="64MiB")
    compiled = _replayed(_chain)
    x = tensor.ones(256, 256, device="cuda")
    for _ in range(2):
        compiled(x, x)
    filling = []
    with pytest.raises(drv.OutOfMemoryError):
        while True:
            filling.append(tensor.empty(1 << 20, dtype=tensor.uint8, device="cuda"))
    expected = _chain(x, x) if filling.pop() is not None else None
    del filling[-2:]
    assert tensor.equal(compiled(x, x), expected)
    assert "calls are no CUDA graph: " in compiled.explain(x, x)


def test_few_calls_and_the_host_are_left_alone() -> None:
    drv.simulator.install()
    compiled = _replayed(lambda x: x * 2 + 1)
    x = tensor.ones(4, device="cuda")
    for _ in range(4):
        assert _graphs(lambda: compiled(x)) == 0
    on_host = _replayed(_chain)
    y = tensor.ones(4, 8)
    for _ in range(4):
        assert tensor.equal(on_host(y, y), _chain(y, y))


def _module_level(x: Any) -> Any:
    return _chain(x, x)


def test_copies_and_pickles_keep_the_mode() -> None:
    drv.simulator.install()
    x = tensor.ones(4, 8, device="cuda")
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Softmax(1)).cuda()
    model.compile(mode=MODE)
    compiled = _replayed(_module_level)
    with tensor.no_grad():
        for each in (
            compiled,
            copy.deepcopy(compiled),
            pickle.loads(pickle.dumps(compiled)),
            copy.deepcopy(model),
        ):
            for _ in range(3):
                each(x)
            assert _graphs(lambda each=each: each(x)) == 1
            assert _graphs(lambda: _module_level(x)) == 0


def test_options_ask_for_it_too() -> None:
    drv.simulator.install()
    x = tensor.ones(4, 8, device="cuda")
    for wants, options in ((1, {"triton.cudagraphs": True}), (0, {"triton.cudagraphs": False})):
        compiled = tensor.compile(_module_level, options=options)
        for _ in range(3):
            compiled(x)
        assert _graphs(lambda compiled=compiled: compiled(x)) == wants
    for wants, mode in ((1, "max-autotune"), (0, "max-autotune-no-cudagraphs"), (0, "default")):
        compiled = tensor.compile(_module_level, mode=mode)
        for _ in range(3):
            compiled(x)
        assert _graphs(lambda compiled=compiled: compiled(x)) == wants


def test_memory_goes_back() -> None:
    drv.simulator.install()
    x = tensor.ones(256, 256, device="cuda")
    before = cuda.memory_allocated()
    compiled = _replayed(_module_level)
    for _ in range(4):
        compiled(x)
    assert cuda.memory_allocated() > before
    compiled.forget()
    gc.collect()
    assert cuda.memory_allocated() == before
    cuda.empty_cache()
    assert cuda.memory_reserved() < 8 << 20


def test_threads() -> None:
    """Each call gives its own result, whoever's replay is under way."""
    drv.simulator.install()
    weight = tensor.linspace(-1, 1, 8, device="cuda").requires_grad_()
    compiled = _replayed(lambda x: _chain(x * weight, weight))
    failures: list[Any] = []

    def work(number: int) -> None:
        x = tensor.full((4, 8), 0.1 * number, device="cuda")
        (expected,) = tensor.autograd.grad(_chain(x * weight, weight).sum(), weight)
        with cuda.stream(cuda.Stream()):
            for _ in range(10):
                (result,) = tensor.autograd.grad(compiled(x).sum(), weight)
                if not tensor.equal(result, expected):
                    failures.append(number)

    compiled(tensor.ones(4, 8, device="cuda")).sum().backward()
    cuda.synchronize()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def test_a_replay_is_few_calls_of_the_driver() -> None:
    """Arguments in, the graph, results out."""
    drv.simulator.install()
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(4))
    ).cuda()
    compiled = _replayed(model.forward)
    x = tensor.randn(4, 8, device="cuda")
    with tensor.no_grad():
        for _ in range(3):
            compiled(x)
        with counted() as calls, drv.simulator.timed(results=False) as timing:
            compiled(x)
        steps = int(compiled.explain(x).partition(" calls are replayed")[0].rpartition(" ")[2])
    # Launches look the driver up when they are planned, and are counted as what they do.
    assert calls == {"cuGraphLaunch": 1}
    assert len(timing.operations) == steps + 2
