from __future__ import annotations

import pytest
from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver import SimulatedDriver
from drv.simulator.options import parse_options
from tests.drv.simulator.machine import Machine

ATTRIBUTE = cuda.CUdevice_attribute


def test_nothing_works_before_init() -> None:
    driver = SimulatedDriver(parse_options())
    assert driver.cuDeviceGetCount() == (CUresult.CUDA_ERROR_NOT_INITIALIZED, None)
    assert driver.cuMemGetInfo() == (CUresult.CUDA_ERROR_NOT_INITIALIZED, None, None)
    assert driver.cuDriverGetVersion() == (CUresult.CUDA_SUCCESS, 13000)
    assert driver.cuInit(1) == (CUresult.CUDA_ERROR_INVALID_VALUE,)
    assert driver.cuInit(0) == (CUresult.CUDA_SUCCESS,)
    assert driver.cuDeviceGetCount() == (CUresult.CUDA_SUCCESS, 1)


@pytest.mark.parametrize(("devices", "visible"), [(0, None), (2, ""), (1, "3")])
def test_no_visible_device_is_an_error_of_init(devices: int, visible: str | None) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    driver = SimulatedDriver(parse_options(devices=devices), environment)
    assert driver.cuInit(0) == (CUresult.CUDA_ERROR_NO_DEVICE,)


def test_visible_devices_are_renumbered() -> None:
    machine = Machine("devices=3,memory=1GiB/2GiB/3GiB", environment={"CUDA_VISIBLE_DEVICES": "2,0"})
    assert machine.cuDeviceGetCount() == 2
    assert machine.cuDeviceTotalMem(0) == 3 << 30
    assert machine.cuDeviceTotalMem(1) == 1 << 30
    assert int(machine.cuDeviceGet(1)) == 1
    assert machine.status("cuDeviceGet", 2) == "INVALID_DEVICE"
    assert machine.cuDeviceCanAccessPeer(0, 1) == 1


def test_a_device_can_be_chosen_by_uuid() -> None:
    plain = Machine(devices=2)
    expected = plain.cuDeviceGetUuid(1).bytes
    text = f"GPU-{expected.hex()[:8]}"
    machine = Machine(devices=2, environment={"CUDA_VISIBLE_DEVICES": text})
    assert machine.cuDeviceGetCount() == 1
    assert machine.cuDeviceGetUuid(0).bytes == expected


def test_identity(machine: Machine) -> None:
    assert machine.cuDeviceGetName(64, 0).rstrip(b"\0") == b"Simulated GPU sm_90"
    assert len(machine.cuDeviceGetName(64, 0)) == 64
    assert machine.cuDeviceGetUuid(0).bytes != machine.cuDeviceGetUuid(1).bytes
    bus = machine.cuDeviceGetPCIBusId(16, 1)
    assert int(machine.cuDeviceGetByPCIBusId(bus)) == 1
    assert machine.status("cuDeviceGetByPCIBusId", b"9999:00:00.0") == "INVALID_DEVICE"


def test_every_attribute_has_a_value(machine: Machine) -> None:
    for attribute in ATTRIBUTE:
        if attribute != ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MAX:
            assert isinstance(machine.cuDeviceGetAttribute(attribute, 0), int)
    assert machine.status("cuDeviceGetAttribute", ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MAX, 0) == "INVALID_VALUE"
    assert machine.status("cuDeviceGetAttribute", 100000, 0) == "INVALID_VALUE"


@pytest.mark.parametrize(
    ("capability", "optin", "per_multiprocessor", "threads"),
    [
        ("7.0", 96, 96, 2048),
        ("7.5", 64, 64, 1024),
        ("8.0", 163, 164, 2048),
        ("8.6", 99, 100, 1536),
        ("9.0", 227, 228, 2048),
        ("9.9", 227, 228, 2048),
    ],
)
def test_attributes_follow_the_capability(
    capability: str, optin: int, per_multiprocessor: int, threads: int
) -> None:
    machine = Machine(capability=capability, multiprocessors=17)

    def attribute(name: str) -> int:
        return machine.cuDeviceGetAttribute(getattr(ATTRIBUTE, f"CU_DEVICE_ATTRIBUTE_{name}"), 0)

    assert attribute("MULTIPROCESSOR_COUNT") == 17
    assert attribute("WARP_SIZE") == 32
    assert attribute("MAX_THREADS_PER_BLOCK") == 1024
    assert attribute("MAX_SHARED_MEMORY_PER_BLOCK") == 48 << 10
    assert attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") == optin << 10
    assert attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR") == per_multiprocessor << 10
    assert attribute("MAX_THREADS_PER_MULTIPROCESSOR") == threads
    assert attribute("UNIFIED_ADDRESSING") == 1
    major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    assert f"{major}.{minor}" == capability
    assert machine.cuDeviceComputeCapability(0) == (major, minor)


def test_error_texts(machine: Machine) -> None:
    assert machine.cuGetErrorName(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS) == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    assert machine.cuGetErrorString(2) == b"out of memory"
    assert machine.status("cuGetErrorName", 12345) == "INVALID_VALUE"
    for error in CUresult:
        assert machine.cuGetErrorString(error)


def test_p2p_attributes_follow_the_peer_matrix() -> None:
    machine = Machine(devices=3, peers="0-1")
    access = cuda.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
    assert machine.cuDeviceGetP2PAttribute(access, 0, 1) == 1
    assert machine.cuDeviceGetP2PAttribute(access, 1, 0) == 0
    assert machine.status("cuDeviceGetP2PAttribute", access, 1, 1) == "INVALID_DEVICE"
    assert [machine.cuDeviceCanAccessPeer(0, other) for other in range(3)] == [0, 1, 0]


def test_properties_as_before_cuda_5(machine: Machine) -> None:
    properties = machine.cuDeviceGetProperties(0)
    assert properties.maxThreadsPerBlock == 1024
    assert properties.maxThreadsDim == [1024, 1024, 64]
    assert properties.maxGridSize == [2**31 - 1, 65535, 65535]
    assert properties.SIMDWidth == 32
    assert properties.sharedMemPerBlock == 48 << 10
    assert machine.status("cuDeviceGetProperties", 9) == "INVALID_DEVICE"
