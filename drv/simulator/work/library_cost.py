"""What a library call computes, for the model of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProductCost:
    """``batch`` products of ``(m, k)`` by ``(k, n)``.

    Attributes
    ----------
    unit : str
        In what it is computed: ``f16``, ``bf16``, ``tf32``, ``f32``, ``f64``, ``s8``; ``c`` before it for complex.
    bytes_moved : int
        Bytes of the factors and the result, and of what the result is added to.
    """

    m: int
    n: int
    k: int
    batch: int
    unit: str
    bytes_moved: int

    @property
    def flops(self) -> int:
        """Floating point operations: two for each multiply-add, four times that for complex numbers."""
        return 2 * self.m * self.n * self.k * self.batch * (4 if self.unit.startswith("c") else 1)


@dataclass(frozen=True, slots=True)
class TransformCost:
    """``batch`` Fourier transforms of ``sizes``, ``bytes_moved`` of input and output together."""

    sizes: tuple[int, ...]
    batch: int
    element_bytes: int
    bytes_moved: int


LibraryCost = ProductCost | TransformCost
