from __future__ import annotations

import numpy as np

from tests.drv.simulator.machine import Machine


def reads(machine: Machine, stream: object, address: int) -> str:
    """Let a library on ``stream`` read four bytes at ``address``."""
    assert machine.driver.library_call(stream, "reader", lambda memory: memory.read(address, 4))[0] == 0
    return machine.status("cuStreamSynchronize", stream)


def test_a_device_needs_peer_access_to_read_another(machine: Machine) -> None:
    memory = machine.device_memory(64)
    machine.use(1)
    stream = machine.stream()
    machine.cuCtxEnablePeerAccess(machine.contexts[0], 0)
    assert reads(machine, stream, memory) == "SUCCESS"
    machine.cuCtxDisablePeerAccess(machine.contexts[0])
    assert reads(machine, stream, memory) == "ILLEGAL_ADDRESS"
    report = machine.driver.fault_report()
    assert report is not None
    assert "device 1" in report


def test_access_is_one_way(machine: Machine) -> None:
    machine.use(1)
    memory = machine.device_memory(64)
    machine.cuCtxEnablePeerAccess(machine.contexts[0], 0)
    machine.use(0)
    assert reads(machine, machine.stream(), memory) == "ILLEGAL_ADDRESS"


def test_errors(machine: Machine) -> None:
    peer = machine.contexts[1]
    assert machine.status("cuCtxEnablePeerAccess", machine.contexts[0], 0) == "INVALID_CONTEXT"
    assert machine.status("cuCtxEnablePeerAccess", peer, 1) == "INVALID_VALUE"
    assert machine.status("cuCtxDisablePeerAccess", peer) == "PEER_ACCESS_NOT_ENABLED"
    machine.cuCtxEnablePeerAccess(peer, 0)
    assert machine.status("cuCtxEnablePeerAccess", peer, 0) == "PEER_ACCESS_ALREADY_ENABLED"
    assert machine.status("cuCtxEnablePeerAccess", 12345, 0) == "INVALID_CONTEXT"


def test_the_peer_matrix_is_obeyed() -> None:
    machine = Machine(devices=2, peers="0-1")
    machine.cuCtxEnablePeerAccess(machine.contexts[1], 0)
    machine.use(1)
    assert machine.status("cuCtxEnablePeerAccess", machine.contexts[0], 0) == "PEER_ACCESS_UNSUPPORTED"


def test_copies_need_no_peer_access() -> None:
    machine = Machine(devices=2, peers="none", schedule="lazy")
    first = machine.device_memory(64)
    machine.poke(first, np.arange(64))
    machine.use(1)
    second, stream = machine.device_memory(64), machine.stream()
    machine.cuMemcpyPeerAsync(second, machine.contexts[1], first, machine.contexts[0], 64, stream)
    machine.cuStreamSynchronize(stream)
    assert (machine.peek(second, 64) == np.arange(64)).all()


def test_reset_takes_peer_access_back(machine: Machine) -> None:
    machine.cuCtxEnablePeerAccess(machine.contexts[1], 0)
    machine.cuDevicePrimaryCtxReset(1)
    machine.cuDevicePrimaryCtxRetain(1)
    machine.cuCtxEnablePeerAccess(machine.contexts[1], 0)


def test_a_synchronous_peer_copy_is_serialised_with_both_contexts() -> None:
    machine = Machine(devices=2, schedule="lazy")
    first = machine.device_memory(64)
    machine.cuMemsetD8Async(first, 5, 64, machine.stream())
    machine.use(1)
    second, stream, side = machine.device_memory(64), machine.stream(), machine.stream()
    machine.cuMemcpyPeer(second, machine.contexts[1], first, machine.contexts[0], 64)
    host, array = machine.pinned(64)
    machine.cuMemcpyDtoHAsync(host, second, 64, side)
    assert not array.any()
    machine.cuStreamSynchronize(side)
    assert (array == 5).all()
    machine.mark(stream, "later")
    assert machine.log == []
