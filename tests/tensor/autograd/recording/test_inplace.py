"""Writes in place, on views and their bases: values, histories and gradients are PyTorch's."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tensor.autograd import grad

if TYPE_CHECKING:
    from collections.abc import Callable


def leaf(*values: float, device: str = "cpu", library: Any = tensor) -> Any:
    return library.tensor(values, dtype=library.float32, device=device, requires_grad=True)


def grid(library: Any, device: str = "cpu") -> Any:
    return library.arange(12, dtype=library.float32, device=device).reshape(3, 4).requires_grad_()


# Programs: each gives what to differentiate, from a 3x4 leaf and a leaf of 4 elements


def write_a_row(x: Any, w: Any) -> Any:
    y = x * 2
    y[1].mul_(3)
    return y


def copy_into_a_row(x: Any, w: Any) -> Any:
    y = x * 2
    y[1].copy_(w)
    return y


def assign_a_row(x: Any, w: Any) -> Any:
    y = x * 2
    y[1] = w * 2
    y[2, 1:3] = 7.0
    return y


def read_the_view_after_the_base_was_written(x: Any, w: Any) -> Any:
    y = x * 2
    view = y[1]
    y.mul_(3)
    return view * w


def read_another_view(x: Any, w: Any) -> Any:
    y = x * 2
    row, column = y[1], y[:, 2]
    row.add_(w)
    return column


def views_of_views(x: Any, w: Any) -> Any:
    y = x * 2
    part = y.t()[1:3]
    part[0].mul_(5)
    part.add_(w[:3])
    return y * y


def written_twice(x: Any, w: Any) -> Any:
    y = x * 2
    row = y[1]
    row.mul_(3)
    y.add_(w)
    row.mul_(2)
    return y


def a_base_without_history(x: Any, w: Any) -> Any:
    y = w.new_zeros(3, 4)
    view = y[1]
    view.add_(w)
    y[0].copy_(x[2])
    return y * view


def views_from_before_the_base_had_a_history(x: Any, w: Any) -> Any:
    y = w.new_zeros(3, 4)
    row, column = y[1], y[:, 2]
    part = row[1:]
    y.copy_(x)
    y[1].mul_(w.detach())
    return column[1] * row + y + part.sum()


def overwritten(x: Any, w: Any) -> Any:
    y = x * 2
    y[1].zero_()
    y[2].fill_(3.0)
    y[0].copy_(w.detach())
    return y


def detached_views_share_memory_but_no_history(x: Any, w: Any) -> Any:
    y = x * 2
    y.detach()[1].zero_()
    return y


def written_without_recording(x: Any, w: Any, library: Any = None) -> Any:
    y = x * 2
    y.data.mul_(10)
    return y


def by_broadcasting(x: Any, w: Any) -> Any:
    y = x * 1
    y.sub_(w)
    y[:, 0].add_(w[0])
    return y


def a_diagonal(x: Any, w: Any) -> Any:
    y = x * 1
    y.diagonal().copy_(w[:3])
    y.diagonal(offset=1).neg_()
    return y


def another_dtype(x: Any, w: Any) -> Any:
    y = x * 1
    y[1].add_(w.double())
    return y


def a_whole_tensor(x: Any, w: Any) -> Any:
    y = x * 1
    z = y.view(4, 3)
    y.mul_(2)
    z.t().add_(1)
    return z * z


def a_leaf_inside(x: Any, w: Any) -> Any:
    y = x.new_ones(2, 4)
    y.mul_(w)
    y[0].sub_(x[0])
    return y


PROGRAMS = [
    write_a_row,
    copy_into_a_row,
    assign_a_row,
    read_the_view_after_the_base_was_written,
    read_another_view,
    views_of_views,
    written_twice,
    a_base_without_history,
    views_from_before_the_base_had_a_history,
    overwritten,
    detached_views_share_memory_but_no_history,
    written_without_recording,
    by_broadcasting,
    a_diagonal,
    another_dtype,
    a_whole_tensor,
    a_leaf_inside,
]


def outcome(library: Any, program: Callable[[Any, Any], Any], device: str = "cpu") -> list[Any]:
    x, w = grid(library, device), leaf(2, 3, 5, 7, library=library, device=device)
    y = program(x, w)
    weights = library.arange(1, y.numel() + 1, dtype=library.float32, device=device).reshape(y.shape)
    (y * weights).sum().backward()
    return [y.tolist(), *(None if leaf.grad is None else leaf.grad.tolist() for leaf in (x, w))]


@pytest.mark.parity
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_pytorch(program: Callable[[Any, Any], Any], device_name: str) -> None:
    torch = pytest.importorskip("torch")
    assert outcome(tensor, program, device_name) == outcome(torch, program)


@pytest.mark.parity
@pytest.mark.parametrize("program", [write_a_row, copy_into_a_row, views_of_views, written_twice])
def test_second_derivatives(program: Callable[[Any, Any], Any]) -> None:
    torch = pytest.importorskip("torch")

    def second(library: Any) -> list[Any]:
        x, w = grid(library), leaf(2, 3, 5, 7, library=library)
        y = program(x * x, w * w)
        first = library.autograd.grad((y * y).sum(), (x, w), create_graph=True, allow_unused=True)
        sum((each * each).sum() for each in first if each is not None).backward()
        return [None if leaf.grad is None else leaf.grad.tolist() for leaf in (x, w)]

    assert second(tensor) == second(torch)


@pytest.mark.parity
def test_names_of_nodes() -> None:
    torch = pytest.importorskip("torch")

    def names(library: Any) -> list[str]:
        x = grid(library)
        y = x * 2
        row = y[1]
        result = [row.grad_fn.name()]
        row.mul_(3)
        result += [y.grad_fn.name(), row.grad_fn.name(), y.grad_fn.next_functions[0][0].name()]
        y.add_(1)
        result += [y.grad_fn.name(), row.grad_fn.name()]
        return result

    assert names(tensor) == [name.removeprefix("torch::autograd::") for name in names(torch)]


def test_versions_are_shared_by_views() -> None:
    x = tensor.zeros(3)
    view, plain = x[1:], x.detach()
    assert x._version == 0
    view.add_(1)
    x.mul_(2)
    with tensor.no_grad():
        plain.zero_()
    assert x._version == view._version == plain._version == 3
    assert x.clone()._version == 0
    x + 1
    x.data.add_(1)
    assert x._version == 4


@pytest.mark.parametrize("kind", [tensor.float32, tensor.float64, tensor.int32, tensor.int64, tensor.float16])
def test_negated_in_place_with_gaps(kind: Any, device_name: str) -> None:
    x = tensor.arange(12, dtype=kind, device=device_name).reshape(3, 4)
    x[:, 2].neg_()
    x.narrow(1, 1, 1).neg_()
    assert x.tolist() == [[0, -1, -2, 3], [4, -5, -6, 7], [8, -9, -10, 11]]


def test_writes_of_complex_numbers_between_two_are_refused_before_they_happen() -> None:
    """A base that starts with half of one: the history has no form for that."""
    memory = tensor.arange(7.0)
    base = memory[1:].detach()
    numbers = tensor.view_as_complex(base[1:5].view(2, 2))
    w = tensor.ones(2, dtype=tensor.complex64, requires_grad=True)
    with pytest.raises(RuntimeError, match="view as tensor.complex64 that starts 4 bytes behind its base"):
        numbers.mul_(w)
    assert memory.tolist() == list(range(7))
    with tensor.no_grad():
        numbers.mul_(w * 2)
    assert memory.tolist() == [0, 1, 4, 6, 8, 10, 6]


# Random programs


def random_program(seed: int) -> Callable[[Any, Any], Any]:
    def program(x: Any, w: Any) -> Any:
        draw = random.Random(seed)
        base = draw.choice([lambda: x * 1, lambda: x.new_zeros(3, 4), lambda: x + w, lambda: x.t() * 2])()
        shown = [base]
        for _ in range(draw.randint(3, 9)):
            one = draw.choice(shown)
            step = draw.randrange(9)
            if step == 0 and one.dim():
                shown.append(one.select(draw.randrange(one.dim()), -1))
            elif step == 1 and one.dim() > 1:
                shown.append(one.t() if one.dim() == 2 else one.unsqueeze(0))
            elif step == 2 and one.dim():
                dim = draw.randrange(one.dim())
                size = one.shape[dim]
                start = draw.randrange(size)
                shown.append(one.narrow(dim, start, draw.randint(1, size - start)))
            elif step == 3:
                one.mul_(draw.choice([2.0, -1.0, 0.5]))
            elif step == 4:
                one.add_(w[draw.randrange(4)])
            elif step == 5:
                one.copy_((w[0] * 3).expand(one.shape) if draw.random() < 0.5 else x[0, 1])
            elif step == 6:
                one.zero_() if draw.random() < 0.3 else one.neg_()
            elif step == 7:
                other = draw.choice(shown)
                if other.shape == one.shape and other is not one:
                    one.add_(other * 2)
            else:
                one.sub_(one.detach() * 0.5)
        return sum((each * (k + 1)).sum() for k, each in enumerate([*shown, x, w])).reshape(1)

    return program


@pytest.mark.parity
@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 200, 50)])
def test_random_programs(seeds: range) -> None:
    torch = pytest.importorskip("torch")
    compared = 0
    for seed in seeds:
        program = random_program(seed)
        try:
            theirs = outcome(torch, program)
        except RuntimeError:
            # PyTorch refuses a few writes to views of what had no history when they were made.
            continue
        compared += 1
        for result, expected in zip(outcome(tensor, program), theirs, strict=True):
            if expected is None or result is None:
                assert (result is None) == (expected is None), seed
            else:
                needed = torch.tensor(expected)
                difference = (torch.tensor(result) - needed).abs().max()
                assert difference <= 1e-4 * max(1.0, needed.abs().max()), seed
    assert compared > 45


def test_views_from_before_are_written() -> None:
    y, w = tensor.zeros(3), leaf(2, 3, 5)
    part = y[1:]
    y.add_(w)
    assert part.requires_grad
    part.mul_(10)
    (y * part[0]).sum().backward()
    # y is (w0, 10 w1, 10 w2), and what is differentiated 10 w1 times its sum.
    assert y.tolist() == [2, 30, 50]
    assert w.grad.tolist() == [30, 10 * 82 + 300, 300]


# Hooks and kept gradients


def test_a_gradient_that_is_kept_is_that_of_the_tensor_now() -> None:
    x = leaf(1, 2, 3)
    y = x * 2
    y.retain_grad()
    view = y[:2]
    view.mul_(3)
    (y * y).sum().backward()
    assert y.grad.tolist() == (2 * y).tolist()
    assert x.grad.tolist() == [144 / 2, 288 / 2, 24]


@pytest.mark.parity
def test_kept_gradients_of_views() -> None:
    torch = pytest.importorskip("torch")

    def kept(library: Any, write: Any) -> Any:
        x = leaf(1, 2, 3, library=library)
        y = x * 2
        row = y[:2]
        row.retain_grad()
        write(y, row)
        (row * row).sum().backward()
        return [row.retains_grad, None if row.grad is None else row.grad.tolist(), x.grad.tolist()]

    for write in (
        lambda y, row: row.mul_(3),
        lambda y, row: y.mul_(3),
        lambda y, row: (y.mul_(3), row.add_(1)),
    ):
        assert kept(tensor, write) == kept(torch, write)


def test_gradients_of_a_part_before_and_after() -> None:
    x = leaf(1, 2, 3)
    y = x * 2
    row = y[:2]
    before = row.sum()
    y.mul_(5)
    after = row.sum()
    assert grad(before, x, retain_graph=True)[0].tolist() == [2, 2, 0]
    assert grad(after, x)[0].tolist() == [10, 10, 0]
