"""Matrix products of the simulated cuBLAS: ``gemm`` in all its forms."""

# ruff: noqa: N815 - the names are C's

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.bindings.cublas import cublasComputeType_t as Compute
from drv.bindings.library_types import cudaDataType as Type
from drv.simulator.work.simulated_library import ProductCost

from .cublas_state import NOT_SUPPORTED, POINTER, CublasState, call, number, refuse_value
from .library_call import Driver, Refusal
from .matrix_layout import Layout, require_leading, require_operations, require_sizes
from .matrix_products import DTYPES, Rule, operate, product_rule
from .strided_memory import load, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.memory.library_memory import LibraryMemory

_COMPUTE = {
    Type.CUDA_R_32F: Compute.CUBLAS_COMPUTE_32F,
    Type.CUDA_R_64F: Compute.CUBLAS_COMPUTE_64F,
    Type.CUDA_C_32F: Compute.CUBLAS_COMPUTE_32F,
    Type.CUDA_C_64F: Compute.CUBLAS_COMPUTE_64F,
}
_KNOWN_TYPES = frozenset(Type)
_KNOWN_COMPUTE = frozenset(Compute)
_ALGORITHMS = frozenset([*range(-1, 24), *range(99, 116), 999])
_INTEGERS = (Compute.CUBLAS_COMPUTE_32I, Compute.CUBLAS_COMPUTE_32I_PEDANTIC)


@dataclass(frozen=True, slots=True)
class Product:
    """A checked ``C = alpha * op(A) @ op(B) + beta * C``: everything of a call but its addresses and scalars."""

    label: str
    rule: Rule
    transa: int
    transb: int
    a: Layout
    b: Layout
    c: Layout
    depth: int

    def run(self, memory: LibraryMemory, alpha: Any, beta: Any, a: int, b: int, c: int) -> None:
        """Compute it on the matrices at these addresses."""
        product = None
        if alpha != 0 and self.depth:
            left = operate(self.a.load(memory, a), self.transa)
            product = self.rule.multiply(left, operate(self.b.load(memory, b), self.transb))
        old = self.c.load(memory, c) if beta != 0 else None
        if product is None and old is None:
            result = np.zeros(self.c.shape, self.c.dtype)
        else:
            result = self.rule.combine(alpha, product, beta, old)
        store(memory, c, result, self.c.strides)

    def cost(self, products: int) -> ProductCost:
        """How much work ``products`` of them are."""
        batch, m, n = self.c.shape
        moved = sum(prod(each.shape) * each.dtype.itemsize for each in (self.a, self.b, self.c))
        return ProductCost(m, n, self.depth, batch * products, self.rule.unit(self.a.dtype), moved * products)

    @property
    def intermediate_bytes(self) -> int:
        """Size of the product before it is rounded to the output's type."""
        batch, m, n = self.c.shape
        return batch * m * n * self.rule.work.itemsize


def _gemm(name: str, data_type: Type) -> Callable[..., None]:
    compute = _COMPUTE[data_type]

    def gemm(
        self: ProductCalls,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        lda: int,
        B: int,
        ldb: int,
        beta: int,
        C: int,
        ldc: int,
        /,
    ) -> None:
        types = (data_type, data_type, data_type, compute, -1)
        sizes = (m, n, k, lda, ldb, ldc, 0, 0, 0, 1)
        self._multiply(name, handle, transa, transb, sizes, types, alpha, A, B, beta, C)

    gemm.__name__ = name
    return call(gemm)


def _gemm_strided_batched(name: str, data_type: Type) -> Callable[..., None]:
    compute = _COMPUTE[data_type]

    def gemm(
        self: ProductCalls,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        lda: int,
        strideA: int,
        B: int,
        ldb: int,
        strideB: int,
        beta: int,
        C: int,
        ldc: int,
        strideC: int,
        batchCount: int,
        /,
    ) -> None:
        types = (data_type, data_type, data_type, compute, -1)
        sizes = (m, n, k, lda, ldb, ldc, strideA, strideB, strideC, batchCount)
        self._multiply(name, handle, transa, transb, sizes, types, alpha, A, B, beta, C)

    gemm.__name__ = name
    return call(gemm)


class ProductCalls(CublasState):
    """Functions that multiply matrices."""

    cublasSgemm = _gemm("cublasSgemm", Type.CUDA_R_32F)
    cublasDgemm = _gemm("cublasDgemm", Type.CUDA_R_64F)
    cublasCgemm = _gemm("cublasCgemm", Type.CUDA_C_32F)
    cublasZgemm = _gemm("cublasZgemm", Type.CUDA_C_64F)
    cublasSgemmStridedBatched = _gemm_strided_batched("cublasSgemmStridedBatched", Type.CUDA_R_32F)
    cublasDgemmStridedBatched = _gemm_strided_batched("cublasDgemmStridedBatched", Type.CUDA_R_64F)
    cublasCgemmStridedBatched = _gemm_strided_batched("cublasCgemmStridedBatched", Type.CUDA_C_32F)
    cublasZgemmStridedBatched = _gemm_strided_batched("cublasZgemmStridedBatched", Type.CUDA_C_64F)

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._products: dict[Any, Product] = {}

    @call
    def cublasGemmEx(
        self,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        Atype: int,
        lda: int,
        B: int,
        Btype: int,
        ldb: int,
        beta: int,
        C: int,
        Ctype: int,
        ldc: int,
        computeType: int,
        algo: int,
        /,
    ) -> None:
        sizes = (m, n, k, lda, ldb, ldc, 0, 0, 0, 1)
        types = (Atype, Btype, Ctype, computeType, algo)
        self._multiply("cublasGemmEx", handle, transa, transb, sizes, types, alpha, A, B, beta, C)

    @call
    def cublasGemmStridedBatchedEx(
        self,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        Atype: int,
        lda: int,
        strideA: int,
        B: int,
        Btype: int,
        ldb: int,
        strideB: int,
        beta: int,
        C: int,
        Ctype: int,
        ldc: int,
        strideC: int,
        batchCount: int,
        computeType: int,
        algo: int,
        /,
    ) -> None:
        sizes = (m, n, k, lda, ldb, ldc, strideA, strideB, strideC, batchCount)
        types = (Atype, Btype, Ctype, computeType, algo)
        self._multiply(
            "cublasGemmStridedBatchedEx", handle, transa, transb, sizes, types, alpha, A, B, beta, C
        )

    @call
    def cublasGemmBatchedEx(
        self,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        Aarray: int,
        Atype: int,
        lda: int,
        Barray: int,
        Btype: int,
        ldb: int,
        beta: int,
        Carray: int,
        Ctype: int,
        ldc: int,
        batchCount: int,
        computeType: int,
        algo: int,
        /,
    ) -> None:
        if batchCount < 0:
            raise refuse_value(f"batchCount is {batchCount}")
        sizes = (m, n, k, lda, ldb, ldc, 0, 0, 0, 1)
        types = (Atype, Btype, Ctype, computeType, algo)
        arrays = (Aarray, Barray, Carray)
        self._multiply(
            "cublasGemmBatchedEx",
            handle,
            transa,
            transb,
            sizes,
            types,
            alpha,
            *arrays[:2],
            beta,
            Carray,
            batchCount,
        )

    def _multiply(
        self,
        name: str,
        handle: int,
        transa: int,
        transb: int,
        sizes: tuple[int, ...],
        types: tuple[int, ...],
        alpha: int,
        a: int,
        b: int,
        beta: int,
        c: int,
        pointers: int | None = None,
    ) -> None:
        """Check a product and queue it; ``pointers`` is how many addresses the arrays ``a``, ``b``, ``c`` hold."""
        state = self._handle(handle)
        key = (name, transa, transb, sizes, types, state.math_mode)
        product = self._products.get(key)
        if product is None:
            product = checked_product(name, transa, transb, sizes, types, state.math_mode)
            if len(self._products) >= 4096:
                self._products.clear()
            self._products[key] = product
        if types[3] in _INTEGERS and (a % 4 or b % 4 or c % 4):
            raise Refusal(NOT_SUPPORTED, "int8 products need A, B and C aligned to 4 bytes")
        factor = self._scalar(state, alpha, product.rule.scale, "alpha")
        old_factor = self._scalar(state, beta, product.rule.scale, "beta")
        if 0 in product.c.shape or pointers == 0:
            return
        workspace = state.workspace

        def run(memory: LibraryMemory) -> None:
            first, second = number(factor, memory), number(old_factor, memory)
            workspace.use(memory, product.intermediate_bytes * (pointers or 1))
            if pointers is None:
                product.run(memory, first, second, a, b, c)
                return
            lists = [load(memory, array, POINTER, (pointers,), (1,)).tolist() for array in (a, b, c)]
            for matrices in zip(*lists, strict=True):
                product.run(memory, first, second, *matrices)

        self._queue(state, product.label, run, product.cost(pointers or 1))


def checked_product(
    name: str, transa: int, transb: int, sizes: tuple[int, ...], types: tuple[int, ...], math_mode: int
) -> Product:
    """The product that a call asks for, by the name it is to have in reports; refused where cuBLAS would refuse it."""
    m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, batch = sizes
    a_type, b_type, c_type, compute, algorithm = types
    require_operations(transa, transb)
    require_sizes(m=m, n=n, k=k, batchCount=batch)
    a_shape = (m, k) if transa == 0 else (k, m)
    b_shape = (k, n) if transb == 0 else (n, k)
    require_leading("lda", lda, a_shape[0])
    require_leading("ldb", ldb, b_shape[0])
    require_leading("ldc", ldc, m)
    if not _KNOWN_TYPES.issuperset(types[:3]):
        raise refuse_value(f"types {types[:3]}: each must be a cudaDataType")
    if compute not in _KNOWN_COMPUTE or algorithm not in _ALGORITHMS:
        raise refuse_value(f"compute type {compute} or algorithm {algorithm} does not exist")
    rule = product_rule(a_type, c_type, compute, math_mode) if a_type == b_type else None
    if rule is None:
        raise Refusal(
            NOT_SUPPORTED,
            f"{Compute(compute).name} of {Type(a_type).name} and {Type(b_type).name} to {Type(c_type).name}",
        )
    if compute in _INTEGERS and (lda % 4 or ldb % 4):
        raise Refusal(NOT_SUPPORTED, f"lda {lda} and ldb {ldb}: int8 products need multiples of 4")
    if min(stride_a, stride_b, stride_c) < 0:
        raise Refusal(NOT_SUPPORTED, "negative strides are not simulated")
    inputs = DTYPES[a_type]
    batches = f" batch={batch}" if batch != 1 else ""
    return Product(
        f"{name} m={m} n={n} k={k}{batches}",
        rule,
        transa,
        transb,
        Layout(inputs, (batch, *a_shape), (stride_a, 1, lda)),
        Layout(inputs, (batch, *b_shape), (stride_b, 1, ldb)),
        Layout(rule.output, (batch, m, n), (stride_c, 1, ldc)),
        k,
    )
