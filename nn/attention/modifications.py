"""Functions of single scores, ``score_mod`` and ``mask_mod``, called for all scores at once."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import tensor
from tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
    MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

#: Parameters of the two kinds of functions.
_OF_MASK, _OF_SCORE = 4, 5


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The ``mask_mod`` that lets every query see every key: True, bool, ``()``.

    ``batch``, ``head``, ``token_q`` and ``token_kv`` are the numbers of the score.
    """
    return batch.new_ones((), dtype=tensor.bool)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """A ``mask_mod`` that lets a query see the keys that all of ``mask_mods`` let it see.

    Raises
    ------
    RuntimeError
        If one is not callable.
    """
    _check_callable(mask_mods)

    def and_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_ones((), dtype=tensor.bool)
        for each in mask_mods:
            result = result & each(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """A ``mask_mod`` that lets a query see the keys that any of ``mask_mods`` lets it see.

    Raises
    ------
    RuntimeError
        If one is not callable.
    """
    _check_callable(mask_mods)

    def or_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=tensor.bool)
        for each in mask_mods:
            result = result | each(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _check_callable(mask_mods: tuple[Any, ...]) -> None:
    if not all(callable(each) for each in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def takes_score(function: Callable[..., Any]) -> bool:
    """Whether a function is a ``score_mod``, rather than a ``mask_mod``, by the number of its parameters.

    Raises
    ------
    TypeError
        If it is not callable.
    ValueError
        If it takes neither four arguments nor five.
    """
    parameters = inspect.signature(function).parameters.values()
    count = sum(each.default is inspect.Parameter.empty for each in parameters)
    if count not in (_OF_MASK, _OF_SCORE):
        raise ValueError(
            f"a mask_mod takes (batch, head, q_idx, kv_idx), and a score_mod the score before these: got a function of {count} "
            "arguments"
        )
    return count == _OF_SCORE


class Numbers:
    """The numbers of batch, head, query and key that scores have, as the functions take them.

    Parameters
    ----------
    batch, heads : int
        How many.
    queries, keys : Tensor
        Their numbers, int32, 1-D.
    """

    __slots__ = ("axes",)

    def __init__(self, batch: int, heads: int, queries: Tensor, keys: Tensor) -> None:
        device = queries.device
        self.axes = (
            tensor.arange(batch, dtype=tensor.int32, device=device),
            tensor.arange(heads, dtype=tensor.int32, device=device),
            queries,
            keys,
        )

    def masks(self, mask_mod: MaskMod) -> Tensor:
        """What ``mask_mod`` returns, ``(batch, heads, queries, keys)``."""
        return self._called(mask_mod, ())

    def scores(self, score_mod: ScoreMod, scores: Tensor) -> Tensor:
        """What ``score_mod`` returns for ``scores``, of shape ``(batch, heads, queries, keys)`` as its results."""
        return self._called(score_mod, (scores,))

    def _called(self, function: Callable[..., Tensor], scores: tuple[Tensor, ...]) -> Tensor:
        # With its rules a hundredth of the import of the package.
        from tensor.func import vmap

        for axis in reversed(range(len(self.axes))):
            in_dims = [None] * len(self.axes)
            in_dims[axis] = 0  # type: ignore[call-overload]
            function = vmap(function, in_dims=(*[0] * len(scores), *in_dims))
        return function(*scores, *self.axes)
