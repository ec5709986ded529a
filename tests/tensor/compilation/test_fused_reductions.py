"""Reductions compute what is before and after them, and so do losses of elements and batch normalizations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from nn import functional

from .test_fusion import _compiled, _randn

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("device")


def _calls(text: str) -> list[int]:
    """Calls of the forward pass, and of the backward pass where there is one."""
    return [int(line.split(" in ")[1].split()[0]) for line in text.splitlines() if " operations in " in line]


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16, tensor.float64])
def test_what_goes_on_with_a_reduction_is_done_by_its_kernel(dtype: Any) -> None:
    def sums(x: Any, bias: Any) -> Any:
        return (x * 2).sum(1) * 0.5 + bias

    text = _compiled(sums, _randn(6, 20, dtype=dtype), _randn(6, dtype=dtype))
    assert text.startswith("forward: 4 operations in 1 calls"), text
    assert "fused_mul_sum_add" in text, text

    def root(x: Any) -> Any:
        return x.square().mean().sqrt()

    assert _calls(_compiled(root, _randn(5, 9, dtype=dtype))) == [1]
    # Few long rows are cut into chunks, whose states another kernel combines.
    assert _calls(_compiled(root, _randn(150, 150, dtype=dtype))) == [1]


def test_results_that_are_read_elsewhere_and_of_several_dtypes() -> None:
    def function(x: Any, scale: Any) -> Any:
        total = x.sum((0, 2))
        half = (total * scale).bfloat16()
        return total, half, half.float() + total, x.amax((0, 2), keepdim=True).view(3, 1) - scale.view(3, 1)

    text = _compiled(function, _randn(4, 3, 5), _randn(3))
    assert text.startswith("forward: 7 operations in 2 calls"), text


def test_operands_that_go_along_rows_in_other_ways() -> None:
    """Transposed operands, those that repeat, and numbers; results of columns and of no dimensions."""

    def function(x: Any, y: Any, row: Any) -> Any:
        first = x.mean(2) * y.mT + row
        # A column in all rows of the result.
        second = x.amax(1) - row[:4].unsqueeze(1) * 2
        third = (x - 1).std() * row[0]
        return first, second, third

    text = _compiled(function, _randn(4, 6, 8), _randn(6, 4), _randn(6))
    assert text.startswith("forward: 9 operations in 3 calls"), text


def test_several_results_and_indices() -> None:
    def function(x: Any) -> Any:
        variance, mean = tensor.var_mean(x, 1)
        largest, index = x.max(0)
        return (variance + 1e-5).rsqrt(), mean * 2, largest + 1, index * 2

    text = _compiled(function, _randn(7, 12))
    assert text.startswith("forward: 7 operations in 2 calls"), text


def test_running_averages_are_written_in_place() -> None:
    def function(x: Any, average: Any, count: Any) -> Any:
        before = average + 1
        average.lerp_(x.mean(0), 0.1)
        count.add_(x.amax(0))
        return before, average * count

    text = _compiled(function, _randn(9, 16), _randn(16), _randn(16))
    # What reads both afterwards is no part of a kernel that writes one of them.
    assert text.startswith("forward: 6 operations in 4 calls"), text


def test_what_stays_apart_from_a_reduction_says_why() -> None:
    def in_between(x: Any, y: Any) -> Any:
        total = x.sum(1)
        y.add_(total.cumsum(0))
        return total * y

    assert "its result is needed in between" in _compiled(in_between, _randn(4, 9), _randn(4))

    def larger(x: Any) -> Any:
        return x.sum(1, keepdim=True) * x

    assert "not with sum (test_fused_reductions.py:" in _compiled(larger, _randn(4, 9))

    def written(x: Any, y: Any) -> Any:
        total = x.sum(1)
        x.mul_(2)
        return total * x[:, 0] + y

    assert "what it reads is written in between" in _compiled(written, _randn(4, 9), _randn(4))


def test_a_reduction_of_what_it_is_added_to() -> None:
    """A kernel that writes in place reads no other elements of what it writes."""

    def function(x: Any) -> Any:
        x[0] += x.sum(0)
        x[1].mul_(x[:, :6].amax(1).sum())
        return x + 1

    _compiled(function, _randn(6, 8))


_LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "smooth l1": functional.smooth_l1_loss,
    "huber": lambda x, y: functional.huber_loss(x, y, delta=0.7),
    "bce": lambda x, y: functional.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    "bce of logits": lambda x, y: functional.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "kl": lambda x, y: functional.kl_div(x, y.sigmoid(), reduction="batchmean"),
    "sum": lambda x, y: functional.mse_loss(x, y, reduction="sum"),
}


@pytest.mark.parametrize("name", sorted(_LOSSES))
def test_losses_of_elements_are_one_kernel_each_way(name: str) -> None:
    """What input and target are computed from is read once, and nothing between is written."""

    def function(x: Any, bias: Any, target: Any, weight: Any) -> Any:
        return _LOSSES[name](x * 0.5 + bias, target + 0.25) * weight

    operands = _randn(6, 12, grad=True), _randn(12), _randn(6, 12), tensor.tensor(0.7, device="cuda")
    text = _compiled(function, *operands)
    assert _calls(text) == [1, 1], text


def test_cross_entropy_is_weighted_by_the_kernel_that_takes_its_mean() -> None:
    def function(x: Any, target: Any, weight: Any) -> Any:
        return functional.cross_entropy(x, target, label_smoothing=0.1) * weight + 1

    target = tensor.randint(0, 9, (6,), device="cuda")
    text = _compiled(function, _randn(6, 9, grad=True), target, tensor.tensor(0.7, device="cuda"))
    assert text.startswith("forward: 4 operations in 2 calls"), text


def _normalized(norm: nn.Module, *operands: Any, training: bool = True, added: bool = False) -> str:
    """What explains a batch normalization with its activation, whose results are the same, bit for bit.

    Running averages, which each call moves, are compared, too.
    """
    norm.train(training)
    with tensor.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(tensor.randn_like(parameter))
    norms = norm, type(norm)(norm.num_features, affine=norm.affine).cuda()
    norms[1].load_state_dict(norm.state_dict())
    norms[1].train(training)

    def function(norm: nn.Module, *inputs: Any) -> Any:
        x = norm(inputs[0])
        return (x + inputs[1] if added else x).relu()

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(3):
        outcomes = []
        for each, module in zip((compiled, function), norms, strict=True):
            inputs = [
                x.detach().clone(memory_format=tensor.preserve_format).requires_grad_() for x in operands
            ]
            output = each(module, *inputs)
            (output * output.detach()).sum().backward()
            gradients = [x.grad for x in (*inputs, *module.parameters())]
            outcomes.append([output, *gradients, *module.buffers()])
            module.zero_grad()
        for one, other in zip(*outcomes, strict=True):
            assert one.stride() == other.stride()
            tensor.testing.assert_close(one, other, rtol=0, atol=0)
    text: str = compiled.explain(norm, *(x.detach().requires_grad_() for x in operands))
    return text


@pytest.mark.parametrize("form", ["4d", "channels last", "2d", "half", "plain"])
def test_batch_normalization_with_an_activation(form: str) -> None:
    x = _randn(4, 8, 3, 5)
    if form == "channels last":
        x = x.to(memory_format=tensor.channels_last)
    elif form == "2d":
        x = _randn(16, 8)
    elif form == "half":
        x = x.bfloat16()
    cls = nn.BatchNorm1d if form == "2d" else nn.BatchNorm2d
    text = _normalized(cls(8, affine=form != "plain").cuda(), x)
    # The count of batches, moments with the averages that they move, and elements; sums, and the gradient of elements.
    assert _calls(text) == [3, 2], text
    assert "fused_batch_normalization_moments_running_average" in text, text
    assert "fused_batch_normalization_apply_relu" in text, text
    assert "fused_threshold_backward_batch_normalization_sums" in text, text


def test_batch_normalization_with_a_residual_connection() -> None:
    text = _normalized(nn.BatchNorm2d(8).cuda(), _randn(4, 8, 3, 5), _randn(4, 8, 3, 5), added=True)
    assert _calls(text) == [3, 2], text
    assert "fused_batch_normalization_apply_add_relu" in text, text


def test_batch_normalization_of_running_averages_is_a_chain() -> None:
    norm = nn.BatchNorm2d(8).cuda()
    text = _normalized(norm, _randn(4, 8, 3, 5), _randn(4, 8, 3, 5), training=False, added=True)
    assert _calls(text)[0] == 1, text
    for each in norm.parameters():
        each.requires_grad_(False)

    def function(x: Any, y: Any) -> Any:
        return (norm(x) + y).relu()

    operands = _randn(4, 8, 3, 5, grad=True), _randn(4, 8, 3, 5, grad=True)
    assert _calls(_compiled(function, *operands)) == [1, 1]


def test_batch_normalizations_of_a_step_in_one_program() -> None:
    """The activation's result is there, since a convolution reads it: sums and gradient derive through it themselves."""
    layers = (
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
    )
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 5)).cuda()

    def step(model: nn.Module, x: Any, target: Any) -> Any:
        loss = functional.cross_entropy(model(x), target)
        loss.backward()
        return loss

    compiled = tensor.compile(step, fullgraph=True)
    x, target = _randn(2, 3, 8, 8), tensor.randint(0, 5, (2,), device="cuda")
    compiled(model, x, target)
    model.zero_grad()
    names = [
        line.split()[0] for line in compiled.explain(model, x, target).splitlines() if line.startswith("  ")
    ]
    assert names.count("fused_threshold_backward_batch_normalization_sums") == 2, names
    assert "threshold_backward" not in names, names
