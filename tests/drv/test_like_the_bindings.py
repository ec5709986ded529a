"""The simulated driver's calls against those of ``cuda.bindings``: forms of kernel parameters, numbers of results.

Each test asks the bindings themselves, in a process of its own, over the library of ``fake_libcuda``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_real_bindings import libraries, pytestmark, run

__all__ = ["libraries", "pytestmark"]

_FORMS = """
import ctypes
import enum
import inspect
import numpy as np
import drv
from cuda.bindings import driver as cuda
from tests.drv.simulator.compiled import ptx

drv.Device(0).synchronize()
source = '''
struct Bytes { unsigned char data[8]; };
extern "C" __global__ void keep(Bytes *out, Bytes value) { *out = value; }
extern "C" __global__ void nothing() {}
'''
module = fake.driver.cuModuleLoadData(ptx(source))[1]
keep, nothing = (fake.driver.cuModuleGetFunction(module, name)[1] for name in (b"keep", b"nothing"))
out = drv.DeviceMemory(8)

class Mixed(ctypes.Structure):
    _fields_ = (("small", ctypes.c_int8), ("large", ctypes.c_int32))

class Integral(enum.IntEnum):
    SEVEN = 7

class WithPointer:
    value = ctypes.c_uint64(0x0102030405060708)

    def getPtr(self):
        return ctypes.addressof(self.value)

numbers = [name for name in dir(ctypes) if inspect.isclass(getattr(ctypes, name))]
types = [None, int, "c_int", *dict.fromkeys(getattr(ctypes, name) for name in numbers)]
types = [each for each in types if each is not ctypes.py_object]
values = [
    0, 1, -1, 200, 2**31, 2**40, -(2**63), 2**64, True, 1.5, float("nan"), None, "x", b"x", b"xy",
    np.int32(5), np.float32(2.5), np.bool_(True), cuda.CUdeviceptr(77), cuda.CUresult.CUDA_ERROR_UNKNOWN,
    Integral.SEVEN, Mixed(3, 4), WithPointer(), object(), [1], ctypes.c_void_p(9), ctypes.c_void_p(None),
    *(kind(3) for kind in (ctypes.c_bool, ctypes.c_int, ctypes.c_uint, ctypes.c_int64, ctypes.c_float,
      ctypes.c_double, ctypes.c_byte, ctypes.c_size_t)),
]

def outcome(driver, function, parameters):
    drv.memset(out, 0, 8)
    try:
        status = driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0)[0]
    except Exception as error:
        return type(error).__name__
    if status:
        return status.name
    result = np.zeros(8, np.uint8)
    drv.copy_to_host(result, out)
    return result.tobytes().hex()
"""


def test_parameters_in_every_form(libraries: Path) -> None:
    run(
        libraries,
        _FORMS
        + """
compared, different = 0, []
with np.errstate(all="ignore"):
    for value in values:
        for kind in types:
            parameters = (int(out.address), value), (ctypes.c_void_p, kind)
            # What a host pointer points to is the same, and where it points to differs from call to call.
            expected = outcome(cuda, keep, parameters)
            compared += 1
            if outcome(fake.driver, keep, parameters) != expected:
                different.append((value, kind, expected, outcome(fake.driver, keep, parameters)))
assert compared > 500 and not different, '\\n'.join(map(repr, different))
malformed = ((), ((), ()), ([], []), ((1,), ()), ((1,), (int,)), ((), (), ()), [], "x", 1.5, object())
for parameters in malformed:
    assert outcome(fake.driver, nothing, parameters) == outcome(cuda, nothing, parameters), parameters
""",
    )


def test_every_call_has_as_many_results_as_in_the_bindings(libraries: Path) -> None:
    """A refused call answers with its status and None for each result; asked of all functions, known ones or not."""
    run(
        libraries,
        """
        import ctypes
        import inspect
        import re
        from cuda.bindings import driver as cuda
        from drv.simulator.driver import SimulatedDriver, _result_count

        # A driver that has every function, and each of them refuses.
        refusing = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 801)
        address = ctypes.cast(refusing, ctypes.c_void_p).value

        def find(symbol, place, version, flags, found):
            ctypes.c_void_p.from_address(place).value = address
            return 0

        fake._library._look_up = find

        def plain(annotation):
            kind = getattr(cuda, annotation.split("|")[-1].split("=")[0].strip(), None)
            if kind is None or "tuple" in annotation or "list" in annotation:
                return b"x" if "bytes" in annotation or "char" in annotation else None if "tuple" in annotation else 0
            return next(iter(kind)) if hasattr(kind, "__members__") else kind()

        def refused(function):
            signature = re.match(r"\\w+\\((.*)\\)", function.__doc__.splitlines()[0])[1]
            words = [word.strip() for word in signature.split(",")]
            words = [word for word in words if word and not word.startswith(("list", "tuple"))]
            usual = [plain(word.partition(":")[2].strip()) for word in words]
            others = [
                [*usual[:at], value, *usual[at + 1 :]]
                for at in range(len(usual))
                for value in (0, None, b"x", [], bytearray(8))
            ]
            for arguments in [usual, *others]:
                try:
                    return len(function(*arguments)) - 1
                except (TypeError, AttributeError, ValueError, OverflowError):
                    continue
            return None

        compared = 0
        simulated = SimulatedDriver(fake.driver.options, {})
        for name in dir(cuda):
            if not re.match(r"cu[A-Z]", name) or not callable(getattr(cuda, name)):
                continue
            expected = refused(getattr(cuda, name))
            if expected is None:
                continue
            compared += 1
            assert _result_count(getattr(cuda, name)) == expected, (name, expected)
            if hasattr(SimulatedDriver, name) and name != "cuInit":
                # Not initialised, it refuses every call before it looks at an argument.
                call = getattr(simulated, name)
                count = len(inspect.signature(call).parameters)
                try:
                    answer = call(*[0] * count)
                except TypeError:
                    # One of those that may be called before.
                    assert name.startswith(("cuCheckpoint", "cuGet", "cuLogs")), name
                    continue
                assert len(answer) - 1 == expected or answer[0] == 0, (name, answer, expected)
        assert compared > 450, compared
        """,
    )


@pytest.mark.parametrize(
    "name", ["cuCoredumpSetAttributeGlobal", "cuCoredumpSetAttribute", "cuCoredumpGetAttributeGlobal"]
)
def test_a_refused_coredump_setting(name: str) -> None:
    from .simulator.machine import Machine

    expected = 1 if "Get" in name else 0
    arguments = (0,) if "Get" in name else (0, 0)
    assert len(getattr(Machine().driver, name)(*arguments)) == 1 + expected
