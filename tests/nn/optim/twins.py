"""The same parameters and gradients in this library and in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Small, empty, 0-dimensional, and of more than one block.
SHAPES = ((3, 5), (), (0,), (7,), (4100,))


class Twins:
    """Parameters of this library (``ours``) and of PyTorch (``theirs``) with the same elements."""

    def __init__(self, device: str, shapes: Any = SHAPES, dtype: str = "float32", seed: int = 0) -> None:
        self.torch: Any = pytest.importorskip("torch")
        self.device, self.dtype = device, dtype
        self.random = np.random.default_rng(seed)
        arrays = [self.array(shape) for shape in shapes]
        self.ours = [self.our(array).requires_grad_() for array in arrays]
        self.theirs = [self.their(array).requires_grad_() for array in arrays]

    def array(self, shape: tuple[int, ...]) -> Any:
        """Random numbers."""
        result = self.random.standard_normal(shape)
        return result + 1j * self.random.standard_normal(shape) if "complex" in self.dtype else result

    def our(self, array: Any) -> Any:
        """Tensor of this library."""
        return tensor.tensor(array, dtype=getattr(tensor, self.dtype), device=self.device)

    def their(self, array: Any) -> Any:
        """Tensor of PyTorch."""
        return self.torch.tensor(array, dtype=getattr(self.torch, self.dtype))

    def set_gradients(self, left_out: tuple[int, ...] = ()) -> None:
        """New gradients for all parameters but some."""
        for number, (a, b) in enumerate(zip(self.ours, self.theirs, strict=True)):
            array = self.array(tuple(b.shape))
            a.grad = None if number in left_out else self.our(array)
            b.grad = None if number in left_out else self.their(array)

    def run(self, make: Callable[[Any, Any], Any], steps: int = 10) -> tuple[Any, Any]:
        """Make an optimizer of each library with ``make(optim, parameters)`` and let it do steps."""
        import nn.optim

        ours, theirs = make(nn.optim, self.ours), make(self.torch.optim, self.theirs)
        for number in range(steps):
            # Parameters that are not used in every step have made fewer steps than others.
            self.set_gradients((1, 3) if number % 3 == 1 else ())
            ours.step()
            theirs.step()
        return ours, theirs

    def assert_same(
        self, ours: Any = None, theirs: Any = None, rtol: float = 2e-5, atol: float = 1e-5
    ) -> None:
        """Assert that parameters are equal, and states too."""
        for a, b in zip(self.ours, self.theirs, strict=True):
            assert_close(a, b, rtol, atol)
        if ours is None:
            return
        for a, b in zip(self.ours, self.theirs, strict=True):
            assert list(ours.state.get(a, {})) == list(theirs.state.get(b, {}))
            for name, value in theirs.state.get(b, {}).items():
                result = ours.state[a][name]
                assert str(result.dtype).split(".")[1] == str(value.dtype).split(".")[1]
                assert_close(result, value, rtol, atol)


def assert_close(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    """Assert that tensors of both libraries have the same elements."""
    a, b = array_of(ours), array_of(theirs)
    dtype = np.complex128 if np.iscomplexobj(b) else np.float64
    assert a.shape == b.shape
    np.testing.assert_allclose(a.astype(dtype), b.astype(dtype), rtol=rtol, atol=atol)
