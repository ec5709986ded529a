"""Products with an activation at their end: values, what is launched for them, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from drv.bindings.cublas import cublasStatus_t
from tensor.operations.products import epilogues
from tests.tensor.launched_kernels import launched

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.simulator_only

TOLERANCES = {tensor.float32: 1e-5, tensor.float16: 2e-3, tensor.bfloat16: 2e-2, tensor.float64: 1e-12}


@pytest.fixture(autouse=True, params=["eager", "lazy", "random"])
def _schedule(request: pytest.FixtureRequest) -> Iterator[None]:
    drv.simulator.install(check="full", schedule=request.param)
    before = tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cuda.matmul.allow_tf32 = False
    yield
    tensor.backends.cuda.matmul.allow_tf32 = before
    assert not drv.simulator.findings()


def operands(dtype: Any = tensor.float32, added: tuple[int, ...] = (8,), device: str = "cuda") -> list[Any]:
    generator = np.random.default_rng(0)
    return [
        tensor.tensor(generator.standard_normal(shape), dtype=dtype, device=device)
        for shape in (added, (6, 5), (5, 8))
    ]


def exact(bias: Any, mat1: Any, mat2: Any, beta: float, alpha: float, use_gelu: bool) -> Any:
    """In double precision, gelu by tanh."""
    added, a, b = (each.cpu().double().numpy() for each in (bias, mat1, mat2))
    x = alpha * (a @ b) + (beta * added if beta else 0)
    if not use_gelu:
        return np.maximum(x, 0)
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def launches(*operands: Any, **options: Any) -> list[str]:
    with launched() as names:
        tensor._addmm_activation(*operands, **options)
    return [name.split(" m=")[0] for name in names if not name.startswith("aten::")]


@pytest.mark.parametrize("use_gelu", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (1, -0.5), (0, 2), (0.5, 1)])
def test_values(dtype: Any, use_gelu: bool, beta: float, alpha: float) -> None:
    values = operands(dtype)
    result = tensor._addmm_activation(*values, beta=beta, alpha=alpha, use_gelu=use_gelu)
    assert result.dtype is dtype
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(
        result.cpu().double().numpy(),
        exact(*values, beta, alpha, use_gelu),
        rtol=tolerance,
        atol=4 * tolerance,
    )


@pytest.mark.parametrize("added", [(), (1,), (6, 1), (6, 8), (1, 8)])
def test_what_is_added_broadcasts(added: tuple[int, ...]) -> None:
    values = operands(added=added)
    result = tensor._addmm_activation(*values, use_gelu=True)
    np.testing.assert_allclose(result.cpu().numpy(), exact(*values, 1, 1, True), rtol=1e-5, atol=1e-5)


def test_launches() -> None:
    values = operands()
    assert launches(*values) == ["cublasLtMatmul relu bias"]
    assert launches(*values, alpha=3, use_gelu=True) == ["cublasLtMatmul gelu bias"]
    assert launches(*values, beta=0, use_gelu=True) == ["cublasLtMatmul gelu"]
    transposed = [values[0], values[1].t().contiguous().t(), values[2].t().contiguous().t()]
    assert launches(*transposed) == ["cublasLtMatmul relu bias"]
    for others, options in (
        (values, {"beta": 2}),
        (operands(added=(6, 8)), {}),
        (operands(tensor.float64), {}),
        ([values[0], *(each.repeat_interleave(2, 1)[:, ::2] for each in values[1:])], {}),
    ):
        names = launches(*others, **options)
        assert not any("Lt" in name for name in names)
        assert any("Gemm" in name for name in names)


def test_what_is_not_aligned_goes_another_way() -> None:
    memory, values = tensor.zeros(100, device="cuda"), operands()
    view = memory[1:31].view(6, 5).copy_(values[1])
    shifted = [values[0], view, values[2]]
    assert not any("Lt" in name for name in launches(*shifted, use_gelu=True))
    tensor.testing.assert_close(
        tensor._addmm_activation(*shifted, use_gelu=True), tensor._addmm_activation(*values, use_gelu=True)
    )


def test_without_an_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilogues.Described, "choose", lambda *_: None)
    values = operands()
    for use_gelu in (False, True):
        result = tensor._addmm_activation(*values, use_gelu=use_gelu)
        np.testing.assert_allclose(result.cpu().numpy(), exact(*values, 1, 1, use_gelu), rtol=1e-5, atol=1e-5)
    assert not any("Lt" in name for name in launches(*values))


@pytest.mark.parametrize("status", ["NOT_SUPPORTED", "INVALID_VALUE"])
def test_an_epilogue_that_the_library_does_not_know(status: str) -> None:
    values = operands()
    answer = cublasStatus_t[f"CUBLAS_STATUS_{status}"]
    drv.simulator.inject().fail_call(name="cublasLtMatmulAlgoGetHeuristic", status=answer)
    result = tensor._addmm_activation(*values, use_gelu=True)
    np.testing.assert_allclose(result.cpu().numpy(), exact(*values, 1, 1, True), rtol=1e-5, atol=1e-5)
    # It is asked once.
    assert not any("Lt" in name for name in launches(*values, use_gelu=True))


def test_alternating_factors_and_biases() -> None:
    """What a product is described by is kept, and given other addresses and factors each time."""
    values = operands()
    for number in range(4):
        bias = values[0] + number
        result = tensor._addmm_activation(bias, *values[1:], alpha=number, use_gelu=True)
        np.testing.assert_allclose(
            result.cpu().numpy(), exact(bias, *values[1:], 1, number, True), rtol=1e-5, atol=1e-5
        )


def test_forms() -> None:
    values = operands()
    out = tensor.empty(0, device="cuda")
    assert tensor._addmm_activation(*values, out=out) is out
    expected = tensor._addmm_activation(*values)
    tensor.testing.assert_close(out, expected)
    tensor.testing.assert_close(values[0]._addmm_activation(*values[1:]), expected)
    with tensor.autocast("cuda", dtype=tensor.bfloat16):
        assert tensor._addmm_activation(*values).dtype is tensor.bfloat16
    nothing = tensor._addmm_activation(values[0], values[1][:0], values[2], use_gelu=True)
    assert nothing.shape == (0, 8)
    integers = [each.int() for each in operands(device="cpu")]
    assert (tensor._addmm_activation(*integers) == tensor.addmm(*integers).relu()).all()
    assert "_addmm_activation" not in tensor.__all__


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_refused(device: str) -> None:
    bias, mat1, mat2 = operands(device=device)
    function = tensor._addmm_activation
    for arguments, error, message in (
        ((bias, mat1, mat2.double()), RuntimeError, "same dtype"),
        ((bias, mat1, mat1), RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(6x5 and 6x5\)"),
        ((bias, mat1[0], mat2), RuntimeError, "must be matrices"),
        ((bias[:7], mat1, mat2), RuntimeError, "size"),
        ((bias, mat1, [1]), TypeError, "argument 3 must be Tensor, not list"),
    ):
        with pytest.raises(error, match=message):
            function(*arguments)
    with pytest.raises(TypeError, match="positional"):
        function(bias, mat1, mat2, True)
    integers = [each.int() for each in (bias, mat1, mat2)]
    with pytest.raises(NotImplementedError):
        function(*integers, use_gelu=True)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_it_has_no_derivative(device: str) -> None:
    values = operands(device=device)
    for number in range(3):
        tracked = [each.clone().requires_grad_(position == number) for position, each in enumerate(values)]
        result = tensor._addmm_activation(*tracked, use_gelu=True)
        assert result.requires_grad
        with pytest.raises(RuntimeError, match="derivative for _addmm_activation is not implemented"):
            result.sum().backward()


@pytest.mark.parity
@pytest.mark.parametrize("use_gelu", [False, True])
def test_against_pytorch(use_gelu: bool) -> None:
    """On the CPU, where gelu is the exact one, and relu of NaN is NaN."""
    torch = pytest.importorskip("torch")
    values = operands(device="cpu")
    values[0][2] = float("nan")
    for options in ({}, {"beta": 0.5, "alpha": 2}, {"beta": 0}):
        theirs = torch._addmm_activation(
            *(torch.from_numpy(each.numpy()) for each in values), use_gelu=use_gelu, **options
        )
        result = tensor._addmm_activation(*values, use_gelu=use_gelu, **options)
        np.testing.assert_allclose(result.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)
