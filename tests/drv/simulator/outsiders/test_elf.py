"""Shared libraries that Python writes."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from drv.simulator.outsiders import stubs
from drv.simulator.outsiders.elf import shared_library

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS = [f"function_{number}" for number in range(300)]
STATUS = 3
RESOLVER = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)


def load(folder: Path) -> tuple[Any, Any]:
    path = folder / "libsample.so.1"
    path.write_bytes(shared_library("libsample.so.1", FUNCTIONS, "sample", STATUS))
    library = ctypes.CDLL(str(path))
    return library, (ctypes.c_size_t * (len(FUNCTIONS) + stubs.RESERVED)).in_dll(library, "sample_slots")


def test_functions_go_where_the_table_says(tmp_path: Path) -> None:
    library, slots = load(tmp_path)
    twice = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: 2 * value)
    slots[stubs.RESERVED + 7] = ctypes.cast(twice, ctypes.c_void_p).value
    assert library.function_7(21) == 42
    assert library.function_8(21) == STATUS


def test_the_resolver_is_asked_once_and_the_arguments_are_kept(tmp_path: Path) -> None:
    library, slots = load(tmp_path)
    types = [ctypes.c_int64] * 9 + [ctypes.c_double] * 9
    form = ctypes.CFUNCTYPE(ctypes.c_double, *types)
    asked, received = [], []
    functions = {
        number: form(lambda *values, number=number: received.append(values) or float(number))
        for number in (0, 150, 299)
    }

    def resolve(number: int) -> int:
        asked.append(number)
        if number not in functions:
            return 0
        address = ctypes.cast(functions[number], ctypes.c_void_p).value
        slots[stubs.RESERVED + number] = address
        return address or 0

    entry = RESOLVER(resolve)
    slots[0] = ctypes.cast(entry, ctypes.c_void_p).value
    values = (*(-(number**9) for number in range(9)), *(number / 7 for number in range(9)))
    for number in (299, 0, 150):
        for _ in range(2):
            assert form((f"function_{number}", library))(*values) == number
    assert asked == [299, 0, 150]
    assert received == [values] * 6
    assert library.function_3() == library.function_3() == STATUS
    assert asked == [299, 0, 150, 3, 3]
    slots[0] = 0


def test_the_end(tmp_path: Path) -> None:
    library, slots = load(tmp_path)
    twice = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: 2 * value)
    entry = RESOLVER(lambda number: ctypes.cast(twice, ctypes.c_void_p).value)
    slots[0] = ctypes.cast(entry, ctypes.c_void_p).value
    slots[stubs.RESERVED + 299] = slots[stubs.RESERVED] = ctypes.cast(twice, ctypes.c_void_p).value
    assert library.function_299(4) == library.function_1(4) == 8
    library.sample_end()
    assert library.function_0(4) == library.function_1(4) == library.function_299(4) == stubs.ENDED
    assert list(slots) == [0, stubs.ENDED, *[0] * len(FUNCTIONS)]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_programs_can_be_linked_with_it(tmp_path: Path) -> None:
    load(tmp_path)
    source = tmp_path / "program.c"
    source.write_text("int function_299(void); int main(void) { return function_299() + 10; }")
    command = ["cc", str(source), "-o", str(tmp_path / "program"), f"-L{tmp_path}", "-l:libsample.so.1"]
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}"], check=True, timeout=120)
    run = subprocess.run([str(tmp_path / "program")], timeout=60, check=False)
    assert run.returncode == STATUS + 10


@pytest.mark.parametrize("make_code", [stubs.x86_64, stubs.aarch64])
def test_code_is_the_same_wherever_it_lies(make_code: stubs.CodeMaker) -> None:
    assert len(make_code(5, 0x10000, 0x20000)[0]) == len(make_code(5, 0x40000, 0x7F0000)[0])
    code, starts = make_code(5, 0x10000, 0x20000)
    assert code == make_code(5, 0x50000, 0x60000)[0]
    assert starts == sorted(starts)
    assert starts[-1] < len(code)


@pytest.mark.parametrize("register", range(18))
@pytest.mark.parametrize("address", [0x20000, 0x20008, 0x37FF8, 0x7654320, 0x8])
def test_loads_of_arm_reach_their_slot(register: int, address: int) -> None:
    # As the architecture's manual has ADRP and LDR (immediate, unsigned offset).
    at = 0x10464
    page, load = stubs._aarch64_load(register, at, address)
    assert page >> 31 == 1
    assert page >> 24 & 0x1F == 0b10000
    distance = (page >> 5 & 0x7FFFF) << 2 | page >> 29 & 3
    distance -= (distance >> 20) << 21
    assert page & 31 == load & 31 == load >> 5 & 31 == register
    assert load >> 22 == 0b1111100101
    assert (at >> 12 << 12) + (distance << 12) + (load >> 10 & 0xFFF) * 8 == address


def test_a_library_for_another_machine_says_so() -> None:
    image = shared_library("libcuda.so.1", ["cuInit"], "sample", STATUS, (183, stubs.aarch64))
    assert image[:4] == b"\x7fELF"
    assert struct.unpack_from("<HH", image, 16) == (3, 183)


def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(NotImplementedError, match="x86_64 and aarch64, this is riscv64"):
        shared_library("libcuda.so.1", ["cuInit"], "sample", STATUS)
