"""Small tensors that follow from sizes alone, made once and kept where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    from .devices.state import Place


def kept(place: Place, key: tuple[Any, ...], make: Callable[[], NDArray[Any]]) -> Tensor:
    """The tensor on ``place`` that is known by ``key``; at first the elements of ``make()``."""
    there: Any = place
    found: Tensor | None = there.plans.get(key)
    if found is None:
        found = wrap(make()).to(place.device)
        if place.is_cuda:
            # Other streams will read it: it is there before anyone can ask.
            there.local.stream.synchronize()
        there.plans[key] = found
    if place.is_cuda:
        # When plans are forgotten, its memory must wait for whoever still reads it.
        found.record_stream(there.local.stream)
    return found
