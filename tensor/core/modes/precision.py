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
    medium : bool
        Whether TF32 was asked for as ``"medium"``, which is computed like ``"high"``.
    """

    __slots__ = (
        "bf16_reduced_reduction",
        "convolution_tf32",
        "fp16_accumulation",
        "fp16_reduced_reduction",
        "matmul_tf32",
        "medium",
    )

    def __init__(self) -> None:
        self.matmul_tf32 = True
        self.convolution_tf32 = True
        self.fp16_reduced_reduction = True
        self.bf16_reduced_reduction = True
        self.fp16_accumulation = False
        self.medium = False

    def set_matmul_tf32(self, allowed: bool) -> None:
        """Let products round float32 to TF32, or not."""
        self.matmul_tf32, self.medium = allowed, False


settings = Precision()

_TF32 = {"highest": False, "high": True, "medium": True}
#: What ``fp32_precision`` may be; ``"none"`` goes back to what it is at first.
_FP32 = {"ieee": False, "tf32": True, "none": True}


def set_float32_matmul_precision(precision: str) -> None:
    """Set ``precision`` of float32 products: ``"highest"`` for float32, ``"high"`` or ``"medium"`` for TF32.

    TF32 rounds factors to 10 mantissa bits, and accumulates in float32. It is the default on CUDA devices.

    >>> tensor.set_float32_matmul_precision("high")
    >>> tensor.get_float32_matmul_precision()
    'high'

    Raises
    ------
    ValueError
        For another text.
    """
    if precision not in _TF32:
        raise ValueError(f"expected one of {', '.join(map(repr, _TF32))}, got {precision!r}")
    settings.set_matmul_tf32(_TF32[precision])
    settings.medium = precision == "medium"


def get_float32_matmul_precision() -> str:
    """``"highest"``, ``"high"`` or ``"medium"``; ``"high"`` at first. See :func:`set_float32_matmul_precision`."""
    if not settings.matmul_tf32:
        return "highest"
    return "medium" if settings.medium else "high"


def flag(name: str, value: object) -> bool:
    """The value for a setting that is on or off.

    Raises
    ------
    RuntimeError
        For what is no bool.
    """
    if not isinstance(value, bool):
        raise RuntimeError(f"{name} expects a bool, but got {type(value).__name__}")
    return value


def tf32_of(precision: object) -> bool:
    """Whether a value of ``fp32_precision`` means TF32.

    Raises
    ------
    RuntimeError
        For another text than ``"ieee"``, ``"tf32"`` or ``"none"``.
    """
    result = _FP32.get(precision) if isinstance(precision, str) else None
    if result is None:
        raise RuntimeError(
            f"Unknown precision: fp32_precision must be one of {', '.join(map(repr, _FP32))}, got {precision!r}"
        )
    return result


def fp32_name(tf32: bool) -> str:
    """The value of ``fp32_precision`` for a setting."""
    return "tf32" if tf32 else "ieee"
