"""Machine code of functions that ask where they go: what a shared library written by Python consists of.

Each exported function is a stub that jumps to the address in its slot. While the slot is empty it asks the resolver,
whose address is in the first slot, for the address that belongs to the function's number, with the arguments of the
call kept as they are; so nothing is made for a function that no program calls. Without a resolver, or an address from
it, the call answers with the number in the second slot. The last function of a library empties the slots for good: it
is for the end of the process, when no Python can be called any more, and calls then answer :data:`ENDED`.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Callable

#: ``CUDA_ERROR_DEINITIALIZED``.
ENDED = 4
SLOT_BYTES = 8
#: Slots before those of the functions: the resolver, and the answer without one.
RESERVED = 2

#: Code for that many functions, when it and the slots lie at those addresses, and where in it each function, and the
#: one that empties the slots, begins.
CodeMaker = Callable[[int, int, int], tuple[bytes, list[int]]]


def machine() -> tuple[int, CodeMaker]:
    """ELF's number of this machine's architecture, and the function that makes code for it.

    Raises
    ------
    NotImplementedError
        On an architecture that CUDA does not exist for.
    """
    name = platform.machine()
    try:
        return {"x86_64": (62, x86_64), "aarch64": (183, aarch64)}[name]
    except KeyError:
        raise NotImplementedError(
            f"a library in the place of CUDA's driver can be made on x86_64 and aarch64, this is {name}"
        ) from None


def x86_64(functions: int, text: int, slots: int) -> tuple[bytes, list[int]]:
    """Code for x86-64 under the System V calling convention."""
    code = bytearray(_x86_64_common(slots - text))
    starts = []
    for number in range(functions):
        code += b"\xcc" * (-len(code) % 32)
        start = len(code)
        starts.append(start)
        slot = slots + SLOT_BYTES * (number + RESERVED)
        code += b"\xf3\x0f\x1e\xfa"  # endbr64
        code += b"\x48\x8b\x05" + struct.pack("<i", slot - (text + start + 11))  # mov rax, [slot]
        code += b"\x48\x85\xc0\x74\x02\xff\xe0"  # test rax, rax; jz over; jmp rax
        code += b"\xb8" + struct.pack("<I", number)  # mov eax, number
        code += b"\xe9" + struct.pack("<i", -(len(code) + 5))  # jmp common
    code += b"\xcc" * (-len(code) % 32)
    starts.append(len(code))
    code += b"\xf3\x0f\x1e\xfa"  # endbr64
    at = slots - text
    code += b"\xc7\x05" + struct.pack(
        "<iI", at + SLOT_BYTES - (len(code) + 10), ENDED
    )  # mov dword [status], ENDED
    code += b"\x48\xc7\x05" + struct.pack("<iI", at - (len(code) + 11), 0)  # mov qword [resolver], 0
    code += b"\x48\x8d\x3d" + struct.pack(
        "<i", at + SLOT_BYTES * RESERVED - (len(code) + 7)
    )  # lea rdi, [slots]
    code += b"\xb9" + struct.pack("<I", functions)  # mov ecx, functions
    code += b"\x31\xc0\xf3\x48\xab\xc3"  # xor eax, eax; rep stosq; ret
    return bytes(code), starts


def _x86_64_common(resolver: int) -> bytes:
    """Asks the resolver for the function whose number is in eax, and goes there.

    ``resolver`` is where the resolver's slot is, seen from this code's first byte.
    """
    code = bytearray(b"\x57\x56\x52\x51\x41\x50\x41\x51")  # push rdi, rsi, rdx, rcx, r8, r9
    code += b"\x48\x81\xec\x88\x00\x00\x00"  # sub rsp, 136: aligned to 16 again, and room for xmm0 to xmm7
    for register in range(8):
        code += b"\x0f\x11" + bytes([0x44 | register << 3, 0x24, 16 * register])  # movups [rsp + 16 n], xmm n
    code += b"\x89\xc7"  # mov edi, eax
    code += b"\x48\x8b\x05" + struct.pack("<i", resolver - (len(code) + 7))  # mov rax, [resolver]
    code += b"\x48\x85\xc0\x74\x02\xff\xd0"  # test rax, rax; jz over; call rax
    for register in range(8):
        code += b"\x0f\x10" + bytes([0x44 | register << 3, 0x24, 16 * register])  # movups xmm n, [rsp + 16 n]
    code += b"\x48\x81\xc4\x88\x00\x00\x00"  # add rsp, 136
    code += b"\x41\x59\x41\x58\x59\x5a\x5e\x5f"  # pop r9, r8, rcx, rdx, rsi, rdi
    code += b"\x48\x85\xc0\x74\x02\xff\xe0"  # test rax, rax; jz over; jmp rax
    code += (
        b"\x8b\x05" + struct.pack("<i", resolver + SLOT_BYTES - (len(code) + 6)) + b"\xc3"
    )  # mov eax, [status]; ret
    return bytes(code)


def aarch64(functions: int, text: int, slots: int) -> tuple[bytes, list[int]]:
    """Code for 64-bit ARM under the standard calling convention."""
    words = _aarch64_common(text, slots)
    starts = []
    for number in range(functions):
        start = len(words)
        starts.append(4 * start)
        words += _aarch64_load(17, text + 4 * start, slots + SLOT_BYTES * (number + RESERVED))
        words += [
            0xB4000051,  # cbz x17, over
            0xD61F0220,  # br x17
            0x52800010 | number << 5,  # mov w16, number
            0x14000000 | (-(start + 5)) & 0x3FFFFFF,  # b common
        ]
    starts.append(4 * len(words))
    words += _aarch64_address(0, text + 4 * len(words), slots)
    words += [
        0x52800001 | ENDED << 5,
        0xB9000801,
        0xF801041F,
    ]  # mov w1, ENDED; str w1, [x0, 8]; str xzr, [x0], 16
    words += [0x52800001 | functions << 5]  # mov w1, functions
    words += [0xF800841F, 0x71000421, 0x54FFFFC1]  # str xzr, [x0], 8; subs w1, w1, 1; b.ne back
    words += [0xD65F03C0]  # ret
    return struct.pack(f"<{len(words)}I", *words), starts


def _aarch64_common(text: int, slots: int) -> list[int]:
    """Asks the resolver for the function whose number is in w16, and goes there. It lies at the beginning."""
    words = [0xA9BF7BFD]  # stp x29, x30, [sp, -16]!
    words += [0xA9BF0000 | first + 1 << 10 | 31 << 5 | first for first in (0, 2, 4, 6)]  # stp x0, x1, ...
    words += [0xA9BF0000 | 31 << 10 | 31 << 5 | 8]  # stp x8, xzr, ...
    words += [
        0xADBF0000 | first + 1 << 10 | 31 << 5 | first for first in (0, 2, 4, 6)
    ]  # stp q0, q1, [sp, -32]!
    words += _aarch64_load(17, text + 4 * len(words), slots)
    words += [0x2A1003E0, 0xD2800010]  # mov w0, w16; mov x16, 0
    words += [0xB4000071, 0xD63F0220, 0xAA0003F0]  # cbz x17, over; blr x17; mov x16, x0
    words += [
        0xACC10000 | first + 1 << 10 | 31 << 5 | first for first in (6, 4, 2, 0)
    ]  # ldp q6, q7, [sp], 32
    words += [0xA8C10000 | 31 << 10 | 31 << 5 | 8]  # ldp x8, xzr, [sp], 16
    words += [0xA8C10000 | first + 1 << 10 | 31 << 5 | first for first in (6, 4, 2, 0)]  # ldp x6, x7, ...
    words += [0xA8C17BFD]  # ldp x29, x30, [sp], 16
    words += [0xB4000050, 0xD61F0200]  # cbz x16, over; br x16
    words += _aarch64_load(0, text + 4 * len(words), slots + SLOT_BYTES)
    words += [0xD65F03C0]  # ret
    return words


def _aarch64_page(register: int, at: int, address: int) -> int:
    """``adrp``: the beginning of the 4096 bytes in which ``address`` is."""
    pages = (address >> 12) - (at >> 12)
    return 0x90000000 | register | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _aarch64_address(register: int, at: int, address: int) -> list[int]:
    """``adrp`` and ``add`` of ``address``."""
    add = 0x91000000 | (address & 0xFFF) << 10 | register << 5 | register
    return [_aarch64_page(register, at, address), add]


def _aarch64_load(register: int, at: int, address: int) -> list[int]:
    """``adrp`` and ``ldr`` of the 8 bytes at ``address``."""
    load = 0xF9400000 | (address & 0xFFF) // 8 << 10 | register << 5 | register
    return [_aarch64_page(register, at, address), load]
