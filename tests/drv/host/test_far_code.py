"""Native code whose parts the system puts far from each other in memory, as in a process that has mapped much."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is mapped as on Linux")

#: Loads code with a table and a constant, and fills the memory nearby, over and over.
_PROGRAM = '''
import ctypes

from drv.host import machine_code

SOURCE = """
@table = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
define double @f{0}(i64 %i) {{
  %place = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %value = load double, ptr %place
  %product = fmul double %value, 1.25e-1
  ret double %product
}}
"""
NOWHERE, PRIVATE, ANONYMOUS, NO_RESERVE = 0, 2, 0x20, 0x4000
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)

loaded = []
for number in range(40):
    image = machine_code.compiled(SOURCE.format(number))
    loaded.append(machine_code.LoadedCode(image, f"module {number}", [f"f{number}"]))
    address = loaded[-1].addresses[f"f{number}"]
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_long)(address)
    assert [function(index) for index in range(4)] == [1.5 / 8, 2.5 / 8, 3.5 / 8, 4.5 / 8]
    for pages in (1, 2, 4, 16):
        for _ in range(40 if number % 2 else 3):
            mmap(None, pages << 12, NOWHERE, PRIVATE | ANONYMOUS, -1, 0)
    mmap(None, 3 << 30, NOWHERE, PRIVATE | ANONYMOUS | NO_RESERVE, -1, 0)
'''


def test_code_reaches_its_constants_however_far_they_are() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
