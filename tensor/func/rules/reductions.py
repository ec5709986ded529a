"""Reductions, scans and sorting: along dimensions of the samples, over all of them where none is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.func.batched import batched, mapped
from tensor.func.dispatch import rule

from .dimensions import as_rows, positions, shifted

if TYPE_CHECKING:
    from tensor.func.dispatch import Call

_OVER_ALL = (
    "sum nansum mean nanmean logsumexp any all amax amin std var std_mean var_mean aminmax count_nonzero norms.norm "
    "vector_norm legacy_norm.norm"
)


@rule(
    f"sums.prod argmax argmin extremes.max extremes.min sorting.median sorting.nanmedian quantile nanquantile {_OVER_ALL}"
)
def reduce(call: Call) -> Any:
    """Over dimensions, or all."""
    name = call.operation.name
    first = "x" if name == "vector_norm" else "A" if call.operation.key == "norms.norm" else "input"
    input = call[first]
    dim = call.get("dim")
    if name in ("max", "min") and (hasattr(dim, "dim") or call.get("other") is not None):
        from_pair = call.get("other") if call.get("other") is not None else dim
        return call.wrap(_paired(call, input, from_pair))
    if any(call.is_batched(each) for key, each in call.arguments.items() if key != first):
        return NotImplemented
    if name in ("std", "var", "std_mean", "var_mean") and isinstance(dim, bool):
        # The older form: the second argument says whether the result is unbiased.
        call.arguments["unbiased"], dim = dim, None
    rank, value = input.dim(), input.value
    if call.operation.key == "norms.norm" and (dim is not None or call.get("ord") is not None):
        return call.run(dim=positions(dim, rank)) if dim is not None else NotImplemented
    if call.operation.key == "legacy_norm.norm" and call.get("p", "fro") == "nuc":
        return NotImplemented
    if not input.numel() and name in (
        "median",
        "nanmedian",
        "max",
        "min",
        "argmax",
        "argmin",
        "amax",
        "amin",
        "aminmax",
    ):
        return NotImplemented
    q = call.get("q")
    if hasattr(q, "dim") and q.dim():
        return NotImplemented
    everything = dim is None or (isinstance(dim, (tuple, list)) and not dim)
    keepdim = bool(call.get("keepdim", False))
    if not everything:
        where = positions(dim, rank)
        if rank:
            return call.run(dim=where)
        result = call.operation.call(_plain(call) | {first: value.reshape(-1, 1), "dim": where})
        return mapped(lambda x: batched(x.reshape(-1), call.level), result)
    # One dimension for all elements; those of an index count them in row-major order.
    flat = as_rows(value)
    result = (
        call.operation.call(_plain(call) | {first: flat, "dim": 1, "keepdim": False})
        if name not in ("count_nonzero",)
        else call.operation.call(_plain(call) | {first: flat, "dim": 1})
    )
    if name in ("max", "min", "median", "nanmedian"):
        result = result[0]
    if keepdim:
        shape = (call.size, *[1] * rank)
        result = mapped(lambda x: x.reshape(shape), result)
    return call.wrap(result)


def _paired(call: Call, input: Any, other: Any) -> Any:
    rank = max(input.dim(), other.dim())
    return call.operation.call({"input": call.aligned(input, rank), "other": call.aligned(other, rank)})


def _plain(call: Call) -> dict[str, Any]:
    return {name: value for name, value in call.arguments.items() if name != "axis"}


rule("cumsum cumprod logcumsumexp cummax cummin sort argsort softmax.softmax softmax.log_softmax")(
    lambda call: _along(call)
)
rule("topk kthvalue mode glu")(lambda call: _along(call))
rule("diff")(lambda call: _along(call))


def _along(call: Call) -> Any:
    if "dim" not in call.arguments:
        call.arguments["dim"] = -1
    dim = call.arguments["dim"]
    if (
        dim is None
        or call.operation.name.endswith("_")
        or (call.operation.name == "diff" and not call["input"].dim())
    ):
        return NotImplemented
    return shifted("dim")(call)


@rule("msort")
def msort(call: Call) -> Any:
    """Sorted along the first dimension."""
    if not call["input"].dim():
        return call.wrap(call["input"].value)
    return call.wrap(call["input"].value.sort(1)[0])
