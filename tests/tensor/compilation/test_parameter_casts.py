"""Casts of parameters that the optimizer writes: they are those of the parameters, whoever has written to these."""

from __future__ import annotations

import copy
import gc
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from tensor.core import parameter_casts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("schedule", "alone")

_SOURCE = """
extern "C" __global__ void halve(float* x, long long n) {
    for (long long i = threadIdx.x; i < n; i += blockDim.x) x[i] *= 0.5f;
}
"""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of a process that has never been one of a group."""
    monkeypatch.setattr(parameter_casts, "_trust", parameter_casts._Trust())
    yield
    gc.collect()
    assert not parameter_casts.by_storage, "casts of functions that are gone"


class _Training:
    """Steps of a perceptron under autocast, as they are and compiled, which have to be the same."""

    def __init__(self, optimizer: Callable[..., Any] = nn.optim.AdamW, dtype: Any = tensor.bfloat16) -> None:
        tensor.manual_seed(3)
        first = nn.Sequential(nn.Linear(6, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 5)).cuda()
        self.models = [first, copy.deepcopy(first)]
        self.optimizers = [optimizer(model.parameters(), lr=0.05) for model in self.models]
        self.x = tensor.randn(7, 6, device="cuda")
        self.steps = [self._step(*pair, dtype) for pair in zip(self.models, self.optimizers, strict=True)]
        self.compiled: Any = tensor.compile(self.steps[1], fullgraph=True)

    @staticmethod
    def _step(model: Any, optimizer: Any, dtype: Any) -> Callable[[Any], Any]:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            with tensor.autocast("cuda", dtype=dtype):
                loss = model(x).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    def run(self, count: int = 2) -> None:
        """Do ``count`` steps of both."""
        for _ in range(count):
            losses = [self.steps[0](self.x), self.compiled(self.x)]
            tensor.testing.assert_close(losses[1], losses[0], rtol=1e-2, atol=1e-4)
        for one, other in zip(*(model.parameters() for model in self.models), strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)

    def kept(self) -> list[Any]:
        """The casts that are kept, of parameters that still are what they were cast from."""
        return [
            one.target
            for parameter in self.models[1].parameters()
            if (one := parameter_casts.by_storage.get(parameter._storage)) is not None
            and one.is_right(parameter)
        ]

    def check(self) -> None:
        """Each cast that is kept is the parameter's."""
        for parameter in self.models[1].parameters():
            one = parameter_casts.by_storage.get(parameter._storage)
            if one is not None and one.is_right(parameter):
                target = one.target
                assert tensor.equal(target, parameter.detach().to(target.dtype))

    def cast_launches(self) -> int:
        """How many launches of a compiled step cast parameters."""
        tensor.cuda.synchronize()
        with drv.simulator.timed() as timing:
            self.compiled(self.x)
            tensor.cuda.synchronize()
        self.steps[0](self.x)
        return sum("cast_tensors" in each.name for each in timing.operations)


@pytest.mark.parametrize("dtype", [tensor.bfloat16, tensor.float16])
@pytest.mark.parametrize("optimizer", [nn.optim.AdamW, nn.optim.SGD, nn.optim.RMSprop, nn.optim.Adagrad])
@pytest.mark.sampled(8)
def test_later_steps_cast_nothing(optimizer: Any, dtype: Any) -> None:
    training = _Training(optimizer, dtype)
    training.run(3)
    # Weights and biases of two linear layers.
    assert len(training.kept()) == 4
    training.check()
    assert training.cast_launches() == 0
    assert "4 casts to" in training.compiled.explain(training.x)
    training.run(2)


_WRITES: dict[str, Callable[[Any, Any], None]] = {
    "data": lambda model, _: model[0].weight.data.mul_(0.5),
    "in place": lambda model, _: _unrecorded(lambda: model[0].weight.mul_(0.5)),
    "copy": lambda model, _: _unrecorded(lambda: model[0].weight.copy_(model[0].weight * 0.5)),
    "a view": lambda model, _: _unrecorded(lambda: model[0].weight[2:4].zero_()),
    "initialization": lambda model, _: nn.init.constant_(model[3].weight, 0.25),
    "state": lambda model, _: model.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()}),
    "another storage": lambda model, _: setattr(model[0].weight, "data", model[0].weight.data * 0.5),
    "storage": lambda model, _: model[0].weight.data._storage.fill_(0),
    "eager step": lambda _, optimizer: optimizer.step(),
    "clipping": lambda model, _: nn.utils.vector_to_parameters(
        nn.utils.parameters_to_vector(model.parameters()) * 0.5, model.parameters()
    ),
    "a kernel": lambda model, _: tensor.cuda.RawKernel(_SOURCE, "halve")(
        1, 32, (model[0].weight.data, model[0].weight.numel())
    ),
    "another library": lambda model, _: tensor.from_dlpack(model[0].weight.detach()).mul_(0.5),
    "an array": lambda model, _: tensor.as_tensor(_Array(model[0].weight.detach()), device="cuda").mul_(0.5),
}


class _Array:
    """What has nothing but the address of a tensor."""

    def __init__(self, x: Any) -> None:
        self.__cuda_array_interface__ = x.__cuda_array_interface__


def _unrecorded(function: Callable[[], Any]) -> None:
    with tensor.no_grad():
        function()


@pytest.mark.parametrize("write", _WRITES)
@pytest.mark.sampled(4)
def test_whatever_writes_to_parameters(write: str) -> None:
    training = _Training()
    training.run(3)
    for _ in range(2):
        for model, optimizer in zip(training.models, training.optimizers, strict=True):
            _WRITES[write](model, optimizer)
        training.check()
        training.run(2)
        training.check()


def test_an_address_that_is_known_from_before() -> None:
    """Once somebody knows where a parameter is, all are cast at each step: he may write there at any time."""
    training = _Training()
    addresses = [model[0].weight.data_ptr() for model in training.models]
    training.run(3)
    assert not training.kept()
    kernel = tensor.cuda.RawKernel(_SOURCE, "halve")
    for _ in range(2):
        for address in addresses:
            kernel(1, 32, (address, 240))
        training.run(2)
    assert training.cast_launches() == 1


def test_a_graph_that_writes_to_parameters() -> None:
    training = _Training()
    training.run(3)
    assert training.kept()
    graphs = []
    for model in training.models:
        with tensor.no_grad():
            side = tensor.cuda.Stream()
            side.wait_stream(tensor.cuda.current_stream())
            graph = tensor.cuda.CUDAGraph()
            with tensor.cuda.stream(side), tensor.cuda.graph(graph, stream=side):
                model[0].weight.mul_(0.5)
            tensor.cuda.current_stream().wait_stream(side)
        graphs.append(graph)
    for _ in range(2):
        for graph in graphs:
            graph.replay()
        training.run(2)


def test_a_process_of_a_group_casts_at_each_step() -> None:
    training = _Training()
    training.run(3)
    parameter_casts.group_of_processes_begins()
    assert training.cast_launches() == 1
    training.run(2)


def test_what_is_read_after_the_step_is_cast_before_it() -> None:
    """A cast that something reads once the optimizer has written is that of before."""
    tensor.manual_seed(5)
    weight = tensor.randn(6, 6, device="cuda", requires_grad=True)
    optimizer = nn.optim.SGD([weight], lr=0.5)
    bias = tensor.randn(6, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        half, half_bias = weight.detach().bfloat16(), bias.detach().bfloat16()
        weight.grad = None
        (x @ weight).square().mean().backward()
        optimizer.step()
        return (half + half_bias) * 2

    compiled = tensor.compile(step, fullgraph=True)
    x = tensor.randn(3, 6, device="cuda")
    for _ in range(4):
        before = weight.detach().clone()
        expected = (before.bfloat16() + bias.detach().bfloat16()) * 2
        assert tensor.equal(compiled(x), expected)
        assert not tensor.equal(weight, before)


def test_nothing_is_left_of_a_function_that_is_gone() -> None:
    """Its casts go with it, and the optimizer goes on."""
    training = _Training()
    training.run(3)
    before = tensor.cuda.memory_allocated()
    targets = sum(each.nbytes for each in training.kept())
    training.compiled.forget()
    gc.collect()
    assert tensor.cuda.memory_allocated() <= before - targets
    training.compiled = training.steps[1]
    training.run(2)


@pytest.mark.parametrize("count", [1, 7, 1024, 4099])
def test_steps_write_the_cast_of_what_they_write(count: int) -> None:
    """Elements of tensors of any size, also where some have no cast."""
    tensor.manual_seed(1)
    parameters = [nn.Parameter(tensor.randn(size, device="cuda")) for size in (count, 3, 2 * count + 1)]
    twins = [nn.Parameter(each.detach().clone()) for each in parameters]
    for each, twin in zip(parameters, twins, strict=True):
        each.grad = tensor.randn_like(each)
        twin.grad = each.grad.clone()
    targets = [each.detach().half() for each in parameters[::2]]
    parameter_casts.register(parameters[::2], targets)
    for those in (parameters, twins):
        nn.optim.AdamW(those, lr=0.1).step()
    for each, twin in zip(parameters, twins, strict=True):
        assert tensor.equal(each, twin)
    for each, target in zip(parameters[::2], targets, strict=True):
        assert tensor.equal(target, each.detach().half())
        assert parameter_casts.by_storage[each._storage].is_right(each)
