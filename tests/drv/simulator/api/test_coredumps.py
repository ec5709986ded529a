from __future__ import annotations

import os

import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

SETTING = cuda.CUcoredumpSettings
ENABLED = SETTING.CU_COREDUMP_ENABLE_ON_EXCEPTION
FILE = SETTING.CU_COREDUMP_FILE
PIPE = SETTING.CU_COREDUMP_PIPE
TRIGGER = SETTING.CU_COREDUMP_ENABLE_USER_TRIGGER


def test_settings_of_a_context_and_of_all(machine: Machine) -> None:
    assert machine.cuCoredumpGetAttribute(ENABLED) is False
    assert machine.cuCoredumpGetAttribute(SETTING.CU_COREDUMP_TRIGGER_HOST) is True
    assert machine.cuCoredumpGetAttribute(FILE).endswith(str(os.getpid()).encode())
    machine.cuCoredumpSetAttributeGlobal(FILE, b"all")
    assert machine.cuCoredumpGetAttribute(FILE) == machine.cuCoredumpGetAttributeGlobal(FILE) == b"all"
    machine.cuCoredumpSetAttribute(FILE, b"mine")
    assert machine.cuCoredumpGetAttribute(FILE) == b"mine"
    assert machine.cuCoredumpGetAttributeGlobal(FILE) == b"all"
    machine.use(1)
    assert machine.cuCoredumpGetAttribute(FILE) == b"all"
    machine.cuCoredumpSetAttribute(ENABLED, True)
    assert machine.cuCoredumpGetAttribute(ENABLED) is True


def test_settings_are_checked(machine: Machine) -> None:
    assert machine.status("cuCoredumpGetAttribute", 77) == "INVALID_VALUE"
    assert machine.status("cuCoredumpGetAttribute", SETTING.CU_COREDUMP_MAX) == "INVALID_VALUE"
    assert machine.status("cuCoredumpSetAttribute", FILE, b"x" * 1024) == "INVALID_VALUE"
    assert machine.status("cuCoredumpSetAttribute", PIPE, b"pipe") == "NOT_SUPPORTED"
    machine.cuCoredumpSetAttributeGlobal(PIPE, b"pipe")
    machine.cuCoredumpSetAttributeGlobal(TRIGGER, True)
    assert machine.status("cuCoredumpSetAttributeGlobal", PIPE, b"other") == "NOT_PERMITTED"
    with pytest.raises(TypeError):
        machine.driver.cuCoredumpSetAttribute(FILE, 5)


def test_callbacks_are_known_by_their_handles(machine: Machine) -> None:
    start = machine.cuCoredumpRegisterStartCallback(0x1000, 0)
    complete = machine.cuCoredumpRegisterCompleteCallback(0x1000, 0)
    assert machine.status("cuCoredumpDeregisterStartCallback", complete) == "INVALID_VALUE"
    machine.cuCoredumpDeregisterStartCallback(start)
    machine.cuCoredumpDeregisterCompleteCallback(complete)
    assert machine.status("cuCoredumpDeregisterStartCallback", start) == "INVALID_VALUE"
    assert machine.status("cuCoredumpRegisterStartCallback", 0, 0) == "INVALID_VALUE"
