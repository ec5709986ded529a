"""Whether operations are recorded, by the path that PyTorch has it under."""

from typing import TYPE_CHECKING

from tensor.core.modes.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensor.core.names.absent import hints as _hints

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class set_multithreading_enabled:  # noqa: N801 - PyTorch's name
    """Accept ``mode``, also with ``with``: a backward pass runs on the thread that calls it either way.

    Parameters
    ----------
    mode : bool
        Whether PyTorch would use threads of its own for each device.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
