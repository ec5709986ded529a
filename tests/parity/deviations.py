"""Where results differ from PyTorch's on purpose, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """Differences of some operations that have one reason.

    ``difference`` is a regular expression that the difference matches. Some sample of each operation has to deviate, so
    that no row outlives its reason, except where it ``is_by_chance``.
    """

    operations: tuple[str, ...]
    difference: str
    reason: str
    dtypes: tuple[str, ...] = ()
    is_by_chance: bool = False

    def allows(self, difference: str, dtype: str) -> bool:
        """Whether the row is about this difference of one of its operations."""
        return (not self.dtypes or dtype in self.dtypes) and bool(re.search(self.difference, difference))


_DOUBLE = ("float64", "complex128")

DEVIATIONS = (
    Deviation(
        (
            "bernoulli",
            "cauchy",
            "exponential",
            "geometric",
            "log_normal",
            "multinomial",
            "nn.functional.alpha_dropout",
            "nn.functional.dropout",
            "nn.functional.dropout2d",
            "nn.functional.dropout3d",
            "nn.functional.feature_alpha_dropout.with_train",
            "nn.functional.fractional_max_pool2d",
            "nn.functional.fractional_max_pool3d",
            "nn.functional.multi_head_attention_forward",
            "nn.functional.rrelu",
            "nn.functional.scaled_dot_product_attention",
            "normal",
            "normal.in_place",
            "normal.number_mean",
            "rand_like",
            "randint",
            "randint_like",
            "randn",
            "randn_like",
            "svd_lowrank",
            "uniform",
        ),
        "elements differ",
        "Random numbers are Philox's on every device, as PyTorch's are on CUDA; on the CPU it has others.",
    ),
    Deviation(
        ("sparse.sampled_addmm",),
        r"^gradient\[0\]: .* elements differ",
        "A gradient with respect to a sparse tensor has its structure, also where a dense one comes in.",
        _DOUBLE,
    ),
    Deviation(
        ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
        "^result: .* elements differ",
        "Elements that nobody has written are anything.",
        is_by_chance=True,
    ),
    Deviation(
        ("argsort", "kthvalue", "mode", "sort", "topk"),
        r"^result(\[1\])?: .* elements differ",
        "Which of several equal elements is meant is not determined; PyTorch's devices differ too.",
        ("bfloat16", "int64", "bool"),
    ),
    Deviation(
        ("special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1"),
        "^result: .* elements differ",
        "PyTorch's are right to about eight digits only, here also in double precision.",
        ("float64",),
    ),
    Deviation(
        ("nn.functional.hardsigmoid",),
        r"^gradient\[0\]: .* elements differ",
        "PyTorch's slope is 1 / 6 in single precision, also for float64.",
        ("float64",),
    ),
    Deviation(
        ("as_strided_scatter",),
        r"^gradient\[0\]: .* elements differ",
        "PyTorch keeps the gradient of the elements that were replaced and drops that of the others.",
        _DOUBLE,
    ),
    Deviation(
        ("cholesky_inverse", "cholesky_solve"),
        r"^gradient\[[01]\]: .* elements differ",
        "PyTorch also gives a gradient to the triangle of the factor that it does not look at.",
        _DOUBLE,
    ),
    Deviation(
        ("cholesky", "linalg.cholesky", "linalg.cholesky_ex"),
        r"^gradient\[0\]: .* elements differ",
        "The gradient of a Hermitian matrix is Hermitian; PyTorch's is up to a skew part, which means nothing.",
        ("complex128",),
    ),
    Deviation(
        ("linalg.norm", "linalg.norm.subgradients_at_zero", "linalg.vector_norm", "norm", "ormqr"),
        r"^gradient\[\d\]: .* where PyTorch's is None",
        "A gradient of zeros, or of nothing, where PyTorch leaves it undefined.",
        _DOUBLE,
    ),
    Deviation(
        ("istft",),
        r"^gradient\[1\]: .* where PyTorch's is None",
        "The window's gradient, which PyTorch leaves undefined for some lengths.",
        ("complex128",),
    ),
    Deviation(
        ("matrix_exp",),
        "^result: .* elements differ",
        "Computed in single precision; PyTorch's products in bfloat16 come to NaN.",
        ("bfloat16",),
    ),
    Deviation(
        ("histc", "nn.functional.grid_sample", "nn.functional.hinge_embedding_loss"),
        "^result: .* elements differ",
        "Computed in single precision and rounded once; on the CPU PyTorch rounds steps in between to bfloat16.",
        ("bfloat16",),
    ),
    Deviation(
        ("div.trunc_rounding",),
        "^result: 1 of .* elements differ",
        "The quotient is cut off before it is rounded to bfloat16, as on CUDA; on the CPU PyTorch rounds it first.",
        ("bfloat16",),
    ),
    Deviation(
        ("linalg.householder_product",),
        "^result: requires_grad False",
        "A product of no reflections is not part of the graph.",
        _DOUBLE,
    ),
    Deviation(
        ("logcumsumexp",),
        "elements differ",
        "Composed of logaddexp: another branch of the logarithm, and its NaN as gradient of numbers 10,000 apart.",
        ("complex128", "complex64"),
    ),
    Deviation(
        ("sum_to_size",),
        "^result: dtype bool",
        "A bool that already has the size stays one, as with other sizes in PyTorch.",
        ("bool",),
    ),
    Deviation(
        ("nn.functional.batch_norm",),
        "^result: RuntimeError.*at least 2 dimensions",
        "Not written: batches of nothing that have one dimension.",
    ),
)
