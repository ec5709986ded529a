"""Which tables hold the rows of an instruction, by the first part of its opcode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import bits, comparisons, conversions, floats, integers

if TYPE_CHECKING:
    from drv.simulator.arithmetic.operation import Family

FAMILIES: dict[str, tuple[Family, ...]] = {
    **dict.fromkeys(
        ("add", "sub", "mul", "min", "max", "div", "abs", "neg", "mad"), (integers.rows, floats.rows)
    ),
    **dict.fromkeys(("rem", "sad", "mul24", "mad24"), (integers.rows,)),
    **dict.fromkeys(
        ("and", "or", "xor", "not", "cnot", "shl", "shr", "shf", "popc", "clz", "brev"), (bits.rows,)
    ),
    **dict.fromkeys(("bfind", "fns", "bfe", "bfi", "bmsk", "szext"), (bits.rows,)),
    **dict.fromkeys(("setp", "selp"), (comparisons.rows,)),
    **dict.fromkeys(("fma", "sqrt", "rcp", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"), (floats.rows,)),
    "cvt": (conversions.rows,),
}
