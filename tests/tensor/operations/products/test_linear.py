"""Linear maps on devices: what is launched for them, where biases go, and what they are where that cannot be."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from nn import functional
from tensor.operations.products import epilogues
from tests.tensor.launched_kernels import launched

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.simulator_only


@pytest.fixture(autouse=True, params=["lazy", "random"])
def _schedule(request: pytest.FixtureRequest) -> Iterator[None]:
    drv.simulator.install(check="full", schedule=request.param)
    yield
    assert not drv.simulator.findings()


def calls(run: Any) -> list[str]:
    """Names of what a function launches."""
    with launched() as names:
        run()
    return [each for each in names if each.startswith(("cublas", "copy", "sum"))]


def operands(
    dtype: Any = None, rows: tuple[int, ...] = (2, 5), inputs: int = 8, outputs: int = 12
) -> list[Any]:
    generator = np.random.default_rng(0)
    shapes = (*rows, inputs), (outputs, inputs), (outputs,)
    return [
        tensor.tensor(
            generator.standard_normal(shape), dtype=dtype or tensor.float32, device="cuda", requires_grad=True
        )
        for shape in shapes
    ]


def trained(x: Any, weight: Any, bias: Any) -> list[Any]:
    """Result and gradients, on the host in double precision."""
    result = functional.linear(x, weight, bias)
    grad = tensor.linspace(-1, 1, result.numel(), device=x.device, dtype=x.dtype).view(result.shape)
    gradients = tensor.autograd.grad(result, (x, weight, bias), grad)
    return [each.detach().cpu().double().numpy() for each in (result, *gradients)]


def exact(x: Any, weight: Any, bias: Any) -> list[Any]:
    return trained(*(each.detach().cpu().double().requires_grad_() for each in (x, weight, bias)))


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float16, tensor.bfloat16, tensor.float64], ids=str)
def test_a_bias_and_its_gradient_take_no_launches_of_their_own(dtype: Any) -> None:
    x, weight, bias = operands(dtype)
    forward = calls(lambda: functional.linear(x, weight, bias))
    result = functional.linear(x, weight, bias)
    grad = tensor.ones_like(result)
    backward = calls(lambda: tensor.autograd.grad(result, (x, weight, bias), grad))
    if dtype is tensor.float64:
        # cuBLASLt is asked for none.
        assert [name.split()[0] for name in forward] == ["copy_strided_2", "cublasGemmEx"]
        return
    assert [name.split(" m=")[0] for name in forward] == ["cublasLtMatmul bias"]
    assert sorted(name.split(" m=")[0] for name in backward) == [
        "cublasGemmEx",
        "cublasLtMatmul bias gradient",
    ]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(tensor.float32, 5e-3), (tensor.float16, 5e-3), (tensor.bfloat16, 4e-2)]
)
@pytest.mark.parametrize("rows", [(2, 5), (7,), (1,), ()])
@pytest.mark.sampled(4)
def test_results(dtype: Any, tolerance: float, rows: tuple[int, ...]) -> None:
    values = operands(dtype, rows)
    for got, expected in zip(trained(*values), exact(*values), strict=True):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=8 * tolerance)


def test_what_is_not_aligned_goes_another_way() -> None:
    memory = tensor.zeros(300, device="cuda")
    x, weight, bias = operands()
    shifted = []
    with tensor.no_grad():
        for start, each in ((1, x), (120, weight), (260, bias)):
            view = memory[start : start + each.numel()].view(each.shape)
            shifted.append(view.copy_(each))
    names = calls(lambda: functional.linear(*shifted))
    assert not any("Lt" in name for name in names)
    np.testing.assert_allclose(
        functional.linear(*shifted).cpu().numpy(),
        functional.linear(x, weight, bias).detach().cpu().numpy(),
        rtol=1e-6,
    )
    # Sixteen bytes are enough.
    half_aligned = memory[4 : 4 + x.numel()].view(x.shape)
    assert any("Lt" in name for name in calls(lambda: functional.linear(half_aligned, weight, bias)))


def test_without_an_algorithm_or_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    values = operands()
    expected = trained(*values)
    monkeypatch.setattr(epilogues.Described, "choose", lambda *_: None)
    drv.reset()
    drv.simulator.install(check="full")
    values = operands()
    for got, same in zip(trained(*values), expected, strict=True):
        np.testing.assert_allclose(got, same, rtol=1e-5, atol=1e-5)
    assert not any("Lt" in name for name in calls(lambda: trained(*values)))


def test_the_settings_hold_for_both_libraries() -> None:
    x, weight, bias = operands(rows=(64,), inputs=64, outputs=64)
    with_tf32 = functional.linear(x, weight, bias)
    before = tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cuda.matmul.allow_tf32 = not before
    try:
        other = functional.linear(x, weight, bias)
        assert not tensor.equal(other, with_tf32)
        assert tensor.equal(functional.linear(x, weight) + bias, other)
    finally:
        tensor.backends.cuda.matmul.allow_tf32 = before


def test_threads_do_not_exchange_their_biases() -> None:
    """What a product is described by is each thread's own, as the bias' address is set in it."""
    x, weight, _ = operands()
    biases = [tensor.full((12,), float(number), device="cuda") for number in range(4)]
    plain = functional.linear(x, weight).detach()
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            result = functional.linear(x, weight, biases[number])
            if not tensor.allclose(result.detach(), plain + number, atol=1e-5):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_descriptions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilogues, "_MOST", 4)
    destroyed: list[Any] = []
    original = epilogues.Described.destroy
    monkeypatch.setattr(
        epilogues.Described, "destroy", lambda self: (destroyed.append(self), original(self))[1]
    )
    for rows in range(2, 12):
        x, weight, bias = operands(rows=(rows,))
        np.testing.assert_allclose(
            trained(x, weight, bias)[3], exact(x, weight, bias)[3], rtol=5e-3, atol=5e-3
        )
    assert len(destroyed) >= 8


def test_a_linear_map_in_a_graph() -> None:
    x, weight, bias = operands()
    side = tensor.cuda.Stream()
    side.wait_stream(tensor.cuda.current_stream())
    with tensor.no_grad(), tensor.cuda.stream(side):
        functional.linear(x, weight, bias)
    tensor.cuda.current_stream().wait_stream(side)
    graph = tensor.cuda.CUDAGraph()
    with tensor.no_grad():
        with tensor.cuda.graph(graph):
            result = functional.linear(x, weight, bias)
        bias.add_(3)
        graph.replay()
        assert tensor.allclose(result, functional.linear(x, weight, bias))
