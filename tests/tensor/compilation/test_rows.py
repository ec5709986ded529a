"""Normalizations and softmax compute what is before and after them, and results are those of the operations, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from nn import functional
from nvrtc_kernels import normalization as norm_kernels

from .test_fusion import _compiled, _randn

pytestmark = pytest.mark.usefixtures("device")


def test_a_residual_connection_with_its_dropout_and_a_norm() -> None:
    """The sum is computed as a row is loaded, and written for what reads it besides; its gradients are added as one is stored."""

    def function(x: Any, y: Any, bias: Any, weight: Any, shift: Any) -> Any:
        x = x + functional.dropout(y + bias, 0.2)
        return functional.gelu(functional.layer_norm(x, (48,), weight, shift)), x.cumsum(0)

    operands = _randn(6, 48, grad=True), _randn(6, 48, grad=True), *(_randn(48, grad=True) for _ in range(3))
    forward, backward = _compiled(function, *operands).split("backward: ")
    assert forward.startswith("forward: 6 operations in 2 calls"), forward
    assert "fused_add_dropout_operation_row_normalization_forward" in forward, forward
    # What the norm's derivative is added to comes first; the sums for weight and bias are a kernel of their own.
    assert "fused_gelu_backward_row_normalization_backward_sub_add" in backward, backward


def test_a_masked_softmax_with_dropout() -> None:
    def function(x: Any, mask: Any) -> Any:
        return functional.dropout(functional.softmax(x * 0.25 + mask, -1), 0.1)

    forward, backward = _compiled(function, _randn(2, 3, 5, 8, grad=True), _randn(5, 8)).split("backward: ")
    assert forward.startswith("forward: 4 operations in 1 calls"), forward
    assert backward.startswith("3 operations in 1 calls"), backward


@pytest.mark.parametrize("dtype", [tensor.bfloat16, tensor.float64])
def test_element_types(dtype: Any) -> None:
    """Rows whose length is no multiple of a pack, in half and in double precision."""

    def function(x: Any, weight: Any, scale: Any) -> Any:
        h = functional.rms_norm(x * scale + 1, (11,), weight)
        return (h.float() if dtype is tensor.bfloat16 else h) * 3

    operands = _randn(3, 5, 11, grad=True, dtype=dtype), _randn(11, grad=True, dtype=dtype)
    forward, _ = _compiled(function, *operands, _randn(1, 5, 1, dtype=dtype).expand(3, 5, 11)).split(
        "backward: "
    )
    assert " in 2 calls" in forward or " in 1 calls" in forward, forward


def test_groups_of_channels_and_addresses_that_are_not_aligned() -> None:
    def function(x: Any, y: Any, weight: Any) -> Any:
        return functional.group_norm(x[1:].view(2, 4, 3, 4) + y, 2, weight).relu()

    # The second operand of the sum begins four bytes behind a multiple of 16.
    x, y = _randn(97)[1:].reshape(-1), _randn(2, 4, 3, 4)
    compiled = tensor.compile(lambda flat, y, w: function(flat, y, w), fullgraph=True)
    flat = x.new_empty(97).copy_(_randn(97))
    weight = _randn(4)
    for _ in range(2):
        tensor.testing.assert_close(
            compiled(flat, y, weight), function(flat, y, weight), rtol=0, atol=0
        )  # fmt: skip
    assert "fused_add_row_normalization_forward_relu" in compiled.explain(flat, y, weight)


def test_norms_of_many_rows_that_sum_the_gradients_of_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel whose teams go over rows computes chains around each of them."""
    monkeypatch.setattr(norm_kernels, "_ROWS_OF_TEAM", 1)
    monkeypatch.setattr(norm_kernels, "_MULTIPROCESSORS", 1)

    def function(x: Any, y: Any, bias: Any, weight: Any, shift: Any) -> Any:
        x = x + functional.dropout(y + bias, 0.2)
        return functional.gelu(functional.layer_norm(x, (20,), weight, shift)), x.cumsum(0)

    operands = (
        _randn(300, 20, grad=True),
        _randn(300, 20, grad=True),
        *(_randn(20, grad=True) for _ in range(3)),
    )
    backward = _compiled(function, *operands).split("backward: ")[1]
    assert "fused_gelu_backward_row_normalization_gradients_sub" in backward, backward
    assert "weight_gradients" not in backward, backward

    def root_mean_square(x: Any, weight: Any) -> Any:
        return functional.rms_norm(x * 2, (9,), weight).relu()

    backward = _compiled(root_mean_square, _randn(300, 9, grad=True), _randn(9, grad=True)).split(
        "backward: "
    )[1]
    assert backward.startswith("3 operations in 1 calls"), backward


@pytest.mark.parametrize("classes", [9, 20, 300])
def test_cross_entropy_computes_its_logits_and_goes_on_with_their_gradients(classes: int) -> None:
    """Lines that begin at no multiple of a pack, one that counts nothing, weights, smoothed labels, and half precision."""
    target, weights = tensor.randint(0, classes, (6,), device="cuda"), _randn(classes).abs()
    target[2] = -100

    def capped(x: Any, bias: Any, target: Any, weights: Any) -> Any:
        logits = (x + bias).tanh() * 3
        return functional.cross_entropy(logits, target, weights, label_smoothing=0.1)

    forward, backward = _compiled(
        capped, _randn(6, classes, grad=True), _randn(classes), target, weights
    ).split("backward: ")
    assert forward.startswith("forward: 5 operations in 2 calls"), forward
    # The sum of the weights is the other one.
    assert "fused_classification_cross_entropy_gradient_add_tanh" in backward, backward
    assert backward.split(" in ")[1].startswith("2 calls"), backward

    def of_each(x: Any, target: Any) -> Any:
        return functional.cross_entropy(x.float() * 2, target, reduction="none")

    text = _compiled(of_each, _randn(6, classes, grad=True, dtype=tensor.bfloat16), target)
    assert text.count(" in 1 calls") == 2, text


def test_logits_that_are_read_elsewhere_too() -> None:
    """The kernel of the loss writes them; where it looks up the logit of a target, it does not do so once more."""

    def function(x: Any, target: Any) -> Any:
        logits = x * 2
        return functional.cross_entropy(logits, target), logits, logits.argmax(1)

    target = tensor.randint(0, 21, (6,), device="cuda")
    text = _compiled(function, _randn(6, 21), target)
    assert "fused_mul_classification_cross_entropy" in text, text
    assert text.startswith("forward: 4 operations in 3 calls"), text


def test_what_stays_apart_says_why() -> None:
    def in_between(x: Any) -> Any:
        positive = x.relu()
        return positive.cumsum(-1) + functional.softmax(positive, -1)

    # The running sum comes before the rows that would compute what it reads.
    assert "its result is needed in between" in _compiled(in_between, _randn(4, 9))

    def other_shape(x: Any) -> Any:
        return functional.softmax((x * 2).mT.contiguous(), -1), functional.softmax(x + 1, -1).mT * 2

    assert "in their order" in _compiled(other_shape, _randn(4, 9))

    def twice(x: Any) -> Any:
        return functional.dropout(functional.softmax(functional.dropout(x, 0.5), -1), 0.5)

    assert "random numbers once" in _compiled(twice, _randn(4, 8))


def test_what_rows_read_is_written_afterwards() -> None:
    def function(x: Any, y: Any) -> Any:
        h = functional.softmax(x * 2, -1)
        y.mul_(2)
        z = h * y
        x.add_(1)
        return z, h

    _compiled(function, _randn(4, 8), _randn(4, 8))


@pytest.mark.parametrize("columns", [8, 5, 64])
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
@pytest.mark.sampled(4)
def test_operands_with_an_element_for_each_row(columns: int, dtype: Any) -> None:
    """Also one for a part of a row, one for the rows of a sequence, and rows that heads have in common."""

    def function(x: Any, of_rows: Any, of_sequences: Any, mask: Any, parts: Any) -> Any:
        return (
            functional.layer_norm(x * of_rows + 1, (columns,)) * of_sequences,
            functional.softmax(x * of_sequences + mask, -1) - of_rows,
            functional.rms_norm(x + parts, (6, columns)),
        )

    shape = (3, 4, 6, columns)
    operands = (
        _randn(*shape, dtype=dtype),
        _randn(3, 4, 6, 1, dtype=dtype),
        _randn(3, 1, 1, 1, dtype=dtype),
        _randn(3, 1, 6, columns, dtype=dtype),
        _randn(6, 1, dtype=dtype),
    )
    text = _compiled(function, *operands)
    assert text.startswith("forward: 10 operations in 3 calls"), text
    assert "lies in another way" not in text, text


def test_operands_that_lie_in_another_way_stay_apart() -> None:
    def function(x: Any, y: Any) -> Any:
        return functional.softmax(x + y[::2], -1), functional.softmax(x * y[:6].t(), -1)

    text = _compiled(function, _randn(6, 6, 6), _randn(12, 6))
    assert text.count("what it reads lies in another way") == 2, text


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16, tensor.float64])
def test_softmax_along_another_dimension(dtype: Any) -> None:
    def function(x: Any, bias: Any) -> Any:
        h = x * bias[:, None]
        return (
            functional.dropout(functional.softmax(h, 1), 0.2),
            functional.log_softmax(x.relu(), 0) + 1,
            h.cumsum(0),
        )

    text = _compiled(function, _randn(4, 6, 9, grad=True, dtype=dtype), _randn(6, dtype=dtype))
    assert text.startswith("forward: 7 operations in 3 calls"), text
    assert "fused_dropout_operation_softmax_softmax_gradient" in text, text


@pytest.mark.parametrize("shape", [(2, 7, 3, 4), (3, 5, 6)])
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
@pytest.mark.sampled(4)
def test_cross_entropy_along_channels(shape: tuple[int, ...], dtype: Any) -> None:
    """Logits of images: a bias for each channel, a cap, weights, smoothed labels; they are read elsewhere, too."""
    target = tensor.randint(0, shape[1], (shape[0], *shape[2:]), device="cuda")
    target[0, 1] = -100

    def function(x: Any, bias: Any, target: Any, weights: Any) -> Any:
        logits = (x + bias.view(-1, *[1] * (x.ndim - 2))).tanh() * 3
        return functional.cross_entropy(logits, target, weights, label_smoothing=0.1), logits.argmax(1)

    operands = _randn(*shape, grad=True, dtype=dtype), _randn(shape[1], dtype=dtype)
    forward, backward = _compiled(
        function, *operands, target, _randn(shape[1], dtype=dtype).abs(), exact=False
    ).split("backward: ")
    assert "fused_add_tanh_mul_classification_cross_entropy" in forward, forward
    assert forward.startswith("forward: 6 operations in 3 calls"), forward
    assert "fused_classification_cross_entropy_gradient_add_tanh" in backward, backward
    assert backward.split(" in ")[1].startswith("2 calls"), backward

    def of_each(x: Any, target: Any) -> Any:
        return functional.cross_entropy(x.double() * 2, target, reduction="none")

    text = _compiled(of_each, _randn(*shape, grad=True, dtype=dtype), target)
    assert text.count(" in 1 calls") == 2, text
