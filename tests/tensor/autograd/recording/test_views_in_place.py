"""Writes through views of other dtypes, and views that tensors become in place, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from tests.tensor.comparison import array_of

pytestmark = pytest.mark.parity

M = Any


def _float_view(m: M) -> Any:
    """A view as another dtype takes no part in differentiation, whatever the dtype."""
    x = m.ones(4, requires_grad=True)
    y = x * 2
    result = [y.view(dtype) for dtype in (m.int32, m.complex64, m.float32)]
    result[0].zero_()
    y.sum().backward()
    return [view.requires_grad for view in result], y.tolist(), x.grad.tolist(), y._version


def _of_leaf(m: M) -> Any:
    x = m.ones(4, requires_grad=True)
    x.view(m.int32).zero_()
    x.view(m.complex64)[0] = 2j
    return x.tolist(), x.requires_grad, x.is_leaf


def _other_type_times_recorded(m: M) -> Any:
    w = m.ones(2, dtype=m.complex64, requires_grad=True)
    y = m.ones(4) * 1
    v = y.view(m.complex64)
    v.mul_(w)
    back = v.view(m.float32)
    return y.requires_grad, v.requires_grad, back.requires_grad


def _parts_of_pairs(m: M) -> Any:
    z = m.tensor([1j, 2 + 1j], requires_grad=True)
    w = m.tensor([1 + 2j, 3j], requires_grad=True)
    y = z * 1
    v = m.view_as_real(y)
    v.mul_(m.tensor([[1.0, 2.0], [3, 4]]))
    (y * w).abs().pow(2).sum().backward()
    return z.grad.tolist(), w.grad.tolist(), v.tolist()


def _pairs_of_a_constant(m: M) -> Any:
    w = m.tensor([[1.0, 2.0], [3, 4]], requires_grad=True)
    y = m.tensor([1j, 2 + 1j])
    v = m.view_as_real(y)
    v.mul_(w)
    (y * y).abs().pow(2).sum().backward()
    return w.grad.tolist(), y.requires_grad, v.requires_grad


def _numbers_of_pairs(m: M) -> Any:
    w = m.tensor([1 + 2j, 3j], requires_grad=True)
    y = m.tensor([[1.0, 2.0], [3, 4]])
    v = m.view_as_complex(y)
    v[1:].mul_(w[1:])
    (y * y).sum().backward()
    return w.grad.tolist(), y.requires_grad, v.requires_grad, v.tolist()


def _real_and_imaginary(m: M) -> Any:
    z = m.tensor([1j, 2 + 1j], requires_grad=True)
    w = m.tensor([1.0, 2.0], requires_grad=True)
    y = z * 1
    y.real.mul_(w)
    y.imag[0] = 7.0
    (y * y).abs().pow(2).sum().backward()
    return z.grad.tolist(), w.grad.tolist(), y.tolist()


def _assigned(m: M) -> Any:
    w = m.tensor([1.0, 2.0], requires_grad=True)
    y = m.zeros(2, dtype=m.complex64)
    y.real = w
    y.imag.copy_(w * 3)
    y.abs().pow(2).sum().backward()
    return w.grad.tolist(), y.tolist()


def _view_made_before(m: M) -> Any:
    """Of any dtype: a view has the history that its base gets later."""
    w = m.tensor([1 + 1j, 2.0], requires_grad=True)
    y = m.tensor([1j, 2 + 1j])
    v, u = m.view_as_real(y), y[1]
    y.mul_(w)
    (v.sum() + u.abs().pow(2)).backward()
    return v.requires_grad, u.requires_grad, w.grad.tolist()


def _derivatives_of_derivatives(m: M) -> Any:
    z = m.tensor([1 + 2j, 2 - 1j], requires_grad=True)
    w = m.tensor([[1.0, 2.0], [3, 4]], requires_grad=True)
    y = z * z
    m.view_as_real(y).mul_(w * w)
    (first,) = m.autograd.grad((y * y).abs().pow(2).sum(), (w,), create_graph=True)
    return first.tolist(), [g.tolist() for g in m.autograd.grad(first.sum(), (z, w))]


def _transposed_itself(m: M) -> Any:
    x = m.arange(6.0).reshape(2, 3).clone().requires_grad_()
    y = x * 2
    row = y[0]
    assert y.t_() is y
    y.mul_(m.arange(6.0).reshape(3, 2))
    (y * y).sum().add(row.sum()).backward()
    return tuple(y.shape), y._version, x.grad.tolist()


def _written_after_it_changed(m: M) -> Any:
    x = m.arange(6.0).reshape(2, 3).clone().requires_grad_()
    y = x * 2
    part = y[0:1]
    part.squeeze_(0)
    part.mul_(m.tensor([1.0, 2, 3]))
    y.unsqueeze_(0).transpose_(1, 2).swapaxes(0, 2)[0].mul_(5.0)
    (y * y).sum().backward()
    return tuple(y.shape), tuple(part.shape), x.grad.tolist()


def _any_strides(m: M) -> Any:
    x = m.arange(6.0).reshape(2, 3).clone().requires_grad_()
    y = x * 2
    y.as_strided_((2, 2), (1, 2), 1)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


PROGRAMS = [
    _float_view, _of_leaf, _other_type_times_recorded, _parts_of_pairs, _pairs_of_a_constant, _numbers_of_pairs,
    _real_and_imaginary, _assigned, _view_made_before, _derivatives_of_derivatives, _transposed_itself,
    _written_after_it_changed, _any_strides,
]  # fmt: skip


class _On:
    """This library with its tensors made on a device."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __getattr__(self, name: str) -> Any:
        result = getattr(tensor, name)
        if name not in {"tensor", "ones", "zeros", "arange"}:
            return result
        return lambda *args, **options: result(*args, device=self.place, **options)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__[1:])
def test_like_pytorch(device_name: str, program: Any) -> None:
    torch = pytest.importorskip("torch")
    result, expected = program(_On(device_name)), program(torch)
    flat, other = _flat(result), _flat(expected)
    assert len(flat) == len(other)
    for each, that in zip(flat, other, strict=True):
        assert each == pytest.approx(that, rel=1e-5)


def _flat(found: Any) -> list[Any]:
    return [x for each in found for x in _flat(each)] if isinstance(found, (list, tuple)) else [found]


LEAVES = [
    lambda m: m.ones(2, 3, requires_grad=True),
    # A leaf that is a view of a tensor without gradient.
    lambda m: m.ones(6).view(2, 3).requires_grad_(),
]


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.t_(),
        lambda x: x.unsqueeze_(0),
        lambda x: x[0].squeeze_(0),
        lambda x: x[0].mul_(2),
        lambda x: x.__setitem__(0, 5.0),
        lambda x: x.detach().mul_(2),
        lambda x: x.resize_(3),
        lambda x: x.set_(),
    ],
)
def test_leaves_are_not_written(device_name: str, leaf: Any, write: Any) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = leaf(_On(device_name)), leaf(torch)
    error = None
    try:
        write(theirs)
    except RuntimeError:
        error = RuntimeError
    if error is None:
        write(mine)
    else:
        with pytest.raises(error):
            write(mine)
        assert mine._version == 0
    assert tuple(mine.shape) == tuple(theirs.shape)
    assert mine.is_leaf
    assert (array_of(mine) == array_of(theirs)).all()
