"""Errors of differentiation: each names the operation or argument, and says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tensor.autograd import Function, backward, grad

if TYPE_CHECKING:
    from collections.abc import Callable

    import drv


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


class Given(Function):
    """A function whose gradient a test decides."""

    gradient: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Given.gradient


# Freed buffers


def test_a_second_pass_through_freed_buffers(device_name: str) -> None:
    x, w = leaf(1, 2, device=device_name), leaf(3, 4, device=device_name)
    loss = (x * w).exp().sum()
    loss.backward()
    with pytest.raises(
        RuntimeError,
        match=r"backward through the graph a second time .* in ExpBackward0\..*Specify retain_graph=True",
    ):
        loss.backward()


def test_a_second_derivative_through_freed_buffers() -> None:
    x = leaf(1, 2)
    (first,) = grad((x * x).exp().sum(), x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match=r"in ExpBackward0\..*Specify retain_graph=True"):
        first.sum().backward()


def test_freed_buffers_of_a_part_that_two_graphs_share() -> None:
    x = leaf(1, 2)
    shared = x.exp()
    (shared * 2).sum().backward()
    with pytest.raises(RuntimeError, match=r"in ExpBackward0\..*Specify retain_graph=True"):
        (shared * 3).sum().backward()


def test_nothing_saved_is_nothing_freed() -> None:
    x = leaf(1, 2)
    loss = (x + x).sum()
    loss.backward()
    loss.backward()
    assert x.grad.tolist() == [4, 4]


# Saved tensors that were written


def result_written(x: Any, w: Any) -> Any:
    y = x.exp()
    y.add_(1)
    return y


def input_written(x: Any, w: Any) -> Any:
    y = x * 1
    z = y * w
    y.mul_(2)
    return z


def view_of_input_written(x: Any, w: Any) -> Any:
    y = x * 1
    z = y.sin()
    y[:1].zero_()
    return z


def base_written(x: Any, w: Any) -> Any:
    y = x * 1
    z = y[:1].sin()
    y.zero_()
    return z


def written_twice(x: Any, w: Any) -> Any:
    y = x * 1
    z = y.sin()
    y.add_(1).mul_(2)
    return z


def parameter_written(x: Any, w: Any) -> Any:
    z = x * w
    with tensor.no_grad():
        w.add_(1)
    return z


@pytest.mark.parametrize(
    ("program", "output", "version", "needs"),
    [
        (result_written, "which is output 0 of ExpBackward0, ", 1, "ExpBackward0"),
        (input_written, "which is output 0 of MulBackward0, ", 1, "MulBackward0"),
        (view_of_input_written, "which is output 0 of MulBackward0, |", 1, "SinBackward0"),
        (base_written, "which is output 0 of AsStridedBackward0, ", 1, "SinBackward0"),
        (written_twice, "which is output 0 of MulBackward0, ", 2, "SinBackward0"),
        (parameter_written, "", 1, "MulBackward0"),
    ],
)
def test_modified_saved_tensors(
    program: Callable[[Any, Any], Any], output: str, version: int, needs: str
) -> None:
    y = program(leaf(1, 2), leaf(3, 4))
    message = (
        rf"modified by an inplace operation: \[tensor.FloatTensor \[[12]\]\].*is at version {version}; expected "
        rf"version 0 instead \(needed by {needs}\)\. Write to a clone"
    )
    with pytest.raises(RuntimeError, match=message) as caught:
        y.sum().backward()
    if program is not view_of_input_written:
        assert output in str(caught.value)


def test_writes_that_disturb_nothing(device_name: str) -> None:
    x, w = leaf(1, 2, device=device_name), leaf(3, 4, device=device_name)
    y = x * 3
    y.add_(1)
    z = y + w
    z.mul_(2)
    z.sum().backward()
    assert x.grad.tolist() == [6, 6]
    assert w.grad.tolist() == [2, 2]


# Initial gradients


@pytest.mark.parametrize("how", [lambda y, x: y.backward(), lambda y, x: grad([y.sum(), y], x)])
def test_implicit_gradients_are_for_scalars(how: Any) -> None:
    x = leaf(1, 2)
    with pytest.raises(
        RuntimeError,
        match=r"implicitly created only for scalar outputs \(element [01] has shape \[2\]\): reduce it, as by sum\(\)",
    ):
        how(x * 2, x)
    (x[:1] * 2).backward()
    assert x.grad.tolist() == [2, 0]


def test_implicit_gradients_are_real() -> None:
    x = tensor.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"real scalar outputs but got tensor.complex64.*pass its gradient"
    ):
        (x * 2).sum().backward()
    (x * 2).sum().backward(tensor.tensor(1 + 0j))


def test_wrong_initial_gradients(device: drv.Device) -> None:
    x = leaf(1, 2)
    y = x * 2
    with pytest.raises(
        RuntimeError,
        match=r"grad_output\[0\] has a shape of \[3\] and output\[0\] has a shape of \[2\]: pass a gradient of",
    ):
        y.backward(tensor.ones(3))
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a dtype of tensor.complex64"):
        y.backward(tensor.ones(2, dtype=tensor.complex64))
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] is on .*cuda.* and output\[0\] on .*cpu"):
        y.backward(tensor.ones(2, device="cuda"))
    for wrong in ([1, 2], 3.0):
        with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got (int|float)"):
            y.backward(wrong)
    with pytest.raises(
        RuntimeError, match="got 1 tensors and 2 gradients: pass one gradient, or None, for each"
    ):
        backward([y], [tensor.ones(2), None])
    assert x.grad is None


def test_roots_and_inputs_that_are_no_tensors() -> None:
    x = leaf(1)
    with pytest.raises(TypeError, match="element 1 of tensors must be a Tensor or a GradientEdge, got int"):
        backward([x * 2, 3])
    with pytest.raises(TypeError, match="element 0 of inputs must be a Tensor or a GradientEdge, got str"):
        grad(x * 2, ["x"])


# What has no gradient


def test_roots_without_history() -> None:
    x = leaf(1)
    with tensor.no_grad():
        unrecorded = x * 2
    for root in (tensor.ones(1), unrecorded, (x * 2).detach()):
        with pytest.raises(
            RuntimeError, match=r"element 0 of tensors does not require grad.*Call requires_grad_\(\)"
        ):
            root.backward()
    with pytest.raises(
        RuntimeError,
        match=r"element 1 of tensors does not .*: results of dtype tensor.int64 have no derivative",
    ):
        backward([x * 2, (x > 0).sum()])
    assert x.grad is None


def test_integers() -> None:
    message = r"floating point and complex dtype can require gradients, this one is tensor.(int|uint|bool).*convert it"
    for dtype in (tensor.int64, tensor.int32, tensor.uint8, tensor.bool):
        plain = tensor.ones(2, dtype=dtype)
        with pytest.raises(RuntimeError, match=message):
            plain.requires_grad_()
        with pytest.raises(RuntimeError, match=message):
            plain.requires_grad = True
        with pytest.raises(RuntimeError, match=message):
            tensor.zeros(2, dtype=dtype, requires_grad=True)
        assert not plain.requires_grad
    with pytest.raises(RuntimeError, match=message):
        tensor.tensor([1, 2], requires_grad=True)
    x = leaf(1.5, 2.5)
    assert not x.long().requires_grad
    assert not (x > 2).requires_grad
    assert not x.argmax().requires_grad


def test_unused_inputs() -> None:
    x, w, without = leaf(1), leaf(2), tensor.ones(1)
    with pytest.raises(
        RuntimeError,
        match=r"Tensor at index 1 of inputs appears to not have been used in the graph.*Set allow_unused=True",
    ):
        grad(x * 2, [x, w])
    assert grad(x * 2, [x, w], allow_unused=True)[1] is None
    assert grad(x * 2, [x, w], materialize_grads=True)[1].tolist() == [0]
    with pytest.raises(ValueError, match="allow_unused to be True or not passed when materialize_grads=True"):
        grad(x * 2, w, materialize_grads=True, allow_unused=False)
    with pytest.raises(
        RuntimeError, match=r"does not require grad: element 1 of inputs. Call requires_grad_"
    ):
        grad(x * 2, [x, without])
    with pytest.raises(RuntimeError, match=r"cannot be empty: leave it out"):
        (x * 2).backward(inputs=[])


# Gradients that users compute


@pytest.mark.parametrize("shape", [(3,), (), (2, 3)])
def test_wrong_shapes_from_a_function(shape: Any) -> None:
    Given.gradient = tensor.ones(shape)
    with pytest.raises(
        RuntimeError,
        match=r"Function GivenBackward returned an invalid gradient at index 0 - got \[.*\] but expected shape "
        r"compatible with \[2\]: give a gradient of the input's shape",
    ):
        Given.apply(leaf(1, 2)).sum().backward()


def test_wrong_devices_from_a_function(device: drv.Device) -> None:
    Given.gradient = tensor.ones(2)
    with pytest.raises(
        RuntimeError,
        match="Function GivenBackward returned an invalid gradient at index 0 - expected device .*cuda.* but got .*cpu",
    ):
        Given.apply(leaf(1, 2, device="cuda")).sum().backward()


def test_wrong_numbers_from_a_function() -> None:
    Given.gradient = tensor.ones(2), tensor.ones(2)
    with pytest.raises(
        RuntimeError,
        match=r"function GivenBackward returned an incorrect number of gradients \(expected 1, got 2\): backward",
    ):
        Given.apply(leaf(1, 2)).sum().backward()


def test_wrong_shapes_from_a_hook() -> None:
    def halve(g: Any) -> Any:
        return g[:1]

    x = leaf(1, 2)
    x.register_hook(halve)
    with pytest.raises(
        RuntimeError,
        match=r"hook 'halve' has changed the size of value: \[1\] instead of \[2\]. Return a tensor of",
    ):
        (x * 2).sum().backward()


# Leaves


def test_writes_to_leaves() -> None:
    x = leaf(1, 2)
    for write in (
        lambda: x.add_(1),
        lambda: x[:1].mul_(2),
        lambda: x.__setitem__(0, 3.0),
        lambda: x.view(2, 1).zero_(),
    ):
        with pytest.raises(
            RuntimeError, match=r"leaf Variable that requires grad .* do so inside tensor.no_grad"
        ):
            write()
    assert x.tolist() == [1, 2]
    with tensor.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3]


def test_flags_of_results() -> None:
    y = leaf(1) * 2
    y.requires_grad_()
    with pytest.raises(
        RuntimeError, match=r"change requires_grad flags of leaf variables.*use var.detach|detach\(\)"
    ):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"Can't detach views in-place: use detach\(\) instead"):
        y[:1].detach_()
    y.detach_()
    assert y.is_leaf


def test_assigned_gradients(device: drv.Device) -> None:
    x = leaf(1, 2)
    for wrong, message in (
        (tensor.ones(3), r"shape \[3\], expected \[2\]"),
        (tensor.ones(2, dtype=tensor.float64), "dtype tensor.float64, expected tensor.float32"),
        (tensor.ones(2, device="cuda"), "device .*cuda.* expected .*cpu"),
    ):
        with pytest.raises(RuntimeError, match=f"assigned grad has {message}"):
            x.grad = wrong
    with pytest.raises(TypeError, match="expected to be a Tensor or None but got int"):
        x.grad = 3
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x
    assert x.grad is None
    x.grad = tensor.ones(2)
    del x.grad
    assert x.grad is None


def test_values_of_tensors_that_require_grad() -> None:
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        leaf(1).numpy()
    with pytest.raises(RuntimeError, match=r"out=... arguments don't support automatic differentiation"):
        tensor.add(leaf(1), 1, out=tensor.empty(1))
