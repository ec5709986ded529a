"""Whether indices of sparse tensors are checked."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from tensor.operations.sparse.invariants import checks

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch's name
    """Block, or decorator of functions, in which the indices of sparse tensors that are made are checked.

    On the CPU they are checked in any case; on a device the host waits for the check.

    Parameters
    ----------
    enable : bool
        Whether they are.

    Examples
    --------
    >>> with tensor.sparse.check_sparse_tensor_invariants():
    ...     x = tensor.sparse_coo_tensor([[0], [1]], [2.0], (2, 2))
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether indices are checked on devices too."""
        return checks.enabled

    @staticmethod
    def enable() -> None:
        """Check indices from now on."""
        checks.enabled = True

    @staticmethod
    def disable() -> None:
        """Check indices of CPU tensors alone from now on."""
        checks.enabled = False

    def __enter__(self) -> None:
        if self._before is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different instance for context activation."
            )
        self._before, checks.enabled = checks.enabled, self.state

    def __exit__(self, *exception: object) -> None:
        assert self._before is not None
        checks.enabled, self._before = self._before, None

    def __call__(self, function: _F) -> _F:
        """``function``, called in such a block."""

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **options)

        return call  # type: ignore[return-value]
