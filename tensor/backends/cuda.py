"""Settings of CUDA: ``cufft_plan_cache``, and how matrix products compute."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tensor.core.modes.attention import attention_backends
from tensor.core.modes.precision import flag, fp32_name, settings, tf32_of
from tensor.core.names.absent import hints as _hints
from tensor.core.warning import warn_caller
from tensor.fft.plan_cache import CufftPlanCache

if TYPE_CHECKING:
    from collections.abc import Iterator

#: cuFFT's plans of the current device; ``cufft_plan_cache[device]`` are another one's.
cufft_plan_cache = CufftPlanCache()


class _Matmul:
    """How matrix products compute, from the next call on."""

    __slots__ = ()

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 factors are rounded to TF32 (10 mantissa bits); True at first, unlike PyTorch's.

        Assigning anything but a bool raises RuntimeError.
        """
        return settings.matmul_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        settings.set_matmul_tf32(flag("backends.cuda.matmul.allow_tf32", value))

    @property
    def fp32_precision(self) -> str:
        """``"tf32"`` or ``"ieee"``: the same as :attr:`allow_tf32`; ``"none"`` may be assigned to go back.

        Assigning anything else raises RuntimeError.
        """
        return fp32_name(settings.matmul_tf32)

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        settings.set_matmul_tf32(tf32_of(value))

    @property
    def allow_fp16_reduced_precision_reduction(self) -> bool:
        """Whether partial sums of float16 products may be kept in float16; True at first.

        Assigning anything but a bool raises RuntimeError.
        """
        return settings.fp16_reduced_reduction

    @allow_fp16_reduced_precision_reduction.setter
    def allow_fp16_reduced_precision_reduction(self, value: bool) -> None:
        settings.fp16_reduced_reduction = flag("allow_fp16_reduced_precision_reduction", value)

    @property
    def allow_bf16_reduced_precision_reduction(self) -> bool:
        """Whether partial sums of bfloat16 products may be kept in bfloat16; True at first.

        Assigning anything but a bool raises RuntimeError.
        """
        return settings.bf16_reduced_reduction

    @allow_bf16_reduced_precision_reduction.setter
    def allow_bf16_reduced_precision_reduction(self, value: bool) -> None:
        settings.bf16_reduced_reduction = flag("allow_bf16_reduced_precision_reduction", value)

    @property
    def allow_fp16_accumulation(self) -> bool:
        """Whether float16 products are accumulated in float16; False at first.

        Assigning anything but a bool raises RuntimeError.
        """
        return settings.fp16_accumulation

    @allow_fp16_accumulation.setter
    def allow_fp16_accumulation(self, value: bool) -> None:
        settings.fp16_accumulation = flag("allow_fp16_accumulation", value)


#: Settings of matrix products.
matmul = _Matmul()


def is_built() -> bool:
    """Whether this installation can use CUDA at all: always True, as nothing needs to be built."""
    return True


def flash_sdp_enabled() -> bool:
    """Whether flash attention is allowed; attention here is computed in one way, which depends on no such choice."""
    return attention_backends["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Set what :func:`flash_sdp_enabled` says to ``enabled``.

    Any object counts as its truth. Attention is computed in the same way, whatever is set.
    """
    attention_backends["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether memory-efficient attention is allowed; it changes nothing, as for :func:`flash_sdp_enabled`."""
    return attention_backends["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Set what :func:`mem_efficient_sdp_enabled` says to ``enabled``.

    Any object counts as its truth. Attention is computed in the same way, whatever is set.
    """
    attention_backends["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention by the plain formula is allowed; it changes nothing, as for :func:`flash_sdp_enabled`."""
    return attention_backends["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Set what :func:`math_sdp_enabled` says to ``enabled``.

    Any object counts as its truth. Attention is computed in the same way, whatever is set.
    """
    attention_backends["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether cuDNN's attention is allowed; it changes nothing, as for :func:`flash_sdp_enabled`."""
    return attention_backends["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Set what :func:`cudnn_sdp_enabled` says to ``enabled``.

    Any object counts as its truth. Attention is computed in the same way, whatever is set.
    """
    attention_backends["cudnn"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """True: attention is computed in blocks, with the memory of flash attention."""
    return True


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """The older form of :func:`nn.attention.sdpa_kernel`, with a warning; attention is computed in the same way.

    Parameters
    ----------
    enable_flash, enable_math, enable_mem_efficient, enable_cudnn : bool
        What :func:`flash_sdp_enabled` and its neighbours return inside ``with``.

    Warns
    -----
    FutureWarning
        That it is deprecated.
    """
    warn_caller(
        "backends.cuda.sdp_kernel() is deprecated; use nn.attention.sdpa_kernel(), which takes a list of backends.",
        FutureWarning,
    )
    before = dict(attention_backends)
    attention_backends.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        attention_backends.update(before)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """False: attention accumulates in float32."""
    return False


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Accept ``enabled``; attention accumulates in float32 either way.

    Nothing is set: :func:`fp16_bf16_reduction_math_sdp_allowed` stays False.
    """


def preferred_blas_library(backend: str | None = None) -> str:
    """``"cublas"``, which computes matrix products whatever ``backend`` is preferred.

    Raises
    ------
    RuntimeError
        If ``backend`` is none of "default", "cublas", "cublaslt".
    """
    return _preferred("cublas", backend, ("default", "cublas", "cublaslt"))


def preferred_linalg_library(backend: str | None = None) -> str:
    """``"default"``: decompositions are computed by kernels of this package, whatever ``backend`` is preferred.

    Raises
    ------
    RuntimeError
        If ``backend`` is none of "default", "cusolver", "magma".
    """
    return _preferred("default", backend, ("default", "cusolver", "magma"))


def _preferred(used: str, backend: str | None, known: tuple[str, ...]) -> str:
    if backend is not None and backend not in known:
        raise RuntimeError(f"Unknown input value {backend!r}. Choose from: {', '.join(known)}.")
    return used


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
