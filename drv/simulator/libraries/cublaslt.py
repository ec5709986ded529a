"""The simulated cuBLASLt: the functions of :class:`drv.bindings.cublaslt.CublasLt`, by the products of the simulated cuBLAS.

An epilogue (:mod:`.cublaslt_epilogues`) is computed on the accumulated product, before it is rounded to the result's type, as
NVIDIA's kernels do.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from drv.bindings.cublas import cublasStatus_t
from drv.bindings.cublaslt import HeuristicResult
from drv.bindings.cublaslt import cublasLtEpilogue_t as Epilogue
from drv.bindings.cublaslt import cublasLtMatmulDescAttributes_t as Desc
from drv.bindings.cublaslt import cublasLtMatmulPreferenceAttributes_t as Preference
from drv.bindings.cublaslt import cublasLtMatrixLayoutAttribute_t as Matrix
from drv.simulator.unexecuted import remember

from .cublas_products import Product, checked_product
from .cublas_state import (
    NOT_SUPPORTED,
    VERSION,
    WORKSPACE_ALIGNMENT,
    CublasState,
    Handle,
    Workspace,
    call,
    number,
    refuse_value,
)
from .cublaslt_epilogues import Finish
from .library_call import Refusal
from .matrix_products import operate
from .strided_memory import store

if TYPE_CHECKING:
    from drv.simulator.driver import SimulatedDriver
    from drv.simulator.memory.library_memory import LibraryMemory
    from drv.simulator.work.simulated_library import ProductCost

#: ctypes of attributes, whose bytes are read where a call says.
_DESC_TYPES: dict[int, Any] = {
    Desc.CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: ctypes.c_int32,
    Desc.CUBLASLT_MATMUL_DESC_SCALE_TYPE: ctypes.c_int32,
    Desc.CUBLASLT_MATMUL_DESC_POINTER_MODE: ctypes.c_int32,
    Desc.CUBLASLT_MATMUL_DESC_TRANSA: ctypes.c_int32,
    Desc.CUBLASLT_MATMUL_DESC_TRANSB: ctypes.c_int32,
    Desc.CUBLASLT_MATMUL_DESC_EPILOGUE: ctypes.c_uint32,
    Desc.CUBLASLT_MATMUL_DESC_BIAS_POINTER: ctypes.c_uint64,
    Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: ctypes.c_uint64,
    Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: ctypes.c_int64,
    Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: ctypes.c_int64,
    Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: ctypes.c_int32,
    Desc.CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: ctypes.c_int32,
}
_MATRIX_TYPES: dict[int, Any] = {
    Matrix.CUBLASLT_MATRIX_LAYOUT_TYPE: ctypes.c_uint32,
    Matrix.CUBLASLT_MATRIX_LAYOUT_ORDER: ctypes.c_int32,
    Matrix.CUBLASLT_MATRIX_LAYOUT_ROWS: ctypes.c_uint64,
    Matrix.CUBLASLT_MATRIX_LAYOUT_COLS: ctypes.c_uint64,
    Matrix.CUBLASLT_MATRIX_LAYOUT_LD: ctypes.c_int64,
    Matrix.CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: ctypes.c_int32,
    Matrix.CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: ctypes.c_int64,
}
_PREFERENCE_TYPES: dict[int, Any] = dict.fromkeys(Preference, ctypes.c_uint32) | {
    Preference.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: ctypes.c_uint64
}
#: Bytes to which the matrices of an algorithm are aligned, unless preferences say otherwise.
_ALIGNMENT = 256
_ALIGNMENTS = tuple(each for each in Preference if "_ALIGNMENT_" in each.name)
#: Marks an algorithm of this library.
_MARK = 0x6C746D6D
_COLUMN_MAJOR = 0


@dataclass(slots=True)
class Described:
    """An object: its attributes by their numbers, and the ctypes of those that can be set."""

    types: dict[int, Any]
    values: dict[int, int] = field(default_factory=dict)

    def set(self, attribute: int, address: int, nbytes: int) -> None:
        """Set an attribute to the bytes at ``address``."""
        c_type = self.types.get(attribute)
        if c_type is None:
            raise Refusal(NOT_SUPPORTED, f"attribute {attribute} is not simulated")
        if nbytes != ctypes.sizeof(c_type) or not address:
            raise refuse_value(
                f"attribute {attribute} has {ctypes.sizeof(c_type)} bytes, {nbytes} were given"
            )
        self.values[attribute] = c_type.from_address(address).value


@dataclass(frozen=True, slots=True)
class _Operation:
    """A checked operation, but for its addresses and scalars."""

    product: Product
    finish: Finish

    def run(
        self,
        memory: LibraryMemory,
        alpha: Any,
        beta: Any,
        addresses: tuple[int, int, int, int],
        vector: int,
        auxiliary: int,
    ) -> None:
        a, b, c, d = addresses
        product, rule, finish = self.product, self.product.rule, self.finish
        left = operate(product.a.load(memory, a), product.transa)
        right = operate(product.b.load(memory, b), product.transb)
        old = product.c.load(memory, c) if beta != 0 else None
        total = rule.total(alpha, rule.multiply(left, right), beta, old)
        total = finish.applied(memory, product, total, vector, auxiliary)
        store(memory, d, total.astype(rule.output, copy=False), product.c.strides)
        finish.sum_factor(memory, product, left, right, vector)

    def cost(self) -> ProductCost:
        """How much work it is."""
        cost = self.product.cost(1)
        return replace(cost, bytes_moved=cost.bytes_moved + self.finish.nbytes(self.product))


class SimulatedCublasLt(CublasState):
    """cuBLASLt on a simulated driver."""

    def __init__(self, driver: SimulatedDriver) -> None:
        super().__init__(driver)
        self._objects: dict[int, Described] = {}
        self._identifiers = count(0x6100_0000_0000, 64)
        self._checked: dict[Any, _Operation] = {}
        if not driver.execute:
            self.cublasLtMatmul = self._unexecuted(driver)  # type: ignore[method-assign]

    @call
    def cublasLtCreate(self, /) -> int:
        return self._new_handle()

    @call
    def cublasLtDestroy(self, lightHandle: int, /) -> None:
        self._handle(lightHandle)
        del self._handles[lightHandle]

    def cublasLtGetVersion(self, /) -> int:
        return VERSION

    @call
    def cublasLtMatmulDescCreate(self, computeType: int, scaleType: int, /) -> int:
        identifier = self._describe(_DESC_TYPES)
        values: dict[int, int] = {
            Desc.CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: computeType,
            Desc.CUBLASLT_MATMUL_DESC_SCALE_TYPE: scaleType,
        }
        self._objects[identifier].values.update(values)
        return identifier

    @call
    def cublasLtMatrixLayoutCreate(self, dataType: int, rows: int, cols: int, ld: int, /) -> int:
        identifier = self._describe(_MATRIX_TYPES)
        values = (dataType, _COLUMN_MAJOR, rows, cols, ld, 1, 0)
        self._objects[identifier].values.update(zip(Matrix, values, strict=True))
        return identifier

    @call
    def cublasLtMatmulPreferenceCreate(self, /) -> int:
        return self._describe(_PREFERENCE_TYPES)

    @call
    def cublasLtMatmulDescSetAttribute(
        self, matmulDesc: int, attr: int, buf: int, sizeInBytes: int, /
    ) -> None:
        self._object(matmulDesc, _DESC_TYPES, "matmulDesc").set(attr, buf, sizeInBytes)

    @call
    def cublasLtMatrixLayoutSetAttribute(
        self, matLayout: int, attr: int, buf: int, sizeInBytes: int, /
    ) -> None:
        self._object(matLayout, _MATRIX_TYPES, "matLayout").set(attr, buf, sizeInBytes)

    @call
    def cublasLtMatmulPreferenceSetAttribute(
        self, pref: int, attr: int, buf: int, sizeInBytes: int, /
    ) -> None:
        self._object(pref, _PREFERENCE_TYPES, "pref").set(attr, buf, sizeInBytes)

    @call
    def cublasLtMatmulDescDestroy(self, matmulDesc: int, /) -> None:
        self._object(matmulDesc, _DESC_TYPES, "matmulDesc")
        del self._objects[matmulDesc]

    @call
    def cublasLtMatrixLayoutDestroy(self, matLayout: int, /) -> None:
        self._object(matLayout, _MATRIX_TYPES, "matLayout")
        del self._objects[matLayout]

    @call
    def cublasLtMatmulPreferenceDestroy(self, pref: int, /) -> None:
        self._object(pref, _PREFERENCE_TYPES, "pref")
        del self._objects[pref]

    @call
    def cublasLtMatmulAlgoGetHeuristic(
        self,
        lightHandle: int,
        operationDesc: int,
        Adesc: int,
        Bdesc: int,
        Cdesc: int,
        Ddesc: int,
        preference: int,
        requestedAlgoCount: int,
        heuristicResultsArray: int,
        /,
    ) -> int:
        self._handle(lightHandle)
        preferred = self._object(preference, _PREFERENCE_TYPES, "preference").values
        if requestedAlgoCount < 1 or not heuristicResultsArray:
            raise refuse_value(f"requestedAlgoCount is {requestedAlgoCount}")
        product = self._operation(operationDesc, Adesc, Bdesc, Cdesc, Ddesc).product
        alignments = [preferred.get(each, _ALIGNMENT) for each in _ALIGNMENTS]
        result = HeuristicResult.from_address(heuristicResultsArray)
        result.algo.data[:] = [_MARK, hash(product.label) & 0xFFFFFFFF, min(alignments), 0, 0, 0, 0, 0]
        room = preferred.get(Preference.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0)
        result.workspaceSize = min(room, product.intermediate_bytes)
        result.state = cublasStatus_t.CUBLAS_STATUS_SUCCESS
        return 1

    @call
    def cublasLtMatmul(
        self,
        lightHandle: int,
        computeDesc: int,
        alpha: int,
        A: int,
        Adesc: int,
        B: int,
        Bdesc: int,
        beta: int,
        C: int,
        Cdesc: int,
        D: int,
        Ddesc: int,
        algo: int,
        workspace: int,
        workspaceSizeInBytes: int,
        stream: int,
        /,
    ) -> None:
        state = self._handle(lightHandle)
        operation = self._operation(computeDesc, Adesc, Bdesc, Cdesc, Ddesc)
        product = operation.product
        values = self._objects[computeDesc].values
        vector = values.get(Desc.CUBLASLT_MATMUL_DESC_BIAS_POINTER, 0)
        auxiliary = values.get(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 0)
        operation.finish.check_addresses(vector, auxiliary)
        if workspace % WORKSPACE_ALIGNMENT:
            raise refuse_value(f"workspace {workspace:#x} is not aligned to {WORKSPACE_ALIGNMENT} bytes")
        if algo:
            self._check_algorithm(algo, product, (A, B, C, D))
        state = Handle(
            state.device, stream, pointer_mode=values.get(Desc.CUBLASLT_MATMUL_DESC_POINTER_MODE, 0)
        )
        factor = self._scalar(state, alpha, product.rule.scale, "alpha")
        old_factor = self._scalar(state, beta, product.rule.scale, "beta")
        scratch = Workspace(workspace, workspaceSizeInBytes)
        if 0 in product.c.shape:
            return

        def run(memory: LibraryMemory) -> None:
            scratch.use(memory, product.intermediate_bytes)
            first, second = number(factor, memory), number(old_factor, memory)
            operation.run(memory, first, second, (A, B, C, D), vector, auxiliary)

        self._queue(state, product.label, run, operation.cost())

    def _check_algorithm(self, algo: int, product: Product, addresses: tuple[int, ...]) -> None:
        mark, label, alignment, *_ = (ctypes.c_uint64 * 8).from_address(algo)
        if mark != _MARK or label != hash(product.label) & 0xFFFFFFFF:
            raise refuse_value("the algorithm is for another product")
        if any(address % alignment for address in addresses):
            raise Refusal(
                NOT_SUPPORTED,
                f"the algorithm needs matrices aligned to {alignment} bytes, as the preferences said",
            )

    def _describe(self, types: dict[int, Any]) -> int:
        identifier = next(self._identifiers)
        self._objects[identifier] = Described(types)
        return identifier

    def _object(self, identifier: int, types: dict[int, Any], name: str) -> Described:
        known = self._objects.get(identifier)
        if known is None or known.types is not types:
            raise refuse_value(f"{name} {identifier:#x} does not exist, or was destroyed")
        return known

    def _operation(self, operation: int, a: int, b: int, c: int, d: int) -> _Operation:
        described = self._object(operation, _DESC_TYPES, "operationDesc").values
        matrices = [
            self._object(each, _MATRIX_TYPES, f"{name}desc").values
            for each, name in zip((a, b, c, d), "ABCD", strict=True)
        ]
        epilogue = described.get(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, Epilogue.CUBLASLT_EPILOGUE_DEFAULT)
        auxiliary = (
            described.get(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0),
            described.get(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 0),
            described.get(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, -1),
        )
        transa = described.get(Desc.CUBLASLT_MATMUL_DESC_TRANSA, 0)
        transb = described.get(Desc.CUBLASLT_MATMUL_DESC_TRANSB, 0)
        attributes = tuple(tuple(each[attribute] for each in matrices) for attribute in Matrix)
        types, orders, rows, columns, leading, batches, _ = attributes
        compute = described[Desc.CUBLASLT_MATMUL_DESC_COMPUTE_TYPE]
        scale = described[Desc.CUBLASLT_MATMUL_DESC_SCALE_TYPE]
        bias_type = described.get(Desc.CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, types[3])
        # All that is checked below: what was accepted once says nothing about other batches, orders or types.
        key = compute, scale, bias_type, epilogue, auxiliary, transa, transb, attributes
        known = self._checked.get(key)
        if known is not None:
            return known
        if set(orders) != {_COLUMN_MAJOR} or set(batches) != {1}:
            raise Refusal(NOT_SUPPORTED, "batches, and orders other than column-major, are not simulated")
        if bias_type != types[3]:
            raise Refusal(NOT_SUPPORTED, "a bias of another type than the result is not simulated")
        depth = columns[0] if transa == 0 else rows[0]
        first = (rows[0], columns[0]) if transa == 0 else (columns[0], rows[0])
        second = (rows[1], columns[1]) if transb == 0 else (columns[1], rows[1])
        result = first[0], second[1]
        if first[1] != second[0] or {(rows[2], columns[2]), (rows[3], columns[3])} != {result}:
            raise refuse_value(f"{first} times {second} is no {(rows[3], columns[3])}")
        if types[2:] != (types[3], types[3]) or leading[2] != leading[3]:
            raise Refusal(NOT_SUPPORTED, "C and D of different types or leading dimensions are not simulated")
        sizes = (*result, depth, *leading[:3], 0, 0, 0, 1)
        product = checked_product(
            "cublasLtMatmul", transa, transb, sizes, (types[0], types[1], types[3], compute, -1), 0
        )
        if scale != product.rule.scale:
            raise Refusal(NOT_SUPPORTED, f"scalars of another type than {product.rule.scale.name}")
        finish = Finish.of(epilogue, product, types[3], *auxiliary)
        # In reports the epilogue is part of the function's name.
        label = product.label.replace("cublasLtMatmul", f"cublasLtMatmul{finish.name}", 1)
        known = self._checked[key] = _Operation(replace(product, label=label), finish)
        return known

    def _unexecuted(self, driver: SimulatedDriver) -> Any:
        checked = self.cublasLtMatmul
        accepted, thread, faults = driver.accepted.of("cublasLtMatmul"), driver.thread, driver.inject.asked

        def call_again(*arguments: Any) -> None:
            context = accepted.get(arguments)
            if context is None or not thread.contexts or thread.contexts[-1] is not context or faults:
                checked(*arguments)
                remember(driver, accepted, arguments)

        return call_again
