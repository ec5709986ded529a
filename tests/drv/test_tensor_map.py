"""Tensor maps as programs make them, hand them to kernels and record them in graphs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import drv
from drv.compiler import architecture_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Loads a box, of whose bytes shared memory then has the swizzled copy, and writes these to global memory.
SOURCE = r"""
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void load(const __grid_constant__ TensorMap map, int column, int row, unsigned int bytes, unsigned char* out) {
    extern __shared__ __align__(1024) unsigned char box[];
    __shared__ unsigned long long full;
    const unsigned int barrier = __cvta_generic_to_shared(&full), into = __cvta_generic_to_shared(box);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(into), "l"(&map), "r"(column), "r"(row), "r"(barrier) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra again;\n}" :: "r"(barrier) : "memory");
    for (unsigned int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = box[i];
}
"""


@pytest.fixture
def load(device: drv.Device) -> drv.Function:
    if device.compute_capability < (9, 0):
        pytest.skip("needs bulk copies")
    program = drv.compile_program(SOURCE, architecture_of(device), name="load.cu", line_info=True)
    return drv.Module(program.image, device).function("load")


def _copied(array: np.ndarray, device: drv.Device) -> drv.DeviceMemory:
    memory = drv.DeviceMemory(array.nbytes, device)
    drv.copy_to_device(memory, np.ascontiguousarray(array).view(np.uint8))
    return memory


def _box(load: drv.Function, tensor_map: drv.TensorMap, at: Any, column: int, row: int) -> np.ndarray:
    out = drv.DeviceMemory(tensor_map.box_bytes, load.device)
    arguments = (
        tensor_map.at(at), np.int32(column), np.int32(row), np.uint32(tensor_map.box_bytes), out
    )  # fmt: skip
    drv.launch(load, 1, 64, arguments, shared=tensor_map.box_bytes)
    result = np.zeros(tensor_map.box_bytes, np.uint8)
    drv.copy_to_host(result, out)
    return result


def _unswizzled(data: np.ndarray, span: int, row: int) -> np.ndarray:
    """Rows in order: the 16-byte cells of rows of 128 bytes are permuted by the number of the row."""
    lines = data.reshape(-1, 8, 16)
    number = np.arange(len(lines))[:, None] % (span // 16)
    return np.take_along_axis(lines, (np.arange(8) ^ number)[..., None], 1).reshape(-1, row)


def test_a_box_of_rows_with_gaps(load: drv.Function) -> None:
    # 20 rows of 100 numbers, 104 apart.
    array = np.arange(20 * 104, dtype=np.float16).reshape(20, 104)
    memory = _copied(array, load.device)
    tensor_map = drv.TensorMap("float16", (20, 100), (208,), (8, 64), swizzle=128, promotion=256)
    assert tensor_map.box_bytes == 8 * 128
    data = _box(load, tensor_map, memory, 64, 15)
    # Columns behind the 100th and rows behind the 20th are outside.
    expected = np.zeros((8, 64), np.float16)
    expected[:5, :36] = array[15:, 64:100]
    assert (_unswizzled(data, 128, 128).view(np.float16) == expected).all()
    # The same map of other rows.
    data = _box(load, tensor_map, memory.address + 208, 0, -1)
    expected = np.zeros((8, 64), np.float16)
    expected[1:] = array[1:8, :64]
    assert (_unswizzled(data, 128, 128).view(np.float16) == expected).all()


def test_steps_and_what_is_outside(load: drv.Function) -> None:
    array = np.arange(9 * 8, dtype=np.float32).reshape(9, 8)
    memory = _copied(array, load.device)
    tensor_map = drv.TensorMap("float32", (9, 8), (32,), (6, 8), steps=(2, 1), fill="nan")
    assert tensor_map.box_bytes == 3 * 32
    data = _box(load, tensor_map, memory, 0, 5).view(np.float32).reshape(3, 8)
    assert (data[:2] == array[5::2]).all()
    assert np.isnan(data[2]).all()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64", "float64", "bfloat16"])
def test_dtypes(load: drv.Function, dtype: str) -> None:
    own = np.dtype(getattr(ml_dtypes, dtype, dtype))
    columns = 32 // own.itemsize
    array = np.arange(3 * columns).astype(own).reshape(3, columns)
    tensor_map = drv.TensorMap(dtype, (3, columns), (32,), (2, columns))
    data = _box(load, tensor_map, _copied(array, load.device), 0, 1)
    assert (data == array[1:].reshape(-1).view(np.uint8)).all()


def test_a_graph_holds_the_map(load: drv.Function) -> None:
    device = load.device
    array = np.arange(64, dtype=np.uint8).reshape(4, 16)
    memory, out = _copied(array, device), drv.DeviceMemory(64, device)
    tensor_map = drv.TensorMap("uint8", (4, 16), (16,), (4, 16))
    start = drv.prepare(load, (128, "i", "i", "I", "P"))
    stream = drv.Stream(device)
    with drv.capture(stream) as capture:
        start(1, 1, 1, 64, 1, 1, 64, stream.handle, tensor_map.at(memory), 0, 0, 64, out.address)
    del tensor_map
    executable = capture.graph.instantiate()
    for change in (0, 1):
        drv.copy_to_device(memory, array + np.uint8(change), stream=stream)
        executable.launch(stream)
        result = np.zeros((4, 16), np.uint8)
        drv.copy_to_host(result, out, stream=stream)
        stream.synchronize()
        assert (result == array + change).all()


def test_maps_of_many_addresses_by_many_threads(device: drv.Device) -> None:
    if device.compute_capability < (9, 0):
        pytest.skip("needs tensor maps")
    tensor_map = drv.TensorMap("uint8", (4, 16), (16,), (4, 16), device=device)
    first = drv.DeviceMemory(1 << 16, device).address
    alone = drv.TensorMap("uint8", (4, 16), (16,), (4, 16), device=device)
    expected = {address: alone.at(address) for address in range(first, first + 1500 * 16, 16)}
    assert len(set(expected.values())) == 1500
    wrong: list[int] = []

    def ask(start: int) -> None:
        order = [*expected][start:] + [*expected][:start]
        wrong.extend(address for address in order if tensor_map.at(address) != expected[address])

    threads = [threading.Thread(target=ask, args=(start,)) for start in (0, 300, 700, 1100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("complex64", (4, 16), (16,), (4, 16)), {}, "dtype 'complex64': expected one of uint8"),
        (("uint8", (), (), ()), {}, "0 dimensions: it has 1 to 5"),
        (("uint8", (1,) * 6, (16,) * 5, (16,) * 6), {}, "6 dimensions"),
        (("uint8", (4, 16), (16, 1), (4, 16)), {}, "2 strides of 2 dimensions: expected 1"),
        (("uint8", (4, 16), (16,), (16,)), {}, "1 box of 2 dimensions: expected 2"),
        (("uint8", (4, 16), (16,), (4, 16)), {"steps": (1,)}, "1 steps of 2 dimensions"),
        (("uint8", (0, 16), (16,), (4, 16)), {}, r"shape \(0, 16\)"),
        (("uint8", (4.5, 16), (16,), (4, 16)), {}, r"shape \(4.5, 16\): expected a sequence of integers"),
        (("uint8", (4, 16), 16, (4, 16)), {}, "strides 16: expected a sequence of integers"),
        (("uint8", (4, 16), (24,), (4, 16)), {}, r"strides \(24,\): they are multiples of 16"),
        (("uint8", (4, 16), (0,), (4, 16)), {}, r"strides \(0,\)"),
        (("uint8", (4, 16), (1 << 40,), (4, 16)), {}, "below 2\\^40"),
        (("uint8", (4, 16), (16,), (257, 16)), {}, "sizes are from 1 to 256"),
        (("uint8", (4, 16), (16,), (4, 16)), {"steps": (9, 1)}, "from 1 to 8"),
        (("uint8", (4, 16), (16,), (4, 16)), {"steps": (1, 2)}, "the last one is 1"),
        (("uint8", (4, 16), (16,), (4, 16)), {"swizzle": 256}, "swizzle 256: expected one of 0, 32, 64, 128"),
        (("uint8", (4, 16), (16,), (4, 16)), {"promotion": 32}, "promotion 32"),
        (("uint8", (4, 16), (16,), (4, 16)), {"fill": "ones"}, "fill 'ones': expected one of 'zero', 'nan'"),
        (("uint8", (4, 16), (16,), (4, 16)), {"fill": "nan"}, "of uint8, which has no NaN"),
        (("uint8", (4, 16), (16,), (4, 24)), {}, "24 bytes a row, which is no multiple of 16"),
        (("float32", (4, 64), (256,), (4, 64)), {"swizzle": 128}, "256 bytes a row, of which a swizzle permutes 128"),
    ],
)  # fmt: skip
@pytest.mark.simulator_only
def test_what_is_no_tensor_map(
    device: drv.Device, arguments: Sequence[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(drv.InvalidValueError, match=message):
        drv.TensorMap(*arguments, **options)  # type: ignore[misc]


@pytest.mark.simulator_only
def test_addresses_that_cannot_be(device: drv.Device) -> None:
    tensor_map = drv.TensorMap("uint8", (4, 16), (16,), (4, 16))
    for address in (0, 8, 264, -16, 1 << 64):
        with pytest.raises(drv.InvalidValueError, match="no multiple of 16 above 0"):
            tensor_map.at(address)
    for wrong in (None, "memory", 256.0):
        with pytest.raises(drv.InvalidValueError, match="expected an address, or DeviceMemory"):
            tensor_map.at(wrong)  # type: ignore[arg-type]


@pytest.mark.simulator_only
def test_older_devices_have_none() -> None:
    drv.simulator.install(capability=(8, 9))
    with pytest.raises(drv.NotSupportedError, match=r"compute capability 9\.0 and later; device 0 has 8\.9"):
        drv.TensorMap("uint8", (4, 16), (16,), (4, 16))
