"""Convolutions through cuDNN, a simulated one: against float64, in either format, and who takes part under which settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor.core.modes.cudnn import Cudnn, settings
from tensor.core.modes.precision import settings as precision
from tensor.operations.convolution import convolution
from tests.tensor.launched_kernels import launched

cudnn = tensor.backends.cudnn

#: Relative to the largest element: results are rounded to half precision, operands of float32 to TF32.
ERRORS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-3, "float64": 1e-13}
_LAST = {4: tensor.channels_last, 5: tensor.channels_last_3d}
#: Function, shapes of input and weight, options.
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ("conv2d", (2, 3, 9, 10), (8, 3, 3, 3), {"padding": 1}),
    "1x1": ("conv2d", (2, 4, 9, 8), (6, 4, 1, 1), {}),
    "no items": ("conv2d", (4, 9, 8), (6, 4, 3, 2), {"stride": 2}),
    "groups": ("conv2d", (1, 8, 6, 7), (4, 4, 3, 3), {"groups": 2, "stride": (1, 2), "dilation": (2, 1)}),
    "signals": ("conv1d", (2, 4, 20), (4, 4, 5), {"dilation": 3, "stride": 2}),
    "volumes": ("conv3d", (1, 3, 4, 5, 6), (4, 3, 2, 3, 2), {"stride": (2, 1, 3), "padding": 1}),
    "transposed": (
        "conv_transpose2d", (1, 6, 5, 6), (6, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1},
    ),
}  # fmt: skip
_OURS = ("convolution_", "arrange", "sum_weight", "unfold", "fold", "cublas", "depthwise")


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    before, tf32 = settings.cudnn, precision.convolution_tf32
    settings.cudnn = Cudnn()
    yield
    settings.cudnn, precision.convolution_tf32 = before, tf32


@pytest.fixture
def simulated() -> Any:
    """A device with cuDNN, whose races are found."""
    drv.simulator.install(check="full", schedule="random", cudnn="on")
    yield
    assert not drv.simulator.findings()


def _operands(name: str, dtype: str) -> list[Any]:
    function, image, weight, options = CASES[name]
    generator = tensor.Generator().manual_seed(len(name))
    filters = weight[1] * options.get("groups", 1) if "transpose" in function else weight[0]
    shapes = image, weight, (filters,)
    return [tensor.randn(shape, generator=generator).to(getattr(tensor, dtype)) for shape in shapes]


def _functions(run: Any) -> tuple[Any, list[str]]:
    """What ``run()`` gives, and the convolutions and products that it queued, each by the first word of its name."""
    with launched() as names:
        result = run()
    return result, [each.split()[0] for each in names if each.startswith(("cudnn", *_OURS))]


def _assert_close(result: Any, expected: Any, error: float) -> None:
    largest = float(expected.abs().max())
    np.testing.assert_allclose(
        result.detach().cpu().double().numpy(), expected.detach().numpy(), rtol=0, atol=error * largest
    )


@pytest.mark.parametrize("form", ["contiguous", "last"])
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str, dtype: str, form: str, simulated: None) -> None:
    function, options = getattr(convolution, CASES[name][0]), CASES[name][3]
    operands = _operands(name, dtype)
    exact = [x.double().clone().requires_grad_() for x in operands]
    expected = function(*exact, **options)
    order = (
        _LAST.get(operands[0].dim(), tensor.contiguous_format) if form == "last" else tensor.contiguous_format
    )
    leaves = [
        (x.cuda().contiguous(memory_format=order) if x.dim() > 3 else x.cuda()).requires_grad_()
        for x in operands
    ]
    result, names = _functions(lambda: function(*leaves, **options))
    transposed = "transpose" in CASES[name][0]
    forward, backward = "cudnnConvolutionForward", "cudnnConvolutionBackwardData"
    assert names == [backward if transposed else forward]
    # float64 stays row-major, as in PyTorch.
    assert result.is_contiguous(memory_format=tensor.contiguous_format if dtype == "float64" else order)
    _assert_close(result, expected, ERRORS[dtype])
    grad = tensor.randn(result.shape, generator=tensor.Generator().manual_seed(9)).to(result.dtype)
    expected.backward(grad.double())
    moved = grad.cuda().contiguous(memory_format=order) if grad.dim() > 3 else grad.cuda()
    _, names = _functions(lambda: result.backward(moved))
    assert names == [forward if transposed else backward, "cudnnConvolutionBackwardFilter"]
    for leaf, reference in zip(leaves, exact, strict=True):
        _assert_close(leaf.grad, reference.grad, 2 * ERRORS[dtype])


def test_operands_that_lie_otherwise_are_copied_first(simulated: None) -> None:
    x, w, _ = _operands("3x3", "float32")
    expected = tensor.nn.functional.conv2d(x.double(), w.double(), padding=1)
    turned = x.cuda().transpose(2, 3).contiguous().transpose(2, 3)
    _assert_close(tensor.nn.functional.conv2d(turned, w.cuda(), padding=1), expected, 1e-3)
    # A filter that is row-major, of an image with its channels last.
    last = x.cuda().contiguous(memory_format=tensor.channels_last)
    result = tensor.nn.functional.conv2d(last, w.cuda(), padding=1)
    assert result.is_contiguous(memory_format=tensor.channels_last)
    _assert_close(result, expected, 1e-3)


def test_second_derivatives(simulated: None) -> None:
    def penalty(*leaves: Any) -> list[Any]:
        result = tensor.nn.functional.conv2d(*leaves, padding=1, stride=2)
        (gradient,) = tensor.autograd.grad(result.square().sum(), leaves[0], create_graph=True)
        gradient.square().sum().backward()
        return [leaf.grad for leaf in leaves]

    operands = _operands("3x3", "float64")
    expected = penalty(*(x.clone().requires_grad_() for x in operands))
    for result, reference in zip(
        penalty(*(x.cuda().requires_grad_() for x in operands)), expected, strict=True
    ):
        _assert_close(result, reference, 1e-12)


def _names_of_conv2d(x: Any, w: Any, **options: Any) -> list[str]:
    return _functions(lambda: tensor.nn.functional.conv2d(x, w, **options))[1]


def test_what_our_own_kernels_compute_always(simulated: None) -> None:
    x, w = tensor.randn(1, 4, 6, 6, device="cuda"), tensor.randn(4, 4, 2, 2, device="cuda")
    assert _names_of_conv2d(x, w) == ["cudnnConvolutionForward"]
    # Channels with filters of their own, paddings of different sizes, integers and complex numbers.
    assert not any("cudnn" in each for each in _names_of_conv2d(x, w[:, :1].contiguous(), groups=4))
    assert not any("cudnn" in each for each in _names_of_conv2d(x, w, padding="same"))
    assert not any("cudnn" in each for each in _names_of_conv2d(x.long(), w.long()))
    assert not any(
        "cudnn" in each for each in _names_of_conv2d(x.to(tensor.complex64), w.to(tensor.complex64))
    )


def test_settings_are_read_at_every_call(simulated: None) -> None:
    x, w = tensor.randn(1, 4, 6, 6, device="cuda"), tensor.randn(4, 4, 2, 2, device="cuda")
    assert _names_of_conv2d(x, w) == ["cudnnConvolutionForward"]
    with cudnn.flags():
        assert not any("cudnn" in each for each in _names_of_conv2d(x, w))
    cudnn.enabled = False
    assert not any("cudnn" in each for each in _names_of_conv2d(x, w))
    cudnn.enabled = True
    assert _names_of_conv2d(x, w) == ["cudnnConvolutionForward"]
    assert cudnn.is_acceptable(x)
    assert not cudnn.is_acceptable(x.cpu())
    assert not cudnn.is_acceptable(x.long())


def test_tf32(simulated: None) -> None:
    x, w, _ = _operands("3x3", "float32")
    expected = tensor.nn.functional.conv2d(x.double(), w.double())
    a, b = x.cuda(), w.cuda()

    def error() -> float:
        difference = tensor.nn.functional.conv2d(a, b).cpu().double() - expected
        return float(difference.abs().max() / expected.abs().max())

    assert 1e-5 < error() < 1e-3
    cudnn.allow_tf32 = False
    assert error() < 1e-6


def _labels(run: Any) -> list[str]:
    with launched() as names:
        run()
    return [each for each in names if each.startswith("cudnn")]


@pytest.mark.parametrize("setting", ["cudnn.deterministic", "use_deterministic_algorithms"])
def test_deterministic(setting: str, simulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What adds up in any order is not taken, even if cuDNN expects it to be the quickest."""
    library = drv.runtime().library("cudnn")
    from drv.bindings.cudnn import AlgorithmPerformance

    usual = library.cudnnGetConvolutionBackwardFilterAlgorithm_v7

    def reversed_order(*arguments: int) -> int:
        number: int = usual(*arguments)
        results = (AlgorithmPerformance * number).from_address(arguments[-1])
        swapped = [AlgorithmPerformance.from_buffer_copy(each) for each in reversed(results)]
        for into, each in zip(range(number), swapped, strict=True):
            results[into] = each
        return number

    taken: list[int] = []
    compute = library.cudnnConvolutionBackwardFilter

    def noted(*arguments: Any) -> None:
        taken.append(arguments[7])
        compute(*arguments)

    monkeypatch.setattr(library, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", reversed_order)
    monkeypatch.setattr(library, "cudnnConvolutionBackwardFilter", noted)
    x = tensor.randn(1, 4, 6, 6, device="cuda")
    w = tensor.randn(4, 4, 2, 2, device="cuda", requires_grad=True)
    tensor.nn.functional.conv2d(x, w).sum().backward()
    if setting == "cudnn.deterministic":
        cudnn.deterministic = True
        tensor.nn.functional.conv2d(x, w).sum().backward()
    else:
        tensor.use_deterministic_algorithms(True)
        try:
            tensor.nn.functional.conv2d(x, w).sum().backward()
        finally:
            tensor.use_deterministic_algorithms(False)
    first, second = taken
    assert first in (0, 3)
    assert second == 1


def test_benchmark_times_each_way_once(simulated: None) -> None:
    cudnn.benchmark = True
    x, w = tensor.randn(1, 4, 6, 6, device="cuda"), tensor.randn(4, 4, 2, 2, device="cuda")
    first = _names_of_conv2d(x, w)
    assert first.count("cudnnConvolutionForward") >= 8
    assert any(each.startswith(_OURS) for each in first)
    second = _names_of_conv2d(x, w)
    assert len(second) < 4
    # Another geometry is another choice, and so is another limit.
    assert len(_names_of_conv2d(x[:, :, 1:].contiguous(), w)) > 8
    cudnn.benchmark_limit = 1
    assert _names_of_conv2d(x, w).count("cudnnConvolutionForward") in (4, 5)


def test_benchmark_takes_the_quickest(simulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    cudnn.benchmark = True
    x, w = tensor.randn(1, 4, 6, 6, device="cuda"), tensor.randn(4, 4, 2, 2, device="cuda")
    taken: list[int] = []
    library = drv.runtime().library("cudnn")
    compute = library.cudnnConvolutionForward

    def noted(*arguments: Any) -> None:
        taken.append(arguments[7])
        compute(*arguments)

    monkeypatch.setattr(library, "cudnnConvolutionForward", noted)
    times = iter([3.0, 1.0, 2.0, 4.0])
    monkeypatch.setattr(drv.Event, "elapsed_time", lambda *_: next(times))
    tensor.nn.functional.conv2d(x, w)
    # Four runs of each algorithm, of which the second took least, and then one.
    assert taken[-1] == taken[4] != taken[0]
    # Our own kernels are the last that are timed.
    times = iter([3.0, 3.0, 2.0, 1.0])
    other = x[:, :, 1:].contiguous()
    tensor.nn.functional.conv2d(other, w)
    assert not any("cudnn" in each for each in _names_of_conv2d(other, w))


def test_nothing_is_timed_in_a_capture(simulated: None) -> None:
    cudnn.benchmark = True
    x, w = tensor.randn(1, 4, 6, 6, device="cuda"), tensor.randn(4, 4, 2, 2, device="cuda")
    expected = tensor.nn.functional.conv2d(x.cpu().double(), w.cpu().double())
    graph = tensor.cuda.CUDAGraph()
    with tensor.cuda.graph(graph):
        result = tensor.nn.functional.conv2d(x, w)
    graph.replay()
    _assert_close(result, expected, 1e-3)
    assert _names_of_conv2d(x, w).count("cudnnConvolutionForward") >= 8


def test_each_thread_has_a_handle_and_a_stream(simulated: None) -> None:
    import threading

    x, w = tensor.randn(1, 4, 6, 6, device="cuda"), tensor.randn(4, 4, 2, 2, device="cuda")
    expected = tensor.nn.functional.conv2d(x.cpu().double(), w.cpu().double())
    tensor.cuda.synchronize()
    results: list[Any] = []

    def work() -> None:
        with tensor.cuda.stream(tensor.cuda.Stream()):
            results.append(tensor.nn.functional.conv2d(x, w))
            tensor.cuda.current_stream().synchronize()

    for _ in range(2):
        threads = [threading.Thread(target=work) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len(results) == 6
    for each in results:
        _assert_close(each, expected, 1e-3)


def test_a_network_trains_as_without(simulated: None) -> None:
    def losses(device: str) -> list[float]:
        tensor.manual_seed(0)
        model = tensor.nn.Sequential(
            tensor.nn.Conv2d(3, 8, 3, padding=1),
            tensor.nn.BatchNorm2d(8),
            tensor.nn.ReLU(),
            tensor.nn.Conv2d(8, 8, 3, stride=2),
            tensor.nn.Flatten(),
            tensor.nn.Linear(8 * 9, 4),
        ).to(device)
        optimizer = tensor.optim.SGD(model.parameters(), lr=0.1)
        x = tensor.randn(4, 3, 8, 8).to(device)
        y = tensor.tensor([0, 1, 2, 3], device=device)
        result = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = tensor.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            result.append(float(loss))
        return result

    cudnn.allow_tf32 = tensor.backends.cuda.matmul.allow_tf32 = False
    try:
        np.testing.assert_allclose(losses("cuda"), losses("cpu"), rtol=1e-4)
    finally:
        tensor.backends.cuda.matmul.allow_tf32 = True


def test_is_there_or_not() -> None:
    drv.simulator.install(cudnn="on")
    assert cudnn.is_available()
    assert cudnn.version() >= 90000
    drv.reset()
    drv.simulator.install()
    assert not cudnn.is_available()
    assert cudnn.version() is None
    x, w = tensor.randn(1, 4, 6, 6, device="cuda"), tensor.randn(4, 4, 2, 2, device="cuda")
    assert not any("cudnn" in each for each in _names_of_conv2d(x, w))
    assert not cudnn.is_acceptable(x)


def test_flags() -> None:
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.benchmark_limit) == (
        True,
        False,
        False,
        10,
    )
    with cudnn.flags(benchmark=True, deterministic=True, benchmark_limit=3, fp32_precision="ieee"):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.benchmark_limit) == (
            False,
            True,
            True,
            3,
        )
        assert cudnn.allow_tf32 is False
    assert settings.cudnn == Cudnn()
    assert cudnn.allow_tf32 is True
    before = cudnn.set_flags(_benchmark=True)
    assert before == (True, False, 10, False, True)
    assert cudnn.benchmark is True
    assert cudnn.enabled is True
    cudnn.set_flags(*before)
    for name, value in (("enabled", 1), ("benchmark", None), ("deterministic", "yes")):
        with pytest.raises(RuntimeError, match=rf"backends.cudnn.{name} expects a bool, but got"):
            setattr(cudnn, name, value)
    for value in (-1, True, 2.5):
        with pytest.raises(RuntimeError, match="benchmark_limit expects a whole number, 0 for no limit"):
            cudnn.benchmark_limit = value
    with pytest.raises(RuntimeError, match="expects a bool"), cudnn.flags(deterministic=True, allow_tf32=3):
        pass
    assert settings.cudnn == Cudnn()
