"""Mistakes at the surface: the class of the error is PyTorch's, and the message says what was given and expected."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import drv
import tensor

from .comparison import outcome
from .expressions import assert_expression, value

#: An expression, and what its error's text must have.
CASES: list[tuple[str, str]] = [
    # No tensors
    ("m.sum([1, 2])", "argument 'input' .*must be Tensor, not list"),
    ("m.sum(None)", "argument 'input' .*must be Tensor, not NoneType"),
    ("m.add([1], m.ones(1, **on))", "add.*must be (a )?Tensor.*not list"),
    ("m.matmul(m.ones(2, **on), [1, 2])", "must be (a )?Tensor, not list"),
    ("m.reshape('x', (1,))", "argument 'input' .*must be Tensor, not str"),
    ("m.softmax(np.ones(2), 0)", "argument 'input' .*must be Tensor, not (numpy.)?ndarray"),
    ("m.transpose(3, 0, 1)", "argument 'input' .*must be Tensor, not int"),
    ("m.cat([m.ones(1, **on), 2])", "expected Tensor as element 1 in argument .*, but got int"),
    ("m.cat([m.ones(1, **on), None])", "expected Tensor as element 1 in argument .*, but got NoneType"),
    ("m.cat(3)", "argument 'tensors' .*must be tuple of Tensors, not int"),
    ("m.stack([1, 2])", "expected Tensor as element 0 in argument .*, but got int"),
    ("m.gather(m.ones(2, **on), 0, [0])", "argument 'index' .*must be Tensor, not list"),
    ("m.numel(3)", "argument 'input' .*must be Tensor, not int"),
    ("m.ones(2, **on) + [1, 2]", "unsupported operand|must be (a )?Tensor|not list"),
    ("m.ones(2, **on) + 'a'", "unsupported operand|must be (a )?Tensor|not str"),
    ("m.ones(2, **on) @ 3", "unsupported operand"),
    ("m.ones(2, **on).copy_('a')", "must be (a )?Tensor, not str"),
    ("m.ones(2, **on).add_(None)", "must be (a )?Tensor.*not NoneType"),
    # Shapes
    (
        "m.ones(2, 3, **on) + m.ones(2, 4, **on)",
        r"size of tensor a \(3\) must match .* tensor b \(4\) .* dimension 1",
    ),
    ("m.ones(2, 3, **on) @ m.ones(4, 5, **on)", "2x3 and 4x5"),
    ("m.ones(2, 3, **on).reshape(4, 2)", r"shape '\[4, 2\]' is invalid for input of size 6"),
    ("m.ones(2, 3, **on).view(-1, -1)", "only one dimension can be inferred"),
    (
        "m.histogramdd(m.ones(3, 2, **on), [2, 2], range=[0.0, 1.0])",
        "for a 2-dimensional histogram range should have 4 elements, but got 2",
    ),
    (
        "m.histogram(m.ones(3, **on), 2, range=[0.0, 1.0, 2.0])",
        "for a 1-dimensional histogram range should have 2 elements, but got 3",
    ),
    ("m.ones(2, 3, **on).view(5, -1)", r"shape '\[5, -1\]' is invalid for input of size 6"),
    ("m.ones(2, 3, **on).view(-2, 3)", r"invalid shape dimension -2"),
    ("m.ones(2, 3, **on).t().view(6)", "view size is not compatible .* Use .reshape"),
    (
        "m.ones(2, 3, **on).expand(4, 3)",
        r"expanded size of the tensor \(4\) must match the existing size \(2\)",
    ),
    ("m.ones(2, 3, **on).expand(3)", "must be greater or equal to the number of dimensions"),
    ("m.cat([m.ones(2, 3, **on), m.ones(3, 4, **on)])", "Sizes of tensors must match except in dimension 0"),
    ("m.cat([])", "non-empty"),
    ("m.stack([m.ones(2, **on), m.ones(3, **on)])", "equal size.*2.*3"),
    ("m.stack([])", "non-empty"),
    ("m.ones(2, 3, **on).t_().mv(m.ones(3, **on))", "size mismatch"),
    ("m.ones(2, **on).dot(m.ones(3, **on))", "2.*3"),
    ("m.ones(2, **on).mm(m.ones(2, 2, **on))", "must be a matrix|2-D|2D"),
    ("m.ones(2, 3, **on)[2]", "index 2 is out of bounds for dimension 0 with size 2"),
    ("m.ones(2, 3, **on)[0, 0, 0]", "too many indices for tensor of dimension 2"),
    ("m.ones(2, 3, **on)[:, 5]", "index 5 is out of bounds for dimension 1 with size 3"),
    ("m.ones((), **on)[0]", "invalid index of a 0-dim tensor"),
    ("m.ones(2, **on)['a']", "indices|index"),
    ("m.ones(4, **on)[::-1]", "step must be greater than zero"),
    (
        "m.ones(2, 3, **on).squeeze(5)",
        r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 5\)",
    ),
    ("m.ones(2, 3, **on).sum(2)", "Dimension out of range"),
    ("m.ones(2, 3, **on).sum((0, 0))", "dim 0 appears multiple times"),
    ("m.ones(2, 3, **on).transpose(0, 3)", "Dimension out of range"),
    ("m.ones(2, 3, **on).permute(0)", "number of dimensions.*2.*1|1.*2"),
    ("m.ones(2, 3, **on).permute(0, 0)", "duplicate dims|repeated dim|multiple times"),
    ("m.ones(2, 3, **on).unsqueeze(4)", "Dimension out of range"),
    ("m.ones(6, **on).split(0)", "split_size|chunk"),
    ("m.ones(6, **on).split([1, 2])", "sum exactly to 6"),
    ("m.ones(6, **on).chunk(0)", "chunks.*greater than 0"),
    ("m.ones(6, **on).narrow(0, 4, 3)", "exceeds dimension size"),
    ("m.ones(6, **on).unflatten(0, (4, 2))", "4.*2|6"),
    ("m.ones(2, 3, **on).copy_(m.ones(4, **on))", r"tensor a \(3\) must match .* tensor b \(4\)"),
    ("m.ones(2, **on).item()", "a Tensor with 2 elements cannot be converted to Scalar"),
    ("m.ones(2, 3, **on).fill_(m.ones(2, **on))", "0-dimension value tensor"),
    ("m.ones(0, 3, **on).argmax(0)", "argmax"),
    ("m.ones(2, 2, **on).resize_(-1)", "negative"),
    ("m.zeros(2, -3, **on)", r"negative dimension -3: \[2, -3\]"),
    ("m.zeros(2**40, 2**40, **on)", "1099511627776"),
    # Dtypes
    (
        "m.arange(3, **on).requires_grad_()",
        "Only Tensors of floating point and complex dtype can require gradients",
    ),
    ("m.ones(2, **on) & 1", "not implemented for|Float"),
    ("~m.ones(2, **on)", "not implemented for|Float|integer"),
    (
        "m.ones(2, dtype=m.bool, **on) - m.ones(2, dtype=m.bool, **on)",
        r"Subtraction, the `?-`? operator, with two bool",
    ),
    ("-m.ones(2, dtype=m.bool, **on)", r"Negation, the `?-`? operator, on a bool"),
    ("m.arange(3, **on).mean()", "floating point or complex"),
    ("m.arange(2, **on).add_(1.5)", "result type Float can't be cast|cannot be cast|can't be cast"),
    ("m.ones(2, dtype=m.complex64, **on) < 1", "not implemented for|complex"),
    ("m.ones(2, 2, **on) @ m.ones(2, 2, dtype=m.float64, **on)", "same dtype|float64|Double"),
    ("m.ones(3, **on)[m.ones(1, **on)]", "tensors used as indices must be long|int"),
    (
        "m.ones(3, **on).gather(0, m.ones(1, **on))",
        "Expected dtype int32 or int64 for index, but got tensor.float32",
    ),
    ("m.ones(2, **on).to(m.float3)", "has no attribute 'float3'"),
    ("m.view_as_complex(m.ones(3, **on))", "last dimension of size 2"),
    ("m.ones(2, **on).imag", "complex"),
    ("m.arange(2, **on) ** -1", "negative integer powers"),
    # Names of arguments
    ("m.sum(m.ones(2, **on), dims=0)", "dims"),
    ("m.ones(2, **on).sum(axes=0)", "axes"),
    ("m.zeros(2, type=m.float32, **on)", "type"),
    ("m.cat(m.ones(2, **on), dimension=0)", "dimension"),
    ("m.ones(2, **on).clamp(low=1)", "low"),
    ("m.ones(2, **on).reshape()", "shape"),
    ("m.ones(2, **on).transpose(0)", "dim1"),
    ("m.ones(2, **on).gather(0)", "index"),
    ("m.ones(2, **on).unknown", "unknown"),
    ("m.unknown", "unknown"),
    # Values
    ("m.ones(2, **on).clamp()", "At least one of 'min' or 'max'|at least one of 'min' or 'max'"),
    ("m.full((2,), 1e300, **on)", "without overflow"),
    ("m.ones(2, dtype=m.int8, **on).fill_(300)", "without overflow"),
    ("m.meshgrid(m.ones(2, **on), indexing='zz')", "zz"),
    ("m.div(m.ones(2, **on), 2, rounding_mode='up')", "up"),
    ("m.ones(2, **on).norm(p='max')", "max"),
    ("m.einsum('ij,jk', m.ones(2, 2, **on))", "operand"),
    ("m.ones(2, **on).retain_grad()", "requires_grad=False|does not require|can't retain_grad"),
    ("m.ones(2, **on).backward()", "does not require grad"),
    (
        "m.ones(2, requires_grad=True, **on).backward()",
        "grad can be implicitly created only for scalar outputs",
    ),
    ("m.ones(2, requires_grad=True, **on).add_(1)", "leaf Variable that requires grad"),
    ("m.ones(2, requires_grad=True, **on).numpy()", r"Use tensor.detach\(\).numpy\(\)"),
    ("m.ones(1, **on).expand(3).add_(1)", "more than one element of the written-to tensor"),
    ("m.device('gpu')", "gpu"),
    ("m.zeros(2, device='gpu')", "gpu"),
    ("m.zeros(2, device='cuda:x')", "cuda:x"),
    ("m.manual_seed('x')", "x|int|str"),
    ("hash(m.Size([1])) and {}[m.ones(1, **on)]", ""),
]


#: Where PyTorch raises another class, which says less.
ANOTHER_CLASS = {
    "m.ones(2, **on)['a']",
    "m.manual_seed('x')",
    "m.ones(2, 3, **on).unflatten(0, (4, 2))",
}


@pytest.mark.parametrize(("text", "message"), CASES, ids=[text for text, _ in CASES])
def test_mistakes(text: str, message: str, device_name: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        value(text, tensor, device_name)
    assert "_layout" not in str(caught.value)
    assert "_storage" not in str(caught.value)


@pytest.mark.parity
@pytest.mark.parametrize("text", [text for text, _ in CASES if text not in ANOTHER_CLASS])
def test_mistakes_are_pytorchs(text: str, device_name: str) -> None:
    assert_expression(text, device_name)


def test_nothing_has_changed_after_a_mistake(device_name: str) -> None:
    x = tensor.arange(6.0, device=device_name).reshape(2, 3)
    version = x._version
    for text in (
        "x.add_(m.ones(4, **on))",
        "x.copy_(m.ones(4, **on))",
        "x.fill_(m.ones(2, **on))",
        "x.resize_(-1)",
        "x.t_(1)",
        "x.unsqueeze_(9)",
        "x.int().requires_grad_()",
        "m.add(x, 1, out=m.ones(2, 3, dtype=m.int32, **on))",
        "x.masked_fill_(m.ones(4, dtype=m.bool, **on), 0)",
        "x.clamp_()",
        "x.__setitem__(9, 1)",
        "x.__setitem__((0, 0, 0), 1)",
    ):
        with pytest.raises((RuntimeError, TypeError, IndexError, ValueError)):
            value(text, tensor, device_name, x=x)
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]], text
        assert (x.shape, x.stride(), x._version) == ((2, 3), (3, 1), version), text
        assert not x.requires_grad


def test_operands_on_different_devices() -> None:
    drv.simulator.install(devices=2, check="race")
    host, first, second = tensor.ones(2), tensor.ones(2, device="cuda:0"), tensor.ones(2, device="cuda:1")
    for text in (
        "x + y",
        "x @ y",
        "m.cat([x, y])",
        "m.stack([x, y])",
        "m.where(x > 0, x, y)",
        "x.add_(y)",
        "m.maximum(x, y)",
        "x.dot(y)",
        "x.index_add(0, m.zeros(2, dtype=m.int64, device=x.device), y)",
    ):
        for x, y in ((host, first), (first, host), (first, second)):
            with pytest.raises(RuntimeError, match="same device|on one device") as caught:
                value(text, tensor, x=x, y=y)
            for each in (x, y):
                assert str(each.device) in str(caught.value), text


def test_devices_that_are_not_there() -> None:
    drv.simulator.install(devices=2)
    for text in (
        "m.zeros(2, device=7)",
        "m.zeros(2, device='cuda:200')",
        "m.ones(2).cuda(7)",
        "m.ones(2).to(200)",
        "m.tensor([1], device='cuda:7')",
        "m.cuda.set_device(200)",
        "m.cuda.get_device_name(7)",
    ):
        with pytest.raises(RuntimeError, match="no device (7|200): 2 visible, expected 0 to 1"):
            value(text, tensor)


def test_memory_that_is_not_there(device_name: str) -> None:
    for text in (
        "m.empty(1 << 44, **on)",
        "m.ones(1 << 44, **on)",
        "m.zeros(1, **on).expand(1 << 44).clone()",
    ):
        with pytest.raises(RuntimeError, match=r"[Tt]ried to allocate|not enough"):
            value(text, tensor, device_name)
    assert tensor.ones(3, device=device_name).sum().item() == 3


NOT_TENSORS: list[Any] = [[1, 2], "x", None, 3, 2.5, np.ones(2), {}, object()]


def _functions() -> list[str]:
    """Public functions whose first argument is called ``input``."""
    result = []
    for name in tensor.__all__:
        function = getattr(tensor, name)
        if inspect.isfunction(function):
            first = next(iter(inspect.signature(function).parameters), None)
            if first == "input":
                result.append(name)
    return result


@pytest.mark.parametrize("name", _functions())
def test_functions_name_the_argument_that_is_no_tensor(name: str) -> None:
    function = getattr(tensor, name)
    argument = inspect.signature(function).parameters.values()
    others = [
        1 for each in argument if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    for wrong in NOT_TENSORS:
        result = outcome(function, wrong, *others[1:])
        if isinstance(wrong, (int, float)) and not isinstance(result, Exception):
            continue
        assert isinstance(result, (TypeError, ValueError, RuntimeError)), f"{name}({wrong!r}): {result!r}"
        assert "attribute" not in str(result), f"{name}({wrong!r}): {result!r}"
