"""Which pipe runs an instruction, and after how many clocks its result can be used.

The hardware's own instructions are told by the nine low bits of their encoding, which name the operation in all forms
from capability 7.0 on (as the assemblers written for them have it, and as a test finds out anew by assembling PTX).
PTX stands in where nothing could be assembled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names of pipes, as reports have them. ``memory`` is the load/store unit; ``control`` and ``uniform`` only take issue slots.
PIPES = (
    "fma", "alu", "int_mul", "half", "double", "special", "conversion", "wide_conversion", "shuffle", "tensor",
    "memory", "control", "uniform",
)  # fmt: skip

_HARDWARE: Mapping[str, tuple[int, ...]] = {
    # FADD FMUL FFMA
    "fma": (0x021, 0x020, 0x023),
    # IMAD IMAD.WIDE IMAD.HI
    "int_mul": (0x024, 0x025, 0x027, 0x026),
    # HADD2 HFMA2 HMUL2 HSETP2 HSET2 HFMA2.MMA HMNMX2
    "half": (0x030, 0x031, 0x032, 0x033, 0x034, 0x035, 0x040),
    # DADD DMUL DFMA DSETP
    "double": (0x029, 0x028, 0x02B, 0x02A),
    # MUFU POPC FLO BREV
    "special": (0x108, 0x109, 0x100, 0x101),
    # F2F F2I I2F FRND
    "conversion": (0x104, 0x105, 0x106, 0x107),
    # F2F.F64 I2F.64 F2I.64 FRND.64
    "wide_conversion": (0x110, 0x111, 0x112, 0x113),
    # SHFL VOTE MATCH REDUX
    "shuffle": (0x189, 0x006, 0x1A1, 0x1C4),
    # HMMA IMMA DMMA BMMA QGMMA HGMMA
    "tensor": (0x03C, 0x037, 0x03F, 0x03D, 0x1F3, 0x1F0),
    # LD LDG LDS LDL LDSM ST STG STS STL LDGSTS ATOM ATOMG ATOMS RED CCTL
    "memory": (
        0x180, 0x181, 0x184, 0x183, 0x03B, 0x185, 0x186, 0x188, 0x187, 0x1AE, 0x18A, 0x1A8, 0x18C, 0x18D, 0x18E, 0x18F,
    ),
    # NOP BSYNC BREAK CALL BSSY YIELD BRA WARPSYNC EXIT RET BAR MEMBAR DEPBAR LDGDEPBAR ERRBAR
    "control": (
        0x118, 0x141, 0x142, 0x143, 0x144, 0x145, 0x146, 0x147, 0x148, 0x149, 0x14C, 0x14D, 0x150, 0x11D, 0x192, 0x11A,
        0x1AF, 0x1AB,
    ),
    # LDC S2R CS2R S2UR R2UR
    "uniform": (0x182, 0x119, 0x005, 0x1C3, 0x1C2),
}  # fmt: skip
_PIPE_OF = {opcode: pipe for pipe, opcodes in _HARDWARE.items() for opcode in opcodes}
#: Instructions of the uniform datapath (from capability 7.5 on).
_UNIFORM = range(0x080, 0x0FF)

#: Clocks until a result can be used. 4 for dependent arithmetic (Volta and later: *Jia 2019*, and Luo 2024 for Hopper);
#: special functions, conversions and shuffles 18 to 24 (*Jia 2019*); 64-bit floating point 8 on the capabilities that
#: compute it in full; a product of 16 by 8 by 16 about 33 (*Luo 2024*).
LATENCIES = {
    "fma": 4, "alu": 4, "int_mul": 5, "half": 5, "double": 8, "special": 20, "conversion": 14, "wide_conversion": 16,
    "shuffle": 23, "tensor": 33, "memory": 30, "control": 4, "uniform": 10,
}  # fmt: skip
#: Instructions of the hardware that one of PTX becomes, where it is more than one and nothing could be assembled.
_EXPANDED = {"div": 9, "rem": 9, "sqrt": 8, "rcp": 6, "sin": 2, "cos": 2, "ex2": 3, "lg2": 3}

#: Share of the tensor cores' rate that ``mma.sync`` reaches on Hopper (*Luo 2024*).
MMA_SYNC_REACH = 0.62
_SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)\b")
#: Cost of a multiply-add on tensor cores by the type of the factors, relative to 16 bits (whitepapers: rates halve as
#: the type doubles; 64-bit floating point is 1/16 of 16-bit on A100 and H100).
_TENSOR_COST = {"tf32": 2.0, "f64": 16.0, "s8": 0.5, "u8": 0.5, "e4m3": 0.5, "e5m2": 0.5, "s4": 0.25, "u4": 0.25, "b1": 0.0625}  # fmt: skip


def hardware_pipe(opcode: int) -> str:
    """The pipe of an instruction of the hardware, by its nine low bits; what is not known counts as integer arithmetic."""
    if opcode in _UNIFORM:
        return "uniform"
    return _PIPE_OF.get(opcode, "alu")


def ptx_pipe(opcode: str) -> str:
    """The pipe that runs most of a PTX instruction."""
    fields = opcode.split(".")
    base, qualifiers = fields[0], fields[1:]
    if base in (
        "ld",
        "ldu",
        "st",
        "atom",
        "red",
        "ldmatrix",
        "stmatrix",
        "tex",
        "suld",
        "sust",
    ) or opcode.startswith("cp.async"):
        return "uniform" if "param" in (each.partition("::")[0] for each in qualifiers) else "memory"
    if base in ("mma", "wmma", "wgmma"):
        return "memory" if qualifiers[:1] and qualifiers[0] in ("load", "store") else "tensor"
    if base in ("shfl", "vote", "match", "redux", "activemask", "elect", "movmatrix"):
        return "shuffle"
    if base in (
        "bra",
        "brx",
        "call",
        "ret",
        "exit",
        "bar",
        "barrier",
        "membar",
        "fence",
        "trap",
        "cp",
        "mbarrier",
    ):
        return "control"
    wide = "f64" in qualifiers
    if base in ("rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh"):
        return "double" if wide else "special"
    if base in ("popc", "clz", "bfind", "brev"):
        return "special"
    if base == "cvt":
        types = [each for each in qualifiers if each[0] in "fbsue" and any(ch.isdigit() for ch in each)]
        if any(each.endswith("64") for each in types) and any(each.startswith("f") for each in types):
            return "wide_conversion"
        if any(each[0] in "fbe" for each in types):
            return "conversion"
        return "alu"
    if wide:
        return "double"
    if any(each in ("f16", "f16x2", "bf16", "bf16x2") for each in qualifiers):
        return "half"
    if base in ("add", "sub", "mul", "fma", "mad", "div"):
        if "f32" in qualifiers:
            return "fma"
        return "int_mul" if base in ("mul", "mad", "div") else "alu"
    return "alu"


def ptx_expansion(opcode: str) -> int:
    """How many instructions of the hardware a PTX instruction becomes, about."""
    qualifiers = opcode.split(".")
    if "approx" in qualifiers:
        return 2
    return _EXPANDED.get(qualifiers[0], 1)


def multiply_adds(opcode: str) -> float:
    """Multiply-adds of a matrix instruction by a warp, in those of 16-bit factors; 0 for other instructions.

    Those of warpgroups are shared by four warps, and run at the full rate that ``mma.sync`` does not reach.
    """
    if not opcode.startswith(("mma", "wmma.mma", "wgmma.mma_async")):
        return 0.0
    shape = _SHAPE.search(opcode)
    if shape is None:
        return 0.0
    m, n, k = map(int, shape.groups())
    qualifiers = opcode.split(".")
    cost = next((_TENSOR_COST[each] for each in qualifiers if each in _TENSOR_COST), 1.0)
    if opcode.startswith("wgmma"):
        cost *= MMA_SYNC_REACH / 4
    return m * n * k * cost
