"""Methods of tensors that put elements in another order."""

from __future__ import annotations

from . import rearrangement


class RearrangementMethods:
    """What the families of rearranging functions give to the class ``Tensor``."""

    __slots__ = ()

    flip = rearrangement.flip
    fliplr = rearrangement.fliplr
    flipud = rearrangement.flipud
    roll = rearrangement.roll
    rot90 = rearrangement.rot90
