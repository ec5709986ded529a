"""setp of all types but halves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .expressions import AND, BOOL, OR, XOR, Emitter, NotNative, Value, llvm_type
from .floats import flushed

if TYPE_CHECKING:
    from collections.abc import Sequence

_RELATIONS = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
    "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno",
}  # fmt: skip
_INTEGER_RELATIONS = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge", "eq": "eq", "ne": "ne"}


def predicate(e: Emitter, qualifiers: Sequence[str], operands: Sequence[Value]) -> list[Value]:
    relation, ptx_type = qualifiers[0], qualifiers[-1]
    rest = list(qualifiers[1:-1])
    a, b, *others = operands
    if "ftz" in rest:
        rest.remove("ftz")
        if ptx_type != "f32":
            raise NotNative(".".join(qualifiers))
        a, b = flushed(e, a), flushed(e, b)
    assert a.dtype is not None
    if ptx_type in ("f32", "f64"):
        holds = e.emit(f"fcmp {_RELATIONS[relation]} {llvm_type(a.dtype)} {a.text}, {b.text}")
    elif ptx_type in ("f16", "bf16", "f16x2", "bf16x2"):
        raise NotNative(ptx_type)
    else:
        sign = "s" if a.dtype.kind == "i" else "u"
        name = _INTEGER_RELATIONS.get(relation, f"{sign}{relation}")
        holds = e.emit(f"icmp {name} {llvm_type(a.dtype)} {a.text}, {b.text}")
    result = Value(holds, BOOL)
    opposite = e.binary(XOR, result, Value("true", BOOL))
    results = [result, opposite]
    if rest:
        operator = {"and": AND, "or": OR, "xor": XOR}[rest.pop()]
        results = [e.binary(operator, each, others[0]) for each in results]
    if rest:
        raise NotNative(".".join(qualifiers))
    return results
