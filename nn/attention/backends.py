"""Which computation of attention is allowed.

There is one computation here, in blocks, with the memory of flash attention and the results of the plain formula. So the
choice changes nothing but what ``tensor.backends.cuda.flash_sdp_enabled()`` and its neighbours say.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

from tensor.core.modes.attention import attention_backends

if TYPE_CHECKING:
    from collections.abc import Iterator


class SDPBackend(IntEnum):
    """PyTorch's computations of attention, as :func:`sdpa_kernel` takes them.

    Their results are the same here, where attention is computed in one way. The values are PyTorch's: ``ERROR`` is -1,
    ``MATH`` 0, ``FLASH_ATTENTION`` 1, ``EFFICIENT_ATTENTION`` 2, ``CUDNN_ATTENTION`` 3, ``OVERRIDEABLE`` 4.
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_NAMES = {
    SDPBackend.MATH: "math",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Allow ``backends`` alone inside ``with sdpa_kernel(SDPBackend.FLASH_ATTENTION):``, also as a decorator.

    Attention is computed in the same way whichever are allowed; ``set_priority`` changes nothing.

    Raises
    ------
    TypeError
        If ``backends`` is neither an :class:`SDPBackend` nor several in a list.
    """
    allowed = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(allowed, (list, tuple)) or not all(isinstance(each, SDPBackend) for each in allowed):
        raise TypeError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    before = dict(attention_backends)
    for backend, name in _NAMES.items():
        attention_backends[name] = backend in allowed
    try:
        yield
    finally:
        attention_backends.update(before)
