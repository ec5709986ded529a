"""Forward-mode differentiation: tensors that carry a tangent, inside :class:`dual_level`.

>>> from tensor.autograd import forward_ad
>>> x, direction = tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 10.0])
>>> with forward_ad.dual_level():
...     result = forward_ad.make_dual(x, direction) ** 2
...     forward_ad.unpack_dual(result).tangent
tensor([ 2., 40.])

Tangents are not computed beside every operation. What is computed from a dual tensor is recorded, and :func:`unpack_dual`
finds the tangent of a result from the recorded graph, by two backward passes. Hence a dual tensor requires grad inside the
level, and what is computed inside ``no_grad()`` in the level has no tangent.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import _Mode, modes

from .graph import GradientEdge
from .levels import Level, LevelNode, concerns_others, intermediate, nodes_behind, settled
from .pushforward import Pushforward

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, which is ``None`` where there is none.

    Attributes
    ----------
    primal : Tensor
        The tensor without tangent.
    tangent : Tensor or None
        Of the shape of ``primal``.
    """

    primal: Any
    tangent: Any


class _DualNode(LevelNode):
    """The start of a dual tensor, with its tangent."""

    __slots__ = ("tangent",)

    tangent: Tensor


class _DualLevel(Level):
    """The level that a thread is in, and whether operations were recorded outside of it."""

    __slots__ = ("recording",)

    def __init__(self) -> None:
        super().__init__()
        self.recording = modes.recording


class _Current(threading.local):
    level: _DualLevel | None = None


_current = _Current()


def enter_dual_level() -> int:
    """Enter a level, in which dual tensors can be made; :class:`dual_level` also leaves it. Returns its number, 0.

    Raises
    ------
    RuntimeError
        If the thread is in a level already.
    """
    if _current.level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment; use func.jvp, which nests")
    _current.level = _DualLevel()
    modes.recording = True
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level: tensors computed in it carry tangents no longer.

    Raises
    ------
    RuntimeError
        If the thread is in no level, or ``level`` is not its number.
    """
    here = _current.level
    if here is None or level not in (None, 0):
        raise RuntimeError(
            "exit_dual_level(): the thread is in no such level: call enter_dual_level() first"
            if here is None
            else f"exit_dual_level(): level {level} is not the one to leave, which is 0"
        )
    here.active = False
    _current.level = None
    modes.recording = here.recording


class dual_level(_Mode):  # noqa: N801 - PyTorch's name
    """Inside ``with``, or in functions that this decorates, tensors can carry tangents. Per thread.

    Raises RuntimeError where the thread is in such a level already.
    """

    def __enter__(self) -> Self:
        enter_dual_level()
        return self

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of ``tensor`` that carries a tangent.

    Parameters
    ----------
    tensor : Tensor
        The primal, of a floating or complex dtype.
    tangent : Tensor
        Of the primal's shape. It may require grad itself.
    level : int, optional
        The current level, 0.

    Raises
    ------
    RuntimeError
        Outside :class:`dual_level`; if the shapes differ, or the tensor carries a tangent already.
    ValueError
        If a dtype is neither floating nor complex.
    TypeError
        If an argument is no tensor.
    """
    here = _current.level
    if here is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for what, argument in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(argument, TensorBase):
            raise TypeError(f"make_dual(): expected {what} to be a Tensor, not {type(argument).__name__}")
        if not (argument.dtype.is_floating_point or argument.dtype.is_complex):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {argument.dtype!r}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if tensor.requires_grad and _duals_behind(tensor, here):
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    result, node = intermediate(tensor, here, _DualNode)
    node.tangent = tangent
    return result


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent, which is ``None`` for a tensor that carries none.

    Both can be differentiated by what requires grad outside the level.

    Raises
    ------
    TypeError
        If the argument is no tensor.
    """
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    here = _current.level
    duals = [] if here is None or not tensor.requires_grad else _duals_behind(tensor, here)
    if here is None or not duals:
        return UnpackedDualTensor(tensor, None)
    before, modes.recording = modes.recording, here.recording
    try:
        create_graph = modes.recording and concerns_others(
            (tensor, *[dual.tangent for dual in duals if dual.tangent.requires_grad]), here
        )
        jacobian = Pushforward([tensor], [GradientEdge(dual, 0) for dual in duals])
        (tangent,) = jacobian.tangents([dual.tangent for dual in duals], create_graph=create_graph)
        return UnpackedDualTensor(settled(tensor, here), settled(tangent, here))
    finally:
        modes.recording = before


def _duals_behind(tensor: Tensor, level: Level) -> list[_DualNode]:
    return [node for node in nodes_behind((tensor,)) if isinstance(node, _DualNode) and node.level is level]
