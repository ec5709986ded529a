from __future__ import annotations

from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

ATTRIBUTE = cuda.CUstreamAttrID
POLICY = ATTRIBUTE.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
PRIORITY = ATTRIBUTE.CU_LAUNCH_ATTRIBUTE_PRIORITY


def test_attributes_are_remembered_and_copied(machine: Machine) -> None:
    stream, other = machine.stream(), machine.stream()
    policies = cuda.CUsynchronizationPolicy
    assert machine.cuStreamGetAttribute(stream, POLICY).syncPolicy == policies.CU_SYNC_POLICY_AUTO
    value = cuda.CUstreamAttrValue()
    value.syncPolicy = policies.CU_SYNC_POLICY_YIELD
    machine.cuStreamSetAttribute(stream, POLICY, value)
    assert machine.cuStreamGetAttribute(stream, POLICY).syncPolicy == policies.CU_SYNC_POLICY_YIELD
    machine.cuStreamCopyAttributes(other, stream)
    machine.cuStreamSetAttribute(stream, POLICY, cuda.CUstreamAttrValue(_ptr=value.getPtr()))
    assert machine.cuStreamGetAttribute(other, POLICY).syncPolicy == policies.CU_SYNC_POLICY_YIELD
    value.priority = -3
    machine.cuStreamSetAttribute(stream, PRIORITY, value)
    assert machine.cuStreamGetPriority(stream) == -3
    assert machine.cuStreamGetAttribute(stream, PRIORITY).priority == -3


def test_attributes_are_checked(machine: Machine) -> None:
    stream = machine.stream()
    cluster = ATTRIBUTE.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert machine.status("cuStreamGetAttribute", stream, cluster) == "INVALID_VALUE"
    value = cuda.CUstreamAttrValue()
    assert machine.status("cuStreamSetAttribute", stream, cluster, value) == "INVALID_VALUE"
    assert machine.status("cuStreamSetAttribute", stream, POLICY, value) == "INVALID_VALUE"
    assert machine.status("cuStreamSetAttribute", stream, POLICY, None) == "INVALID_VALUE"
    machine.use(1)
    assert machine.status("cuStreamCopyAttributes", machine.stream(), stream) == "INVALID_VALUE"
