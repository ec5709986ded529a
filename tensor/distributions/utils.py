"""What distributions of one's own are made of: the names of ``torch.distributions.utils``."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from tensor.core.dtypes.limits import finfo
from tensor.core.modes.grad_mode import enable_grad
from tensor.core.names.absent import hints as _hints
from tensor.operations.creation.ranges import arange

from .distribution import broadcast_all as _broadcast_all
from .distribution import clamp_probs
from .distribution import logits_of as _logits_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """The values as tensors of one shape; numbers take dtype and device of the first tensor.

    Raises
    ------
    ValueError
        If one is neither a number nor a tensor.

    Examples
    --------
    >>> tensor.distributions.utils.broadcast_all(1.0, tensor.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    return tuple(_broadcast_all(*values))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of ``logits``: log odds if ``is_binary``, else unnormalized logarithms in the last dimension.

    The result has the shape and dtype of ``logits``. With ``is_binary`` each element is a probability of its own, otherwise
    those of the last dimension sum to 1.
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds of ``probs`` if ``is_binary``, else their logarithms; 0 and 1 are moved by a rounding unit.

    The result has the shape and dtype of ``probs``, a floating one.
    """
    return _logits_of(probs, is_binary)


class lazy_property:  # noqa: N801 - PyTorch's name
    """A property that is computed when it is first read, with gradients, and then is an attribute of the object.

    Parameters
    ----------
    wrapped : callable
        The method that computes it.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal of square matrices, row by row.

    Parameters
    ----------
    mat : Tensor
        Shape ``(..., D, D)``.
    diag : int
        Which diagonal: 0 is the main one, -1 the one below.

    Raises
    ------
    ValueError
        If there is no such diagonal.

    Examples
    --------
    >>> tensor.distributions.utils.tril_matrix_to_vec(tensor.arange(4).reshape(2, 2))
    tensor([0, 2, 3])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _lower(n, diag, mat)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices with the elements of ``vec`` on and below a diagonal, row by row, and zeros above.

    Parameters
    ----------
    vec : Tensor
        Shape ``(..., N)``, as many as a triangle has.
    diag : int
        Which diagonal: 0 is the main one, -1 the one below.

    Raises
    ------
    ValueError
        If no triangle has so many elements.
    """
    count, step = vec.shape[-1], 1 + 2 * diag
    # The positive root of n**2 + step * n - abs(diag) * (diag + 1) - 2 * count = 0.
    root = (-step + (step**2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    n = round(root)
    if abs(n - root) > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mat[..., _lower(n, diag, vec)] = vec
    return mat


def _lower(n: int, diag: int, like: Tensor) -> Tensor:
    numbers = arange(n, device=like.device)
    mask: Tensor = numbers < numbers.view(-1, 1) + (diag + 1)
    return mask


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
