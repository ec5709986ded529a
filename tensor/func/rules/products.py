"""Products of matrices, and linear algebra: functions of the last dimensions, with any number before them."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

from tensor.func.dispatch import RANDOM, rule
from tensor.operations.products.contractions import matmul as product

from .dimensions import position
from .random import draws_for_each

if TYPE_CHECKING:
    from tensor.func.dispatch import Call


def multiplied(call: Call, a: Any, b: Any) -> Any:
    """``a @ b`` of samples, all of them."""
    rank_a, rank_b = a.dim(), b.dim()
    if not rank_a or not rank_b:
        raise RuntimeError("both arguments to matmul need to be at least 1D, but they are 0D")
    x, y = call.value(a), call.value(b)
    if not call.is_batched(b) and rank_b <= 2:
        # One matrix, or vector, for all: the samples are rows like others.
        if rank_a > 1 or rank_b == 2:
            return product(x, y)
        return (x * y).sum(-1)
    if rank_a == 1:
        x = x.unsqueeze(-2)
    if rank_b == 1:
        y = y.unsqueeze(-1)
    rank = max(rank_a, rank_b, 2)
    x, y = _leading(call, a, x, rank), _leading(call, b, y, rank)
    result = product(x, y)
    if rank_a == 1:
        result = result.squeeze(-2)
    return result.squeeze(-1) if rank_b == 1 else result


def _leading(call: Call, operand: Any, value: Any, rank: int) -> Any:
    if not call.is_batched(operand):
        return value
    missing = rank - (value.dim() - 1)
    return value.reshape(value.shape[0], *[1] * missing, *value.shape[1:]) if missing > 0 else value


@rule("contractions.matmul matrix_products.mm matrix_products.bmm matrix_products.mv")
def matmul(call: Call) -> Any:
    """The product of two samples."""
    a = call["input"]
    name = call.operation.name
    b = call["other" if name == "matmul" else "vec" if name == "mv" else "mat2"]
    ranks = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1)}.get(name)
    if ranks is not None and (a.dim(), b.dim()) != ranks:
        raise RuntimeError(
            f"{name}() expects tensors of {ranks[0]} and {ranks[1]} dimensions, got {a.dim()} and {b.dim()}"
        )
    return call.wrap(multiplied(call, a, b))


@rule("matrix_products.dot matrix_products.vdot products.vecdot")
def dot(call: Call) -> Any:
    """The inner product of vectors."""
    if call.operation.name == "vecdot":
        return NotImplemented
    a, b = call["input"], call["tensor" if call.operation.name == "dot" else "other"]
    if a.dim() != 1 or b.dim() != 1 or a.shape != b.shape:
        raise RuntimeError(
            f"1D tensors of one size expected, but got tensors of shapes {list(a.shape)} and {list(b.shape)}"
        )
    x = call.value(a)
    x = x.conj() if call.operation.name == "vdot" and x.dtype.is_complex else x
    return call.wrap((x * call.value(b)).sum(-1))


@rule("contractions.outer")
def outer(call: Call) -> Any:
    """The outer product of vectors."""
    a, b = call["input"], call["vec2"]
    return call.wrap(call.value(a).unsqueeze(-1) * call.value(b).unsqueeze(-2))


@rule("added_products.addmm added_products.baddbmm added_products.addmv")
def added(call: Call) -> Any:
    """``beta * input + alpha * (a @ b)``."""
    first, second = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}[
        call.operation.name
    ]
    result = multiplied(call, call[first], call[second])
    alpha, beta = call.get("alpha", 1), call.get("beta", 1)
    if alpha != 1:
        result = alpha * result
    if beta == 0:
        return call.wrap(result)
    input = call.aligned(call["input"], {"addmm": 2, "baddbmm": 3, "addmv": 1}[call.operation.name])
    return call.wrap(result + (input if beta == 1 else beta * input))


@rule("linear.linear")
def linear(call: Call) -> Any:
    """``input @ weight.T + bias``, with weights for all samples or for each."""
    input, weight, bias = call["input"], call["weight"], call.get("bias")
    if not call.is_batched(weight):
        if call.is_batched(input) and not call.is_batched(bias):
            return call.run()
        result = call.operation.call({"input": call.value(input), "weight": weight})
    else:
        x = call.value(input)
        if call.is_batched(input):
            rows = (
                x.reshape(call.size, -1, x.shape[-1])
                if x.numel()
                else call.full(input).reshape(call.size, 0, x.shape[-1])
            )
        else:
            rows = x.reshape(-1, x.shape[-1])
        result = product(rows, weight.value.mT)
        result = result.reshape(call.size, *input.shape[:-1], weight.shape[0])
    if bias is not None:
        if call.is_batched(bias):
            result = result + bias.value.reshape(call.size, *[1] * (input.dim() - 1), -1)
        else:
            result = result + bias
    return call.wrap(result)


@rule("einsum")
def einsum(call: Call) -> Any:
    """With a letter more, for the batch."""
    equation, operands = call["equation"], call.get("operands", ())
    if not isinstance(equation, str):
        return NotImplemented
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    free = next((each for each in string.ascii_letters if each not in equation), None)
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if free is None or len(terms) != len(operands):
        return NotImplemented
    if not arrow:
        if "." in left:
            return NotImplemented
        right = "".join(sorted(each for each in set(left) - {","} if left.count(each) == 1))
    terms = [free + term if call.is_batched(x) else term for term, x in zip(terms, operands, strict=True)]
    batch = f"{','.join(terms)}->{free}{right}"
    return call.wrap(call.operation.function(batch, *call.values(operands)))


_LAST_DIMENSIONS = (
    "cholesky.cholesky cholesky_ex eigenvalues.eigh eigenvalues.eigvalsh eigenvalues.eig eigenvalues.eigvals lu_factor "
    "lu_factor_ex factorizations.lu lu.lu qr.qr singular_values.svd svdvals solving.inv solving.inv_ex determinants.det "
    "determinants.slogdet exponential.matrix_exp products.matrix_power matrix_functions.inverse matrix_functions.det "
    "matrix_functions.slogdet matrix_functions.logdet matrix_functions.cholesky matrix_functions.matrix_exp "
    "matrix_functions.matrix_power triangular.cholesky_inverse"
)


@rule(_LAST_DIMENSIONS)
def of_matrices(call: Call) -> Any:
    """Functions of the last two dimensions."""
    first = next(iter(call.arguments.values()))
    if first.dim() < 2:
        return NotImplemented
    return call.run()


@rule("solving.solve solving.solve_ex triangular.solve_triangular triangular.cholesky_solve")
def solve(call: Call) -> Any:
    """Systems of equations, with a matrix on the right."""
    names = ("input", "L") if call.operation.name == "cholesky_solve" else ("A", "B")
    a, b = call[names[0]], call[names[1]]
    if a.dim() != 2 or b.dim() not in (1, 2) or not call.get("left", True):
        return NotImplemented
    is_vector = b.dim() == 1
    if is_vector and call.operation.name not in ("solve", "solve_ex"):
        return NotImplemented
    right = call.full(b).unsqueeze(-1) if is_vector else call.full(b)
    arguments = call.arguments | {names[0]: call.full(a), names[1]: right}
    result = call.operation.call(arguments)
    if not is_vector:
        return call.wrap(result)
    if call.operation.name == "solve":
        return call.wrap(result.squeeze(-1))
    return call.wrap(type(result)(result[0].squeeze(-1), *result[1:]))


@rule(
    "functions.fft functions.ifft functions.rfft functions.irfft functions.hfft functions.ihfft functions.fft2 functions.ifft2 "
    "functions.rfft2 functions.irfft2 functions.hfft2 functions.ihfft2 functions.fftn functions.ifftn functions.rfftn "
    "functions.irfftn functions.hfftn functions.ihfftn functions.fftshift functions.ifftshift"
)
def transform(call: Call) -> Any:
    """Transforms along dimensions of the samples."""
    name, rank = call.operation.name, call["input"].dim()
    dim = call.get("dim")
    if dim is None:
        sizes = call.get("s")
        if name.endswith("2"):
            dim = (-2, -1)
        elif name.endswith("n"):
            dim = tuple(range(-len(sizes), 0)) if sizes is not None else tuple(range(rank))
        elif name.endswith("shift"):
            dim = tuple(range(rank))
        else:
            dim = -1
    if not rank:
        return NotImplemented
    at = (
        tuple([position(each, rank) for each in dim])
        if isinstance(dim, (tuple, list))
        else position(dim, rank)
    )
    return call.run(dim=at)


def _random_attention(call: Call) -> Any:
    if not call.get("dropout_p", 0.0):
        return (
            attention(call)
            if any(call.is_batched(x) for x in call.arguments.values())
            else call.operation.original(**call.arguments)
        )
    if not draws_for_each(call):
        raise RuntimeError(
            "vmap: Currently, same randomness with batched input isn't supported for scaled_dot_product_attention() with "
            "dropout: use randomness='different'"
        )
    return attention(call)


rule("scaled_dot_product_attention", RANDOM)(_random_attention)


def attention(call: Call) -> Any:
    """Attention, with the batch merged into the first dimension of the samples."""
    query, key, value, mask = call["query"], call["key"], call["value"], call.get("attn_mask")
    rank = query.dim()
    if not (rank == key.dim() == value.dim()) or rank < 2:
        return NotImplemented
    leading = query.shape[0] if rank > 3 else 1
    merged = {
        name: _merged(call.full(x), rank) for name, x in (("query", query), ("key", key), ("value", value))
    }
    if mask is not None:
        if rank > 4 or mask.dim() > rank:
            return NotImplemented
        whole = call.full(mask)
        if rank > 3:
            whole = whole.reshape(call.size, *[1] * (rank - mask.dim()), *mask.shape)
            whole = _merged(whole.expand(call.size, leading, *whole.shape[2:]), rank)
        else:
            whole = whole.reshape(call.size, *[1] * (rank - mask.dim()), *mask.shape)
        merged["attn_mask"] = whole
    result = call.operation.call(call.arguments | merged)
    return call.wrap(result.reshape(call.size, *query.shape[:-1], value.shape[-1]))


def _merged(value: Any, rank: int) -> Any:
    return value.flatten(0, 1) if rank > 3 else value
