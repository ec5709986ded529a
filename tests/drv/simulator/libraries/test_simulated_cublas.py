"""The simulated cuBLAS: its signatures, statuses, streams, workspaces and devices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drv
from drv import simulator
from drv.bindings.cublas import Cublas, cublasComputeType_t, cublasMath_t, cublasPointerMode_t
from drv.bindings.library_types import cudaDataType as Type
from drv.bindings.prototypes import prototypes
from drv.simulator.libraries.cublas import SimulatedCublas
from tests.drv.bindings.library_arrays import SINGLE, DeviceArray, column_major, cublas_handle, scalar


@pytest.mark.parametrize("name", list(prototypes(Cublas)))
def test_signatures_are_the_declared_ones(name: str) -> None:
    parameters = inspect.signature(getattr(SimulatedCublas, name)).parameters.values()
    assert [parameter.name for parameter in parameters][1:] == list(prototypes(Cublas)[name].parameters)
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.POSITIONAL_ONLY}


def test_each_runtime_has_its_own_library() -> None:
    first = simulator.install()
    library = first.library("cublas")
    assert isinstance(library, SimulatedCublas)
    assert first.library("cublas") is library
    drv.reset()
    assert simulator.install().library("cublas") is not library
    with pytest.raises(
        drv.InvalidValueError, match="no library 'cusparse': expected one of cublas, cublasLt, cudnn, cufft"
    ):
        drv.runtime().library("cusparse")


class Product:
    """A product that works, whose arguments can be changed."""

    def __init__(self, **runtime: Any) -> None:
        simulator.install(**runtime)
        self.cublas, self.handle = cublas_handle()
        self.a, self.b = (column_major(np.full((4, 4), value, np.float32), 4) for value in (2, 3))
        self.c = column_major(np.zeros((4, 4), np.float32), 4)
        self.one, self.zero = scalar(SINGLE, 1), scalar(SINGLE, 0)
        self.arguments: dict[str, Any] = {
            "handle": self.handle, "transa": 0, "transb": 0, "m": 4, "n": 4, "k": 4, "alpha": self.one.address,
            "A": self.a.address, "Atype": Type.CUDA_R_32F, "lda": 4, "B": self.b.address, "Btype": Type.CUDA_R_32F, "ldb": 4,
            "beta": self.zero.address, "C": self.c.address, "Ctype": Type.CUDA_R_32F, "ldc": 4,
            "computeType": cublasComputeType_t.CUBLAS_COMPUTE_32F, "algo": -1,
        }  # fmt: skip

    def __call__(self, **changed: Any) -> None:
        self.cublas.cublasGemmEx(*{**self.arguments, **changed}.values())


@pytest.mark.parametrize(
    ("changed", "status", "text"),
    [
        ({"handle": 0}, "CUBLAS_STATUS_NOT_INITIALIZED", "0x0 is no cuBLAS handle"),
        ({"transa": 3}, "CUBLAS_STATUS_INVALID_VALUE", "operation 3"),
        ({"m": -1}, "CUBLAS_STATUS_INVALID_VALUE", "m is -1"),
        ({"n": -1}, "CUBLAS_STATUS_INVALID_VALUE", "n is -1"),
        ({"k": -1}, "CUBLAS_STATUS_INVALID_VALUE", "k is -1"),
        ({"lda": 3}, "CUBLAS_STATUS_INVALID_VALUE", "lda is 3: at least 4"),
        ({"k": 5, "transa": 1}, "CUBLAS_STATUS_INVALID_VALUE", "lda is 4: at least 5"),
        ({"ldb": 3}, "CUBLAS_STATUS_INVALID_VALUE", "ldb is 3"),
        ({"n": 6, "transb": 1}, "CUBLAS_STATUS_INVALID_VALUE", "ldb is 4: at least 6"),
        ({"m": 0, "ldc": 0, "lda": 1}, "CUBLAS_STATUS_INVALID_VALUE", "ldc is 0: at least 1"),
        ({"alpha": 0}, "CUBLAS_STATUS_INVALID_VALUE", "alpha is null"),
        ({"beta": 0}, "CUBLAS_STATUS_INVALID_VALUE", "beta is null"),
        ({"beta": 1 << 48}, "CUBLAS_STATUS_INVALID_VALUE", "device address, and the pointer mode is host"),
        ({"Atype": 99}, "CUBLAS_STATUS_INVALID_VALUE", "cudaDataType"),
        ({"computeType": 1}, "CUBLAS_STATUS_INVALID_VALUE", "does not exist"),
        ({"algo": 50}, "CUBLAS_STATUS_INVALID_VALUE", "does not exist"),
        ({"Btype": Type.CUDA_R_16F}, "CUBLAS_STATUS_NOT_SUPPORTED", "CUDA_R_32F and CUDA_R_16F to CUDA_R_32F"),
        ({"Ctype": Type.CUDA_R_64F}, "CUBLAS_STATUS_NOT_SUPPORTED", "COMPUTE_32F"),
        ({"computeType": 64}, "CUBLAS_STATUS_NOT_SUPPORTED", "COMPUTE_16F"),
        (
            {"Atype": Type.CUDA_R_8I, "Btype": Type.CUDA_R_8I, "Ctype": Type.CUDA_R_32I, "computeType": 72, "lda": 6},
            "CUBLAS_STATUS_NOT_SUPPORTED",
            "multiples of 4",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments(changed: dict[str, Any], status: str, text: str) -> None:
    product = Product()
    with pytest.raises(drv.CudaError, match=r"cublasGemmEx\(handle=") as caught:
        product(**changed)
    assert caught.value.status == status
    assert text in str(caught.value)
    np.testing.assert_array_equal(product.c.numpy(), np.zeros((4, 4)))
    product()
    np.testing.assert_array_equal(product.c.numpy(), np.full((4, 4), 24))


def settings_of(product: Product) -> list[Callable[[], object]]:
    cublas, handle = product.cublas, product.handle
    return [
        lambda: cublas.cublasSetMathMode(handle, 7),
        lambda: cublas.cublasSetPointerMode(handle, 2),
        lambda: cublas.cublasSetAtomicsMode(handle, 2),
        lambda: cublas.cublasSetWorkspace(handle, product.a.address + 16, 128),
        lambda: cublas.cublasSetWorkspace(handle, 0, 128),
        lambda: cublas.cublasGemmBatchedEx(
            handle,
            0,
            0,
            4,
            4,
            4,
            product.one.address,
            0,
            0,
            4,
            0,
            0,
            4,
            product.zero.address,
            0,
            0,
            4,
            -1,
            68,
            -1,
        ),
        lambda: cublas.cublasSgemv(
            handle, 0, 4, 4, product.one.address, 0, 4, 0, 0, product.zero.address, 0, 1
        ),
        lambda: cublas.cublasStrsm(handle, 2, 0, 0, 0, 4, 4, product.one.address, 0, 4, 0, 4),
        lambda: cublas.cublasSdot(handle, 4, product.a.address, 1, product.a.address, 1, 0),
        lambda: cublas.cublasSdot(handle, 4, product.a.address, 1, product.a.address, 1, product.c.address),
    ]


@pytest.mark.parametrize("index", range(10))
def test_wrong_settings(index: int) -> None:
    with pytest.raises(drv.InvalidValueError, match="CUBLAS_STATUS_INVALID_VALUE"):
        settings_of(Product())[index]()


def test_settings_are_kept_per_handle() -> None:
    simulator.install()
    cublas, first = cublas_handle()
    second = cublas.cublasCreate()
    assert first != second
    cublas.cublasSetAtomicsMode(first, 1)
    cublas.cublasSetMathMode(first, cublasMath_t.CUBLAS_TF32_TENSOR_OP_MATH | 16)
    assert (cublas.cublasGetAtomicsMode(first), cublas.cublasGetAtomicsMode(second)) == (1, 0)
    assert (cublas.cublasGetMathMode(first), cublas.cublasGetMathMode(second)) == (19, 0)
    assert cublas.cublasGetVersion(first) >= 130000
    assert cublas.cublasGetStatusName(15) == b"CUBLAS_STATUS_NOT_SUPPORTED"
    assert cublas.cublasGetStatusString(3) == b"the resource allocation failed"
    assert cublas.cublasGetStatusName(99) == cublas.cublasGetStatusString(99) == b"unrecognized status"
    cublas.cublasDestroy(first)
    with pytest.raises(drv.InvalidHandleError, match="was destroyed"):
        cublas.cublasGetStream(first)
    with pytest.raises(drv.InvalidHandleError, match="CUBLAS_STATUS_NOT_INITIALIZED"):
        cublas.cublasDestroy(first)


def test_a_handle_needs_a_context() -> None:
    runtime = simulator.install()
    with pytest.raises(drv.InvalidHandleError, match="no context is current"):
        runtime.library("cublas").cublasCreate()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_products_are_asynchronous(schedule: str) -> None:
    """Scalars are read during the call, and may be changed at once."""
    product = Product(schedule=schedule, check="race")
    drv.Device(0).synchronize()
    stream = drv.Stream(drv.Device(0))
    product.cublas.cublasSetStream(product.handle, int(stream.handle))
    product()
    product.one.value = 100.0
    raw = np.empty(64, np.uint8)
    stream.synchronize()
    drv.copy_to_host(raw, product.c.memory)
    np.testing.assert_array_equal(raw.view(np.float32), np.full(16, 24))
    assert not drv.simulator.findings()


def test_lazy_products_have_not_run_when_nothing_waits() -> None:
    product = Product(schedule="lazy")
    drv.Device(0).synchronize()
    stream, other = drv.Stream(drv.Device(0)), drv.Stream(drv.Device(0))
    product.cublas.cublasSetStream(product.handle, int(stream.handle))
    product()
    raw = np.empty(64, np.uint8)
    drv.copy_to_host(raw, product.c.memory, stream=other)
    other.synchronize()
    assert not raw.any()


def test_a_missing_wait_is_a_race() -> None:
    product = Product(check="race")
    drv.Device(0).synchronize()
    first, second = drv.Stream(drv.Device(0)), drv.Stream(drv.Device(0))
    product.cublas.cublasSetStream(product.handle, int(first.handle))
    product()
    product.cublas.cublasSetStream(product.handle, int(second.handle))
    product(A=product.c.address, C=product.a.address)
    with pytest.raises(drv.DataRaceError, match="cublasGemmEx m=4 n=4 k=4"):
        drv.Device(0).synchronize()


def test_neighbouring_columns_are_no_race() -> None:
    """Two products on two streams into the upper and the lower half of one matrix."""
    product = Product(check="race")
    whole = column_major(np.zeros((8, 4), np.float32), 8)
    drv.Device(0).synchronize()
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    for index, stream in enumerate(streams):
        product.cublas.cublasSetStream(product.handle, int(stream.handle))
        product(C=whole.address + 16 * index, ldc=8)
    np.testing.assert_array_equal(whole.numpy(), np.full((8, 4), 24))
    assert not drv.simulator.findings()


@pytest.mark.parametrize("shared", [True, False])
def test_a_workspace_of_two_streams_is_a_race(shared: bool) -> None:
    product = Product(check="race")
    other = column_major(np.zeros((4, 4), np.float32), 4)
    areas = [drv.DeviceMemory(1 << 16) for _ in range(2)]
    drv.Device(0).synchronize()
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    for index, stream in enumerate(streams):
        product.cublas.cublasSetStream(product.handle, int(stream.handle))
        area = areas[0 if shared else index]
        product.cublas.cublasSetWorkspace(product.handle, area.address, area.nbytes)
        product(C=(product.c, other)[index].address)
    if shared:
        with pytest.raises(drv.DataRaceError, match="65536 bytes"):
            drv.Device(0).synchronize()
    else:
        drv.Device(0).synchronize()


def test_setting_a_stream_goes_back_to_the_own_workspace() -> None:
    product = Product()
    area = drv.DeviceMemory(1 << 16)
    drv.memset(area, 0, area.nbytes)
    product.cublas.cublasSetWorkspace(product.handle, area.address, area.nbytes)
    product.cublas.cublasSetStream(product.handle, 0)
    product()
    raw = np.empty(area.nbytes, np.uint8)
    drv.copy_to_host(raw, area)
    assert not raw.any()
    product.cublas.cublasSetWorkspace(product.handle, area.address, area.nbytes)
    product()
    drv.copy_to_host(raw, area)
    assert raw.any()


def test_stray_matrices_are_illegal_addresses() -> None:
    product = Product()
    product(m=400, lda=400, ldc=400)
    with pytest.raises(drv.IllegalAddressError, match="cublasGemmEx m=400 n=4 k=4"):
        drv.Device(0).synchronize()


def test_blocking_launches_say_at_once_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    product = Product()
    with pytest.raises(drv.CudaError, match="CUBLAS_STATUS_EXECUTION_FAILED(.|\n)*read of .* bytes at 0x"):
        product(m=400, lda=400, ldc=400)


def test_results_for_the_host_say_what_went_wrong() -> None:
    product = Product()
    result = scalar(SINGLE, 5)
    with pytest.raises(drv.CudaError, match="ILLEGAL_ADDRESS(.|\n)*read of .* bytes at 0x"):
        product.cublas.cublasSdot(product.handle, 4, 1 << 50, 1, product.b.address, 1, result.address)
    assert result.value == 5


def test_matrices_freed_too_early_are_illegal_addresses() -> None:
    product = Product()
    freed = product.b.memory.address
    product.b.memory.free()
    product(B=freed)
    with pytest.raises(drv.IllegalAddressError, match="freed"):
        drv.Device(0).synchronize()


def test_misaligned_matrices() -> None:
    product = Product()
    product(A=product.a.address + 2, k=1)
    with pytest.raises(drv.MisalignedAddressError, match="float32 elements"):
        drv.Device(0).synchronize()


def test_a_stream_of_another_device_is_refused() -> None:
    product = Product(devices=2)
    stream = drv.Stream(drv.Device(1))
    product.cublas.cublasSetStream(product.handle, int(stream.handle))
    with pytest.raises(drv.CudaError, match="CUBLAS_STATUS_EXECUTION_FAILED.*made on device 0"):
        product()
    product.cublas.cublasSetStream(product.handle, 0)
    drv.Device(1).use()
    with pytest.raises(drv.CudaError, match="CUBLAS_STATUS_EXECUTION_FAILED.*made on device 0"):
        product()


def test_operands_on_a_peer() -> None:
    product = Product(devices=2)
    far = drv.DeviceMemory(64, drv.Device(1))
    drv.copy_to_device(far, product.b.host)
    product.b.memory.free()
    drv.Device(0).enable_peer_access(drv.Device(1))
    drv.Device(0).use()
    product(B=far.address)
    np.testing.assert_array_equal(product.c.numpy(), np.full((4, 4), 24))
    drv.Device(0).disable_peer_access(drv.Device(1))
    drv.Device(0).use()
    product(B=far.address)
    with pytest.raises(drv.IllegalAddressError, match="device 1"):
        drv.Device(0).synchronize()


def test_nothing_runs_with_execute_off() -> None:
    product = Product(execute=False)
    product()
    result = scalar(SINGLE, 5)
    product.cublas.cublasSdot(product.handle, 4, product.a.address, 1, product.b.address, 1, result.address)
    assert result.value == 0
    with pytest.raises(drv.InvalidValueError):
        product(m=-1)


def test_scalars_in_device_memory_are_read_when_the_product_runs() -> None:
    product = Product(schedule="lazy")
    factor = DeviceArray(np.array([1.0, 0.0], np.float32))
    drv.Device(0).synchronize()
    product.cublas.cublasSetPointerMode(product.handle, cublasPointerMode_t.CUBLAS_POINTER_MODE_DEVICE)
    stream = drv.Stream(drv.Device(0))
    product.cublas.cublasSetStream(product.handle, int(stream.handle))
    drv.copy_to_device(factor.memory, np.array([10.0, 0.0], np.float32), stream=stream)
    product(alpha=factor.address, beta=factor.address + 4)
    stream.synchronize()
    np.testing.assert_array_equal(product.c.numpy(), np.full((4, 4), 240))
