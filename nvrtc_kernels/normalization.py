"""Rows with mean 0 and variance 1, or mean square 1, and their derivative: see ``cuda/normalization.cuh``.

Batch normalisation has its moments from :mod:`.reduction` instead, because those of a channel may need many
blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .dtypes import float32, float64
from .plans import NOTHING, bound, includes
from .reducers import SUM, Reducer
from .rows import team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_LONG = 1024


class Rows(NamedTuple):
    """What is normalised: ``rows`` rows of ``channels * inner`` elements.

    Attributes
    ----------
    rows, channels, inner : int
        Row ``r`` has the ``channels`` channels from ``r % groups * channels`` on, of ``inner`` elements each.
    groups : int
        Rows that together have every channel.
    center : bool
        Whether the mean is taken away.
    """

    rows: int
    channels: int
    inner: int = 1
    groups: int = 1
    center: bool = True

    @property
    def n(self) -> int:
        """Elements of a row."""
        return self.channels * self.inner

    @property
    def plain(self) -> bool:
        """Whether every element of a row is a channel of its own, the same in all rows."""
        return self.inner == 1 and self.groups == 1


def statistics_type(dtype: dtype) -> dtype:
    """Type of means and scales of rows of ``dtype``."""
    return float64 if dtype is float64 else float32


def plan(device: Device, rows: Rows, input_dtype: dtype, weight: dtype | None) -> Callable[..., None]:
    """What normalises contiguous rows.

    Parameters
    ----------
    input_dtype
        Type of the input and of the result.
    weight
        Type of weight and bias, where there are any.

    Returns
    -------
    callable
        ``run(stream_handle, eps, in, weight, bias, out, mean, scale)``, addresses but for ``eps``. Addresses of
        weight and bias may be 0. Means and scales, one a row, are of :func:`statistics_type`; without
        ``center`` there are no means.
    """
    compute_type = statistics_type(input_dtype).cuda
    weight_type = (weight or input_dtype).cuda
    parameters = [
        f"const {input_dtype.cuda}* in", f"const {weight_type}* weight", f"const {weight_type}* bias", f"{input_dtype.cuda}* out",
        f"{compute_type}* mean", f"{compute_type}* scale",
    ]  # fmt: skip
    return _planned(
        device,
        rows,
        (input_dtype, weight or input_dtype),
        "",
        ["double eps", *parameters],
        compute_type,
        aligned=4,
    )


def plan_backward(
    device: Device, rows: Rows, grad: dtype, input_dtype: dtype, weight: dtype | None
) -> Callable[..., None]:
    """What makes the gradient of the rows, of their own type.

    Returns
    -------
    callable
        ``run(stream_handle, grad, in, weight, mean, scale, out)``, all of them addresses; ``weight`` may be 0.
    """
    compute_type = statistics_type(input_dtype).cuda
    parameters = [
        f"const {grad.cuda}* grad", f"const {input_dtype.cuda}* in", f"const {(weight or input_dtype).cuda}* weight",
        f"const {compute_type}* mean", f"const {compute_type}* scale", f"{input_dtype.cuda}* out",
    ]  # fmt: skip
    return _planned(
        device,
        rows,
        (grad, input_dtype, weight or input_dtype),
        "_backward",
        parameters,
        compute_type,
        aligned=6,
    )


def _planned(
    device: Device,
    rows: Rows,
    dtypes: Sequence[dtype],
    direction: str,
    parameters: Sequence[str],
    compute_type: str,
    *,
    aligned: int,
) -> Callable[..., None]:
    """``aligned`` is how many of the addresses must allow wide loads where these are used."""
    if not rows.rows or not rows.n:
        return NOTHING.run
    numbers = int(parameters[0].startswith("double"))
    passed = ", ".join(each.split()[-1] for each in parameters)
    codes = ("d" * numbers) + "P" * (len(parameters) - numbers)
    name = "normalize" if rows.center else "rms_normalize"
    center = "true" if rows.center else "false"
    channel = "Each()" if rows.plain else "Grouped{groups, channels, inner}"
    extra = "" if rows.plain else ", long long groups, unsigned int channels, unsigned int inner"
    extra_codes = "" if rows.plain else "qII"
    extra_values = () if rows.plain else (rows.groups, rows.channels, rows.inner)

    def kernel(variant: str, template: str, number: str, grid: int, threads: int) -> Callable[..., None]:
        kernel_name = f"{name}{direction}_{variant}"
        source = (
            f"{includes('normalization.cuh', *dtypes)}"
            f'extern "C" __global__ void __launch_bounds__({threads}) '
            f"{kernel_name}(long long rows, {number} n{extra}, {', '.join(parameters)}) {{\n"
            f"    normalize_{variant}{direction}<{center}, {compute_type}, {template}>(rows, n, {channel}, {passed});\n}}\n"
        )
        count = "i" if number == "int" else "q"
        return bound(
            device, "normalization.cu", source, kernel_name, ("q", count, *extra_codes, *codes), grid, threads,
            rows.rows, rows.n, *extra_values,
        )  # fmt: skip

    largest = max(dtype.itemsize for dtype in dtypes)
    shape = team(rows.n, largest)
    if shape is None:
        return kernel("long", f"{_LONG}", "long long", rows.rows, _LONG)
    packed = kernel("rows", shape.template, "int", shape.blocks(rows.rows), shape.threads)
    low = shape.width * largest - 1
    end = numbers + aligned

    def run_rows(stream: Any, *arguments: Any) -> None:
        low_bits = 0
        for address in arguments[numbers:end]:
            low_bits |= address
        if low_bits & low:
            narrow = team(rows.n, largest, packed=False)
            assert narrow is not None
            launch = kernel("rows", narrow.template, "int", narrow.blocks(rows.rows), narrow.threads)
            launch(stream, *arguments)
        else:
            packed(stream, *arguments)

    return run_rows


#: Gradients of weight and bias: of grad, input, mean and scale of each row.
WEIGHT_GRADIENTS = replace(
    SUM,
    name="normalization_weight_gradients",
    state="Sums",
    code="several(a * ((b - c) * d), a)",
    results=("x.item[0]", "x.item[1]"),
)
#: The same without means and biases.
RMS_WEIGHT_GRADIENT: Reducer = replace(SUM, name="rms_normalization_weight_gradient", code="a * (b * c)")
#: Sums over a channel of the gradient, and of it times the normalised input: of grad, input, mean and variance.
BATCH_GRADIENTS = replace(
    SUM,
    name="batch_normalization_gradients",
    state="Sums",
    code="several(a, a * ((b - c) * rsqrt(d + static_cast<decltype(d)>(eps))))",
    results=("x.item[0]", "x.item[1]"),
    scalars=(("eps", "d"),),
)
