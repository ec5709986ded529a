"""The part of matrices on one side of a diagonal: ``tril`` and ``triu``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import rearrangement as kernels
from tensor.autograd.recording.inplace import check_in_place, record_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import integers
from tensor.core.base import empty
from tensor.core.layout import contiguous
from tensor.core.plans.copies import check_no_overlap
from tensor.operations.definition import operation
from tensor.operations.reduction import into_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class _Triangle:
    """``device_state.plans[triangle, out layout, layout, diagonal](out, input)``; both may be one tensor."""

    #: Which operand plans write, all of it: compilation asks for this.
    target_operand = 0

    def __init__(self, name: str, *, upper: bool) -> None:
        self.name = name
        self.upper = upper
        self._formula = BackwardFormula(
            f"{name.capitalize()}Backward0", "input", [Derivative(self.__call__, needs="")]
        )

    def plan(self, to: Layout, layout: Layout, diagonal: int) -> Callable[[Tensor, Tensor], None]:
        """What writes the triangles of tensors of ``layout`` to tensors of the layout ``to``."""
        if not layout.device_state.is_cuda:
            # NumPy takes no diagonals that are further away than its integers reach.
            rows, columns = layout.shape[-2:]
            function, at = np.triu if self.upper else np.tril, min(max(diagonal, -rows), columns)

            def on_host(out: Tensor, input: Tensor) -> None:
                out._writable[...] = function(input._host, at)

            return on_host
        device_state = layout.device_state
        launch = kernels.plan_band(
            device_state.native,
            self.name,
            layout.shape,
            layout.dtype,
            to.strides,
            layout.strides,
            diagonal,
            upper=self.upper,
        )
        local = device_state.local

        def run(out: Tensor, input: Tensor) -> None:
            launch(local.stream.handle, out._address, input._address)

        return run

    def __call__(self, input: Tensor, diagonal: int) -> Tensor:
        """A new tensor, recorded."""
        result = self._new(input, diagonal)
        self._formula.record((result,), (input,), context=(diagonal,))
        return result

    def function(self, input: Tensor, diagonal: Any, out: Tensor | None) -> Tensor:
        """A new tensor, or ``out``, as users ask for it."""
        at = self._checked(input, diagonal)
        result = self(input, at)
        return result if out is None else into_out(result, out, self.name)

    def in_place(self, input: Tensor, diagonal: Any) -> Tensor:
        """The tensor itself, of which one side is zero now."""
        at = self._checked(input, diagonal)
        layout = input._layout
        check_in_place(input)
        check_no_overlap(layout)
        layout.device_state.plans[self, layout, layout, at](input, input)
        input._storage.version += 1
        record_in_place(self._formula, input, (input,), context=(at,))
        return input

    def _new(self, input: Tensor, diagonal: int) -> Tensor:
        layout = input._layout
        result = empty(contiguous[layout.shape, layout.dtype, layout.device_state])
        layout.device_state.plans[self, result._layout, layout, diagonal](result, input)
        return result

    def _checked(self, input: Tensor, diagonal: Any) -> int:
        (at,) = integers(((diagonal,),), self.name, "diagonal")
        if len(input._layout.shape) < 2:
            raise RuntimeError(
                f"{self.name}: input tensor must have at least 2 dimensions, got shape {list(input._layout.shape)}"
            )
        return at


_TRIL = _Triangle("tril", upper=False)
_TRIU = _Triangle("triu", upper=True)


@operation()
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangles of matrices (the last two dimensions), with zeros above.

    Parameters
    ----------
    diagonal
        The last that is kept; 0 is the main one, positive ones are above it.

    Raises
    ------
    RuntimeError
        For fewer than two dimensions.

    Examples
    --------
    >>> tensor.tril(tensor.tensor([[1, 2, 3], [4, 5, 6]]))
    tensor([[1, 0, 0],
            [4, 5, 0]])
    """
    return _TRIL.function(input, diagonal, out)


@operation()
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangles of matrices (the last two dimensions), with zeros below.

    Parameters
    ----------
    diagonal
        The last that is kept; 0 is the main one, positive ones are above it.

    Raises
    ------
    RuntimeError
        For fewer than two dimensions.

    Examples
    --------
    >>> tensor.triu(tensor.tensor([[1, 2, 3], [4, 5, 6]]), diagonal=1)
    tensor([[0, 2, 3],
            [0, 0, 6]])
    """
    return _TRIU.function(input, diagonal, out)


@operation(namespace="")
def tril_(input: Tensor, diagonal: int = 0) -> Tensor:
    """Set the elements above a diagonal of matrices (the last two dimensions) to 0.

    Parameters
    ----------
    diagonal : int
        The last diagonal that is kept; 0 is the main one, positive ones are above it.

    Raises
    ------
    RuntimeError
        If there are fewer than two dimensions, or the tensor is a leaf that requires a gradient.

    Examples
    --------
    >>> tensor.tensor([[1, 2], [3, 4]]).tril_()
    tensor([[1, 0],
            [3, 4]])
    """
    return _TRIL.in_place(input, diagonal)


@operation(namespace="")
def triu_(input: Tensor, diagonal: int = 0) -> Tensor:
    """Set the elements below a diagonal of matrices (the last two dimensions) to 0.

    Parameters
    ----------
    diagonal : int
        The first diagonal that is kept; 0 is the main one, positive ones are above it.

    Raises
    ------
    RuntimeError
        If there are fewer than two dimensions, or the tensor is a leaf that requires a gradient.

    Examples
    --------
    >>> tensor.tensor([[1, 2], [3, 4]]).triu_()
    tensor([[1, 2],
            [0, 4]])
    """
    return _TRIU.in_place(input, diagonal)
