"""Convolutions on tensor cores, from operands where they lie to results in either format, with no columns in memory.

Which convolutions are computed so follows from their sizes. What is left to products and unfolded windows: windows of single
elements in row-major order, which are matrices as they are; few channels or filters, of which tiles would be nearly empty;
and so little work that launches take longer, for which there is no need to compile kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import implicit_convolution as kernels
from tensor.core.modes.precision import settings

from .convolution_on_device import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.convolution import Geometry
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: Fewest channels and filters of a group, and fewest products.
_LEAST_CHANNELS = 8
LEAST_WORK = 1 << 24


def _roles(name: str, first: Layout, second: Layout, out: Layout) -> tuple[Layout, Layout, Layout]:
    """Image, weight and result of a direction."""
    return {
        "forward": (first, second, out),
        "input": (out, second, first),
        "weight": (first, out, second),
    }[name]


def _strides(layout: Layout, rank: int) -> tuple[int, ...]:
    """Strides over items (or filters), channels and three spatial dimensions; 0 where there is one element."""
    steps = [step if size > 1 else 0 for size, step in zip(layout.shape, layout.strides, strict=True)]
    item = steps[0] if len(steps) == rank + 2 else 0
    return (item, steps[-rank - 1], *[0] * (3 - rank), *steps[-rank:])


def _all_strides(layouts: Sequence[Layout]) -> list[tuple[int, ...]]:
    rank = len(layouts[1].shape) - 2
    return [_strides(layout, rank) for layout in layouts]


def takes(name: str, geometry: Geometry, first: Layout, second: Layout, out: Layout) -> bool:
    """Whether a direction of a convolution is computed so, of operands of these layouts."""
    device_state: Any = out.device_state
    if not device_state.is_cuda or not (first.numel and second.numel and out.numel):
        return False
    groups = geometry.groups
    channels, filters = geometry.channels // groups, geometry.filters // groups
    work = geometry.items * geometry.windows.positions * filters * geometry.channels
    if min(channels, filters) < _LEAST_CHANNELS or work * geometry.windows.kernel_elements < LEAST_WORK:
        return False
    if geometry.plain and name != "weight" and first.contiguous and out.contiguous:
        return False
    strides = _all_strides(_roles(name, first, second, out))
    return kernels.takes(device_state.native, out.dtype, geometry, *strides)


def plan(
    name: str, geometry: Geometry, first: Layout, second: Layout, out: Layout, bias: Layout | None
) -> Work:
    """What computes a direction that :func:`takes` accepts, for addresses of operands that lie as their layouts say."""
    native = out.device_state.native  # type: ignore[union-attr]
    image, weight, result = _all_strides(_roles(name, first, second, out))
    if name == "weight":
        planned = kernels.plan_weight(native, out.dtype, geometry, image, weight, result)
    else:
        step = None if bias is None else bias.strides[0]
        planned = kernels.plan(native, out.dtype, name, geometry, image, weight, result, step)
    return Work(planned.run, planned.scratch_bytes)


def where_rounded(
    run: Callable[..., Tensor], plan_precise: Callable[[], Callable[..., Tensor]]
) -> Callable[..., Tensor]:
    """``run`` while float32 may be rounded to TF32, and else what ``plan_precise()`` gives."""
    precise: Callable[..., Tensor] | None = None

    def chosen(*operands: Any) -> Tensor:
        nonlocal precise
        if settings.convolution_tf32:
            return run(*operands)
        if precise is None:
            precise = plan_precise()
        return precise(*operands)

    return chosen
