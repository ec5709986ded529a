"""How precisely matrix products and convolutions compute; read at every call."""

from __future__ import annotations


class Precision:
    """The settings of the process.

    Attributes
    ----------
    matmul_tf32, convolution_tf32 : bool
        Whether float32 inputs of products, and of convolutions, are rounded to TF32 (10 mantissa bits).
        True by default, unlike PyTorch's flag for products since 1.12.
    fp16_reduced_reduction, bf16_reduced_reduction : bool
        Whether partial sums of half precision products may be kept in half precision.
    fp16_accumulation : bool
        Whether float16 products are accumulated in float16.
    """

    __slots__ = (
        "bf16_reduced_reduction",
        "convolution_tf32",
        "fp16_accumulation",
        "fp16_reduced_reduction",
        "matmul_tf32",
    )

    def __init__(self) -> None:
        self.matmul_tf32 = True
        self.convolution_tf32 = True
        self.fp16_reduced_reduction = True
        self.bf16_reduced_reduction = True
        self.fp16_accumulation = False


settings = Precision()

_TF32 = {"highest": False, "high": True, "medium": True}


def set_float32_matmul_precision(precision: str) -> None:
    """Let float32 products be exact (``"highest"``) or rounded to TF32 (``"high"``, ``"medium"``).

    Raises
    ------
    ValueError
        For another text.
    """
    if precision not in _TF32:
        raise ValueError(f"expected one of {', '.join(map(repr, _TF32))}, got {precision!r}")
    settings.matmul_tf32 = _TF32[precision]


def get_float32_matmul_precision() -> str:
    """``"highest"`` or ``"high"``; see :func:`set_float32_matmul_precision`."""
    return "high" if settings.matmul_tf32 else "highest"
