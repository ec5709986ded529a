"""Settings of CUDA: ``cufft_plan_cache``, and how matrix products compute."""

from __future__ import annotations

from tensor.core.modes.attention import attention_backends
from tensor.core.modes.precision import flag, fp32_name, settings, tf32_of
from tensor.fft.plan_cache import CufftPlanCache

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
    """Set what :func:`flash_sdp_enabled` says to ``enabled``."""
    attention_backends["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether memory-efficient attention is allowed; it changes nothing, as for :func:`flash_sdp_enabled`."""
    return attention_backends["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Set what :func:`mem_efficient_sdp_enabled` says to ``enabled``."""
    attention_backends["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention by the plain formula is allowed; it changes nothing, as for :func:`flash_sdp_enabled`."""
    return attention_backends["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Set what :func:`math_sdp_enabled` says to ``enabled``."""
    attention_backends["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether cuDNN's attention is allowed; it changes nothing, as for :func:`flash_sdp_enabled`."""
    return attention_backends["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Set what :func:`cudnn_sdp_enabled` says to ``enabled``."""
    attention_backends["cudnn"] = bool(enabled)
