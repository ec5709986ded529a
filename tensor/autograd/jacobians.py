"""Jacobians of functions of tensors, by differences and by backward passes, as matrices of real numbers.

A complex element counts as two real numbers, its parts. The gradient of a real number L with respect to
``z = a + ib`` is ``dL/da + i dL/db`` (the conjugate Wirtinger derivative, as in PyTorch): read as two real numbers
it is the gradient of a real function, so that nothing below differs between real and complex tensors.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from tensor.core.base import wrap

from .differentiation import grad
from .recording.storage_views import as_strided, view_as_real

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    #: Elements of an input, or outputs, as real numbers.
    Reals = NDArray[np.float64]
    #: For each input and each output the derivatives: a row for each number of the input, a column for each
    #: of the output.
    Jacobian = list[list[Reals]]


def reals(tensor: Tensor) -> Reals:
    """A copy of the elements, in row-major order; complex ones as two numbers."""
    array = tensor.detach().cpu().contiguous()._host.reshape(-1)
    if tensor.dtype.is_complex:
        array = array.view(array.real.dtype)
    return array.astype(np.float64)


def of_reals(numbers: Reals, like: Tensor) -> Tensor:
    """The tensor of which :func:`reals` are ``numbers``, with shape, dtype and device of another."""
    array = np.array(numbers, np.float64)
    if like.dtype.is_complex:
        array = array.view(np.complex128)
    result: Tensor = wrap(array).reshape(like.shape).to(device=like.device, dtype=like.dtype)
    return result


class Input:
    """An input of the function, to be changed in place and restored."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.former = reals(tensor)
        self._whole = tensor.detach()
        self._real = view_as_real(self._whole) if tensor.dtype.is_complex else self._whole

    @contextlib.contextmanager
    def changed(self) -> Iterator[Input]:
        """Restore the elements at the end."""
        storage = self.tensor._storage
        version = storage.version
        try:
            yield self
        finally:
            self.move(self.former)
            # What others have saved of this tensor is valid again.
            storage.version = version

    def put(self, number: int, value: float) -> float:
        """Write one real number; gives what it is in the tensor's dtype."""
        real = self._real
        position = np.unravel_index(number, real.shape) if real.shape else ()
        steps = sum(int(at) * step for at, step in zip(position, real.stride(), strict=True))
        as_strided(real, (), (), real.storage_offset() + steps).fill_(value)
        return float(np.array(value, real.dtype.numpy))

    def move(self, numbers: Reals) -> None:
        """Write all real numbers."""
        self._whole.copy_(of_reals(numbers, self._whole))


def by_differences(evaluate: Callable[[], Sequence[Reals]], inputs: Sequence[Input], eps: float) -> Jacobian:
    """Jacobian by central differences: two evaluations for every real number of every input."""
    rows: list[list[list[Reals]]] = []
    for argument in inputs:
        mine: list[list[Reals]] = []
        with argument.changed():
            for number, value in enumerate(argument.former):
                up = argument.put(number, value + eps)
                above = evaluate()
                down = argument.put(number, value - eps)
                below = evaluate()
                argument.put(number, value)
                step = up - down if np.isfinite(value) else 2 * eps
                mine.append(_slopes(above, below, step, value, eps))
        rows.append(mine)
    sizes = [len(output) for output in evaluate()]
    return [
        [
            np.array([row[position] for row in mine]).reshape(len(mine), size)
            for position, size in enumerate(sizes)
        ]
        for mine in rows
    ]


def _slopes(
    above: Sequence[Reals], below: Sequence[Reals], step: float, value: float, eps: float
) -> list[Reals]:
    if not step:
        raise ArithmeticError(
            f"eps={eps} is lost where it is added to an element {value:g} of the input's dtype: pass a larger eps, or "
            "inputs of dtype float64"
        )
    return [(a - b) / step for a, b in zip(above, below, strict=True)]


def along(
    evaluate: Callable[[], Sequence[Reals]], argument: Input, direction: Reals, eps: float
) -> list[Reals]:
    """Derivatives of the outputs as one input moves along a direction: two evaluations."""
    with argument.changed():
        argument.move(argument.former + eps * direction)
        above = evaluate()
        argument.move(argument.former - eps * direction)
        below = evaluate()
    return [(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)]


def backward(output: Tensor, inputs: Sequence[Tensor], numbers: Reals) -> list[Reals | None]:
    """Gradients of the inputs for a gradient of one output; ``None`` where the output does not depend on one."""
    result = grad(output, inputs, of_reals(numbers, output), retain_graph=True, allow_unused=True)
    return [None if each is None else reals(each) for each in result]


def by_backward(outputs: Sequence[Tensor], inputs: Sequence[Input]) -> Jacobian:
    """Jacobian by a backward pass for every real number of every output."""
    tensors = [argument.tensor for argument in inputs]
    jacobian: Jacobian = [[] for _ in inputs]
    for output in outputs:
        count = output.numel() * (2 if output.dtype.is_complex else 1)
        columns = [np.zeros((len(argument.former), count)) for argument in inputs]
        for number in range(count):
            unit = np.zeros(count)
            unit[number] = 1
            for matrix, gradient in zip(columns, backward(output, tensors, unit), strict=True):
                if gradient is not None:
                    matrix[:, number] = gradient
        for mine, matrix in zip(jacobian, columns, strict=True):
            mine.append(matrix)
    return jacobian
