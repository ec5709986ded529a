"""Random numbers of replays are those that the program without a graph would draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from tensor import cuda
from tests.tensor.cuda.test_cuda_graph import schedules  # noqa: F401
from tests.tensor.driver_calls import counted

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator_only

P = 0.4
#: Numbers that a program draws after each replay of a graph.
_DRAWN = (0, 2, 2, 2, 0, 3, 3)
DRAWS: dict[str, Callable[[Any], Any]] = {
    "rand": tensor.rand_like,
    "randn": tensor.randn_like,
    "randint": lambda x: tensor.randint_like(x, 0, 100),
    "strided": lambda x: tensor.empty(16, 8, device="cuda").t().normal_(),
    "double": lambda x: tensor.rand(33, dtype=tensor.float64, device="cuda"),
    "exponential": lambda x: tensor.empty_like(x).exponential_(),
    "bernoulli": lambda x: tensor.bernoulli(x.sigmoid()),
    "bernoulli_": lambda x: tensor.empty_like(x).bernoulli_(0.3),
    "normal": lambda x: tensor.normal(x, 2.0),
    "dropout": lambda x: nn.functional.dropout(x, P, True),
    "dropout2d": lambda x: nn.functional.dropout2d(x.view(2, 4, 4, 4), P, True),
    "alpha_dropout": lambda x: nn.functional.alpha_dropout(x, P, True),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(
        *(x.view(1, 2, 8, 8) * k for k in (1, 2, 3)), dropout_p=P
    ),
    "rrelu": lambda x: nn.functional.rrelu(x, training=True),
    "gumbel_softmax": lambda x: nn.functional.gumbel_softmax(x),
}


@pytest.mark.parametrize("name", DRAWS)
def test_replays_draw_what_the_program_would_draw_next(name: str) -> None:
    drv.simulator.install(schedule="lazy", check="full")
    x = tensor.linspace(-2, 2, 128, device="cuda").view(8, 16)
    draw = DRAWS[name]
    draw(x)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = draw(x)
        z = draw(x)
    tensor.manual_seed(3)
    expected = [draw(x).cpu() for _ in range(8)]
    end = cuda.get_rng_state()
    tensor.manual_seed(3)
    for number in range(0, 8, 2):
        g.replay()
        assert tensor.equal(y.cpu(), expected[number])
        assert tensor.equal(z.cpu(), expected[number + 1])
    assert not tensor.equal(expected[0], expected[2])
    # And the generator has moved on by as much.
    assert tensor.equal(cuda.get_rng_state(), end)


def test_replays_between_other_draws_and_other_graphs(schedules: None) -> None:  # noqa: F811
    x = tensor.ones(64, device="cuda")
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(first):
        a = tensor.rand_like(x)
    with cuda.graph(second):
        b = tensor.rand_like(x)
        c = tensor.rand_like(x)
    tensor.manual_seed(11)
    expected = [tensor.rand_like(x).tolist() for _ in range(9)]
    tensor.manual_seed(11)
    got = []
    first.replay()
    got.append(a.tolist())
    first.replay()
    got.append(a.tolist())
    got.append(tensor.rand_like(x).tolist())
    second.replay()
    got += [b.tolist(), c.tolist()]
    first.replay()
    got.append(a.tolist())
    second.replay()
    got += [b.tolist(), c.tolist()]
    got.append(tensor.rand_like(x).tolist())
    assert got == expected
    tensor.manual_seed(11)
    first.replay()
    assert a.tolist() == expected[0]


def test_what_a_replay_after_other_draws_takes() -> None:
    """One call that tells the executable graph where the generator stands, and none where it moves on as it did before."""
    drv.simulator.install(schedule="lazy")
    x = tensor.ones(64, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = nn.functional.dropout(x, 0.5, True)
    g.replay()  # prepares what tells it
    tensor.manual_seed(7)
    expected = [
        (nn.functional.dropout(x, 0.5, True), [tensor.rand_like(x) for _ in range(n)])[0] for n in _DRAWN
    ]
    tensor.manual_seed(7)
    calls = []
    for count, each in zip(_DRAWN, expected, strict=True):
        with counted() as of_replay:
            g.replay()
        assert of_replay.pop("cuGraphLaunch") == 1
        calls.append(dict(of_replay))
        assert tensor.equal(y, each)
        for _ in range(count):
            tensor.rand_like(x)
    tells = {"cuGraphExecKernelNodeSetParams": 1}
    assert calls == [tells, {}, tells, {}, {}, tells, tells]


def test_a_graph_that_is_made_executable_anew(schedules: None) -> None:  # noqa: F811
    x = tensor.ones(64, device="cuda")
    g = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(g):
        y = tensor.rand_like(x)
    tensor.manual_seed(12)
    expected = [tensor.rand_like(x).tolist() for _ in range(4)]
    tensor.manual_seed(12)
    for number, each in enumerate(expected):
        if number % 2 == 0:
            g.instantiate()
        g.replay()
        assert y.tolist() == each


def test_memory_that_was_free_when_the_first_number_was_drawn(schedules: None) -> None:  # noqa: F811
    """Where a replay begins to draw is written before anything else, and stays."""
    x = tensor.ones(6, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x
        for _ in range(10):
            # Blocks of the pool, free again by now, of the size that such a thing would have.
            y = y + 1
        z = nn.functional.dropout(y, 0.5, True) + tensor.rand_like(y)
    tensor.manual_seed(8)
    expected = [(nn.functional.dropout(x + 10, 0.5, True) + tensor.rand_like(x)).tolist() for _ in range(4)]
    tensor.manual_seed(8)
    for each in expected:
        g.replay()
        assert z.tolist() == each


def test_the_capture_itself_draws_nothing(schedules: None) -> None:  # noqa: F811
    tensor.manual_seed(5)
    before = cuda.get_rng_state()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        tensor.rand(5, device="cuda")
    assert tensor.equal(cuda.get_rng_state(), before)


def test_a_generator_of_ones_own_on_several_streams(schedules: None) -> None:  # noqa: F811
    generator, side = tensor.Generator("cuda"), cuda.Stream()
    g = cuda.CUDAGraph()
    g.register_generator_state(generator)
    with cuda.graph(g):
        a = tensor.rand(50, device="cuda", generator=generator)
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            b = tensor.rand(50, device="cuda", generator=generator)
        cuda.current_stream().wait_stream(side)
        c = tensor.rand(50, device="cuda")
    generator.manual_seed(2)
    tensor.manual_seed(4)
    expected = [tensor.rand(50, device="cuda", generator=generator).tolist() for _ in range(4)]
    others = [tensor.rand(50, device="cuda").tolist() for _ in range(2)]
    generator.manual_seed(2)
    tensor.manual_seed(4)
    for number in range(2):
        g.replay()
        cuda.synchronize()
        assert [a.tolist(), b.tolist()] == expected[2 * number : 2 * number + 2]
        assert c.tolist() == others[number]


def test_gradients_drop_what_the_forward_pass_of_the_replay_dropped(schedules: None) -> None:  # noqa: F811
    x = tensor.ones(256, device="cuda", requires_grad=True)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = nn.functional.dropout(x, 0.5, True)
        (grad,) = tensor.autograd.grad(y.sum(), x)
    masks = []
    for _ in range(3):
        g.replay()
        assert tensor.equal(grad, y)
        masks.append(y.detach().tolist())
    assert masks[0] != masks[1] != masks[2]


def test_checkpoints_draw_the_same_again(schedules: None) -> None:  # noqa: F811
    x = tensor.ones(64, device="cuda", requires_grad=True)

    def work(x: Any) -> Any:
        return nn.functional.dropout(x * 2, 0.5, True)

    def run() -> tuple[Any, Any]:
        y = tensor.utils.checkpoint.checkpoint(work, x, use_reentrant=False)
        (grad,) = tensor.autograd.grad(y.sum(), x)
        return y.detach(), grad

    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        run()
    cuda.current_stream().wait_stream(side)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y, grad = run()
    tensor.manual_seed(1)
    expected = [run()[0].tolist() for _ in range(2)]
    tensor.manual_seed(1)
    for number in range(2):
        g.replay()
        assert y.tolist() == expected[number]
        assert tensor.equal(grad, y)


def test_seeding_in_a_capture_is_refused() -> None:
    drv.simulator.install()
    generator = tensor.Generator("cuda")
    state = cuda.get_rng_state()
    for call in (
        lambda: tensor.manual_seed(1),
        lambda: cuda.manual_seed(1),
        lambda: generator.manual_seed(1),
        lambda: cuda.set_rng_state(state),
    ):
        with pytest.raises(RuntimeError, match="captures a CUDA graph"), cuda.graph(cuda.CUDAGraph()):
            call()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        inside = cuda.get_rng_state()
        a = tensor.rand(4, device="cuda")
        cuda.set_rng_state(inside)
        b = tensor.rand(4, device="cuda")
    g.replay()
    assert tensor.equal(a, b)
    tensor.manual_seed(1)
    # What only means something in a capture cannot be drawn from outside.
    cuda.set_rng_state(inside)
    with pytest.raises(RuntimeError, match="seed it anew"):
        tensor.rand(4, device="cuda")
    tensor.manual_seed(1)
    tensor.rand(4, device="cuda")
