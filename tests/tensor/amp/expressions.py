"""What operations give inside of autocast: each in PyTorch's lists, and others that consist of such ones.

In a row stand the results on CUDA devices in a block for float16, those on the CPU in one for bfloat16, and a call.
Results are given by letters: of float32 operands, of half precision ones, and of both together, where ``s`` is
float32, ``h`` half precision, ``d`` float64, ``c`` complex64, ``i`` int64 and ``-`` an error. In calls ``m`` is the
library, ``f`` its functions of layers, and the other names are the arrays of :data:`ARRAYS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_RNG = np.random.default_rng(0)
#: What is of half precision where both are together.
FIRST = frozenset("a v B x1 x2 x3 p u n S logs".split())  # noqa: SIM905 - names


def _normal(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape)


ARRAYS = {
    # Matrices, batches of them, vectors, chances, and what is no float: indices, a mask, lengths.
    "a": _normal(3, 4), "b": _normal(3, 4), "k": _normal(4, 5), "s": _normal(3, 5), "v": _normal(4), "u": _normal(3),
    "B": _normal(2, 3, 4), "C": _normal(2, 4, 5), "D": _normal(2, 3, 5), "z": _normal(3), "y": _normal(3),
    "p": _RNG.uniform(0.1, 0.9, (3, 4)), "q": _RNG.uniform(0.1, 0.9, (3, 4)), "half": np.array(0.5),
    "t": _RNG.integers(0, 4, 3), "i": _RNG.integers(0, 3, (3, 4)), "j": np.array([2, 0, 1]), "mask": _normal(3, 4) > 0,
    "signs": np.array([1.0, -1.0, 1.0]), "n": _normal(5, 3), "o": _normal(5, 3), "S": _normal(4, 4), "pairs": _normal(3, 2),
    "logs": _normal(5, 2, 4), "goals": _RNG.integers(1, 4, (2, 2)), "many": _RNG.integers(0, 4, (3, 4)),
    # Signals, images, volumes, filters for them, weights of channels.
    "x1": _normal(2, 3, 8), "x2": _normal(2, 3, 6, 6), "x3": _normal(2, 3, 4, 4, 4),
    "w1": _normal(4, 3, 3), "w2": _normal(4, 3, 3, 3), "w3": _normal(4, 3, 2, 2, 2),
    "r1": _normal(3, 4, 3), "r2": _normal(3, 4, 3, 3), "r3": _normal(3, 4, 2, 2, 2),
    "pos": 4 * np.eye(4) + 0.1, "wave": _normal(16), "grid": _RNG.uniform(-1, 1, (2, 3, 3, 2)),
    "c": _normal(4), "g": _normal(3), "h": _normal(3), "W": _normal(5, 4), "w": _normal(5), "T": _normal(2, 4, 4),
}  # fmt: skip

_ROWS = """
hhh hhh a @ k
hhh hhh m.matmul(a, k)
hhh hhh a.matmul(v)
hhh hhh m.mm(a, k)
hhh hhh m.bmm(B, C)
hhh shh m.mv(a, v)
hhh hhh m.addmm(s, a, k)
hhh sh- m.addmv(z, a, v)
hhh sh- m.addr(a, z, v)
hhh hhh m.addbmm(s, B, C)
hhh hhh m.baddbmm(D, B, C)
hhh hhh B @ C
hhh hhh a.mm(k)
hhh hhh B.bmm(C)
hhh hhh B @ k
hhh hhh v @ k
hhh hhh m.einsum("ij,jk->ik", a, k)
hhh hhh m.einsum("bij,bjk->bik", B, C)
hhh hhh m.einsum("ij,ij->i", a, b)
hhh shh m.einsum("ij->ji", a)
hhh hhh f.linear(a, W)
hhh hhh f.linear(a, W, w)
hhh hhh f.linear(B, W, w)
hhh hhh f.prelu(a, v)
hhh hhh m.prelu(a, half)
hhh hhh f.conv1d(x1, w1)
hhh hhh f.conv1d(x1, w1, c)
hhh hhh f.conv2d(x2, w2, c, padding="same")
hhh hhh f.conv3d(x3, w3, c)
hhh hhh m.conv2d(x2, w2, c)
hhh hhh f.conv_transpose1d(x1, r1, c)
hhh hhh f.conv_transpose2d(x2, r2, c)
hhh hhh f.conv_transpose3d(x3, r3, c)

sss shh m.acos(p)
sss shh m.asin(p)
sss shh m.cosh(a)
sss shh m.erfinv(p)
sss shh m.exp(a)
sss shh m.expm1(a)
sss shh m.log(p)
sss shh m.log10(p)
sss shh m.log1p(p)
sss shh m.log2(p)
sss shh m.pow(p, 2)
sss shs m.pow(p, q)
sss shh m.pow(2, a)
sss shh p ** 1.5
sss shh 2 ** a
sss shh m.reciprocal(p)
sss shh m.rsqrt(p)
sss shh m.sinh(a)
sss shh m.tan(a)
sss shh f.softplus(a)
sss shh a.exp()
sss shh p.log()
sss shh a.square()
sss shh 1 / p
shh shh m.sqrt(p)
shh shh m.exp2(a)
shh shh m.sin(a)
shh shh m.sigmoid(a)
ddd ddd m.float_power(p, 2)

sss shh m.cumprod(a, 0)
sss shh m.cumsum(a, 0)
sss sss m.prod(a)
sss sss m.prod(a, 0)
sss shh m.sum(a)
sss shh m.sum(a, 1)
sss shh a.sum((0, 1))
hhh hhh a.sum(dtype=m.float16)
sss shh m.norm(a)
sss shh m.norm(a, 2, 1)
sss shh a.norm()
sss shh m.logsumexp(a, 0)
sss shs m.dist(a, b)
sss sss m.cdist(a, b)
shh shh m.mean(a)
shh shh m.var(a)
shh shh m.std(a, 1)
shh shh m.amax(a, 1)
shh shh m.nansum(a)
shh shh m.var_mean(a)
shh shh a.mean(0)
sss shh m.softmax(a, 1)
sss shh a.softmax(-1)
sss shh m.log_softmax(a, 1)
sss shh f.softmax(a, dim=1)
sss shh f.log_softmax(a, dim=1)
sss shh f.softmin(a, dim=1)
hhh hhh m.softmax(a, 1, dtype=m.float16)
shh shh m.vander(v)
sss shh f.normalize(a)
iii iii m.sum(i)
sss sss m.cumsum(a, 0, dtype=m.float32)
shh shh m.logcumsumexp(a, 0)
s-- sss m.quantile(a, 0.5)
s-- sss m.nanquantile(a, 0.5, 0)
sss shh m.trapezoid(a)
sss sss m.trace(S)

sss shh f.layer_norm(a, (4,))
sss shh f.layer_norm(a, (4,), v, c)
sss shh f.rms_norm(a, (4,), v)
sss shh f.group_norm(x2, 3, g, h)
shh shh f.batch_norm(x2, None, None, g, h, True)
shh shh f.batch_norm(x2, z.abs(), y.abs(), g, h)
shh shh f.instance_norm(x2)
sss sss f.local_response_norm(x2, 2)

sss sss f.cross_entropy(a, t)
sss sss f.cross_entropy(a, p)
sss sss f.cross_entropy(a, t, v.abs())
sss sss f.nll_loss(a, t)
sss sss f.mse_loss(a, b)
sss sss f.l1_loss(a, b)
sss sss f.smooth_l1_loss(a, b)
sss sss f.huber_loss(a, b)
sss sss f.kl_div(a, p)
sss sss f.poisson_nll_loss(a, p)
sss sss f.binary_cross_entropy_with_logits(a, p)
sss sss f.binary_cross_entropy_with_logits(a, p, q)
--- sss f.binary_cross_entropy(p, q)
sss sss f.hinge_embedding_loss(a, b.sign())
sss sss f.margin_ranking_loss(u, z, signs)
sss sss f.soft_margin_loss(a, b.sign())
sss sss f.multi_margin_loss(a, t)
sss sss f.multilabel_margin_loss(a, many)
sss shh f.multilabel_soft_margin_loss(a, mask.to(a.dtype))
sss sss f.triplet_margin_loss(a, b, p)
sss sss f.cosine_embedding_loss(a, b, signs)
sss shs f.cosine_similarity(a, b)
sss shs f.pairwise_distance(a, b)
sss shs f.triplet_margin_with_distance_loss(a, b, p)
sss shs f.gaussian_nll_loss(a, b, p)
shh sss f.ctc_loss(logs, goals, [5, 5], [2, 1])
sss sss f.ctc_loss(logs.log_softmax(2), goals, [5, 5], [2, 1])

shs shs m.addcdiv(a, b, p)
shs shs m.addcmul(a, b, p)
shs shs a.addcmul(b, p, value=2)
shs shs m.atan2(a, b)
shs shs m.cross(n, o)
shs sh- m.dot(v, c)
shs sh- m.vdot(v, c)
shs sh- v.dot(c)
shs hhh m.tensordot(a, k, 1)
shs hhh m.inner(a, b)
shs sh- m.inner(v, c)
shs shs m.outer(z, v)
shs shs m.cat([a, b])
shs shs m.stack([a, b])
shs shs m.hstack([a, b])
shs sh- m.index_put(a, (j,), b)
shs sh- a.scatter_add(0, i, b)
sh- shs m.index_copy(a, 0, j, b)
shs sh- f.bilinear(a, b, T)
shs shs a + b
shs shs m.maximum(a, b)
shs shs m.where(mask, a, b)
sh- sh- m.lerp(a, b, p)
shs shs m.kron(a, b)
c-- ccc m.polar(p, q)
c-- c-- m.complex(p, q)

shh shh f.max_pool1d(x1, 2)
shh shh f.max_pool2d(x2, 2)
shh sss f.max_pool3d(x3, 2)
shh shh f.avg_pool1d(x1, 2)
shh shh f.avg_pool2d(x2, 2)
shh sss f.avg_pool3d(x3, 2)
shh shh f.adaptive_avg_pool2d(x2, 2)
shh sss f.adaptive_avg_pool3d(x3, 2)
shh shh f.adaptive_max_pool2d(x2, 2)
shh sss f.adaptive_max_pool3d(x3, 2)
shh shh f.pad(x2, (1, 1))
shh sss f.pad(x1, (1, 1), "reflect")
shh sss f.pad(x2, (1, 1, 1, 1), "reflect")
shh sss f.pad(x1, (1, 1), "replicate")
shh sss f.pad(x2, (1, 1, 1, 1), "replicate")
shh sss f.pad(x3, (1,) * 6, "replicate")
shh shh f.pad(x3, (1,) * 6, "reflect")
shh shh f.pad(x2, (1, 1, 1, 1), "circular")
shh shh f.unfold(x2, 2)
shh sss f.max_pool3d(x3, 2, return_indices=True)[0]
shh sss f.adaptive_max_pool3d(x3, 2, return_indices=True)[0]

shh shh f.gelu(a)
shh shh f.relu(a)
shh shh f.silu(a)
shh shh f.logsigmoid(a)
shh shh f.elu(a)
shh shh f.hardtanh(a)
shh shh f.glu(a)
shh shh f.tanhshrink(a)
shh shh f.softsign(a)
shh shh f.dropout(a, 0.0)
shs shs f.embedding(t, k)
shs shs f.embedding_bag(i, k)
shh shh a.clone()
shh shh -a
shh shh a.abs() * 2.0
ddd ddd a.to(m.float64).exp()
ddd ddd a.to(m.float64) @ k.to(m.float64)
shh shh a.clone().exp_()
sss shh a.clone().sum().mul_(2)
shh shh a.view(4, 3) + 1
c-- ccc m.fft.fft(v)
c-- ccc m.fft.rfft(v)
c-- ccc m.fft.fftn(a)
s-- sss m.fft.irfft2(a)
c-c ccc m.view_as_complex(pairs)
shh shh m.clamp(a, 0.0, 1.0)

hhh hhh f.scaled_dot_product_attention(B, B, B)
hhh hh- m.chain_matmul(a, k)
hhh hh- m.linalg.multi_dot([a, k, W])
hhh hhh m.linalg.vecdot(a, b)
hhh hhh m.linalg.matmul(a, k)
hhh hhh m.linalg.matrix_power(pos, 2)
sss shh f.interpolate(x2, scale_factor=2)
sss shh f.interpolate(x1, 5, mode="linear")
sss shh f.interpolate(x2, scale_factor=2, mode="bilinear")
sss shh f.interpolate(x2, scale_factor=2, mode="bicubic")
sss shh f.interpolate(x3, scale_factor=2, mode="trilinear")
sss shh f.interpolate(x2, 3, mode="area")
shs sss f.grid_sample(x2, grid, align_corners=False)
sss shh f.lp_pool2d(x2, 2, 2)
shh sss f.fractional_max_pool2d(x2, 2, output_size=3)
sss shh m.renorm(a, 2, 0, 1.0)
sss shh m.linalg.norm(a)
sss shh m.linalg.vector_norm(a)
sss shh m.linalg.matrix_norm(a)
s-s sss m.linalg.inv(pos)
s-s sss m.inverse(pos)
s-- sss m.linalg.solve(pos, v)
s-s sss m.linalg.qr(pos)
s-s sss m.linalg.svd(pos)
s-s sss m.linalg.eigh(pos)
c-c ccc m.linalg.eig(pos)
s-s sss m.linalg.cholesky(pos)
s-s sss m.linalg.cond(pos)
s-s s-s m.linalg.det(pos)
s-s s-s m.linalg.pinv(pos)
c-c ccc m.stft(wave, 8, return_complex=True)
sss shh m.special.softmax(a, 1)
sss shh m.special.expm1(a)
sss shh f.gumbel_softmax(a)
"""

#: Calls, with their results on CUDA devices and on the CPU.
EXPECTED = {
    call: (cuda, cpu) for cuda, cpu, call in (row.split(" ", 2) for row in _ROWS.strip().splitlines() if row)
}
#: Calls and types of devices for which PyTorch's results are others, and why.
DIFFERENT = {
    ("m.trace(S)", "cuda"): "its kernel sums, which tensors without elements do not show",
    ("m.tensordot(a, k, 1)", "cpu"): "it refuses what the product inside would cast",
    ("m.inner(a, b)", "cpu"): "it refuses what the product inside would cast",
    ("m.cross(n, o)", "cpu"): "it refuses operands of two types",
    ("f.layer_norm(a, (4,), v, c)", "cpu"): "it refuses weights of two types",
    ("m.addr(a, z, v)", "cpu"): "it promotes, also outside of blocks",
    ("f.max_pool3d(x3, 2, return_indices=True)[0]", "cpu"): "with indices it is another operation there",
    ("f.interpolate(x2, 3, mode=\"area\")", "cuda"): "areas are no interpolation there",
    ("m.linalg.pinv(pos)", "cpu"): "it consists of products there",
}  # fmt: skip
_LETTERS = {
    "float32": "s", "float16": "h", "bfloat16": "h", "float64": "d", "complex64": "c", "complex32": "C", "int64": "i",
}  # fmt: skip


def operands(library: Any, device: str, which: str, make: Callable[..., Any]) -> dict[str, Any]:
    half = library.float16 if device == "cuda" else library.bfloat16
    result = {}
    for name, array in ARRAYS.items():
        kind = {"f": library.float32, "i": library.int64, "b": library.bool}[array.dtype.kind]
        if array.dtype.kind == "f" and (which == "half" or (which == "both" and name in FIRST)):
            kind = half
        result[name] = make(array, kind)
    return result


def results(
    call: str,
    library: Any,
    functions: Any,
    operands: dict[str, dict[str, Any]],
    run: Callable[..., Any],
    known: str = "",
) -> str:
    """Letters of the types that a call gives, of operands of three kinds; those in ``known`` are not asked for."""
    actual = known
    for which in ("single", "half", "both")[len(known) :]:
        try:
            result = run(call, {"m": library, "f": functions, **operands[which]})
        except (RuntimeError, NotImplementedError, AssertionError):  # the last is PyTorch's without CUDA
            actual += "-"
            continue
        result = result[0] if isinstance(result, tuple) else result
        actual += _LETTERS[str(result.dtype).split(".")[1]]
    return actual
