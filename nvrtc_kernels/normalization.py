"""Rows with mean 0 and variance 1, or mean square 1, and their derivative: see ``cuda/normalization.cuh``.

Batch normalisation has its moments from :mod:`.reduction` instead, because those of a channel may need many
blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import reduction
from .dtypes import float32, float64
from .fused_rows import Operand, RowKernel
from .plans import NOTHING, Plan, bound, includes
from .reducers import SUM, Reducer
from .rows import team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype
    from .fused_rows import Chain
    from .rows import Team

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


def plan(
    device: Device, rows: Rows, input_dtype: dtype, weight: dtype | None, result: dtype | None = None
) -> Callable[..., None]:
    """What normalises contiguous rows.

    Parameters
    ----------
    input_dtype
        Type of the input.
    weight
        Type of weight and bias, where there are any.
    result
        Type of the result, whose elements are no larger than the input's; by default the input's.

    Returns
    -------
    callable
        ``run(stream_handle, eps, in, weight, bias, out, mean, scale)``, addresses but for ``eps``. Addresses of
        weight and bias may be 0. Means and scales, one a row, are of :func:`statistics_type`; without
        ``center`` there are no means.
    """
    compute_type = statistics_type(input_dtype).cuda
    weight_type = (weight or input_dtype).cuda
    result = result or input_dtype
    parameters = [
        f"const {input_dtype.cuda}* in", f"const {weight_type}* weight", f"const {weight_type}* bias", f"{result.cuda}* out",
        f"{compute_type}* mean", f"{compute_type}* scale",
    ]  # fmt: skip
    return _planned(
        device,
        rows,
        (input_dtype, weight or input_dtype, result),
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


def row_kernel(
    rows: Rows,
    input_dtype: dtype,
    weight: dtype | None,
    result: dtype | None = None,
    *,
    has_weight: bool,
    has_bias: bool,
) -> RowKernel:
    """What normalises contiguous rows, for pointwise operations before and after it: as :func:`plan`."""
    statistics, factors = statistics_type(input_dtype), weight or input_dtype
    return RowKernel(
        "normalization.cuh",
        _call(rows, "normalize_rows", statistics),
        (_channel(rows), "eps", "in", "weight", "bias", "out", "mean", "scale"),
        (
            Operand("in", input_dtype),
            Operand("weight", factors, has_weight),
            Operand("bias", factors, has_bias),
        ),
        (
            Operand("out", result or input_dtype),
            Operand("mean", statistics, rows.center),
            Operand("scale", statistics),
        ),
        "in",
        "out",
        rows.rows,
        rows.n,
        (("eps", "d"),),
    )


def backward_row_kernel(
    rows: Rows, grad: dtype, input_dtype: dtype, weight: dtype | None, *, has_weight: bool
) -> RowKernel:
    """What makes the gradient of the rows, for pointwise operations before and after it: as :func:`plan_backward`."""
    statistics = statistics_type(input_dtype)
    return RowKernel(
        "normalization.cuh",
        _call(rows, "normalize_rows_backward", statistics),
        (_channel(rows), "grad", "in", "weight", "mean", "scale", "out"),
        (
            Operand("grad", grad),
            Operand("in", input_dtype),
            Operand("weight", weight or input_dtype, has_weight),
            Operand("mean", statistics, rows.center),
            Operand("scale", statistics),
        ),
        (Operand("out", input_dtype),),
        "grad",
        "out",
        rows.rows,
        rows.n,
    )


def _call(rows: Rows, function: str, statistics: dtype) -> str:
    return f"{function}<{'true' if rows.center else 'false'}, {statistics.cuda}, {{team}}>"


def _channel(rows: Rows) -> str:
    """The code that says which channel an element of a row belongs to."""
    return "Each()" if rows.plain else f"Grouped{{{rows.groups}, {rows.channels}u, {rows.inner}u}}"


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
            f"{includes('normalization.cuh')}"
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


def plan_gradients(
    device: Device, rows: Rows, grad: dtype, input_dtype: dtype, weight: dtype | None, sums: dtype
) -> Plan | None:
    """What makes the gradients of the rows, and of weight and bias, which are of type ``sums``.

    Returns
    -------
    Plan or None
        ``run(stream_handle, scratch, grad, in, weight, mean, scale, out, weight_gradient, bias_gradient)``, all of them
        addresses; ``weight`` may be 0, and without ``center`` there is no last one. ``None`` where rows do not fit
        into registers, channels are not their elements, or rows are too few to be shared among teams that sum over them.
    """
    statistics = statistics_type(input_dtype)
    dtypes = (grad, input_dtype, weight or input_dtype)
    largest = max(dtype.itemsize for dtype in dtypes)
    shape, teams = _summing_teams(rows, largest)
    if shape is None or not teams:
        return None
    name = f"{'' if rows.center else 'rms_'}normalize_gradients"
    compute_type = statistics.cuda
    parameters = [
        f"const {grad.cuda}* grad", f"const {input_dtype.cuda}* in", f"const {(weight or input_dtype).cuda}* weight",
        f"const {compute_type}* mean", f"const {compute_type}* scale", f"{input_dtype.cuda}* out", f"{compute_type}* sums",
    ]  # fmt: skip
    center = "true" if rows.center else "false"

    def kernel(shape: Team) -> Callable[..., None]:
        source = (
            f"{includes('normalization.cuh')}"
            f'extern "C" __global__ void __launch_bounds__({shape.threads}, {_summing_blocks(shape)}) '
            f"{name}(long long rows, int n, long long teams, {', '.join(parameters)}) {{\n"
            f"    normalize_rows_gradients<{center}, {compute_type}, {shape.template}>("
            "rows, n, teams, grad, in, weight, mean, scale, out, sums);\n}\n"
        )
        return bound(
            device, "normalization.cu", source, name, ("q", "i", "q", *"PPPPPPP"), shape.blocks(teams),
            shape.threads, rows.rows, rows.n, teams,
        )  # fmt: skip

    packed, low = kernel(shape), shape.width * largest - 1
    fold = _Fold.of(device, rows.center, teams, rows.n, statistics, sums)

    def run(stream: Any, scratch: int, *arguments: Any) -> None:
        low_bits = 0
        for address in arguments[:6]:
            low_bits |= address
        launch = packed
        if low_bits & low:
            narrow = team(rows.n, largest, packed=False, summing=True)
            assert narrow is not None
            launch = kernel(narrow)
        launch(stream, *arguments[:6], scratch)
        fold.run(stream, scratch, *arguments[6:])

    return Plan(run, fold.scratch_bytes)


def _summing_teams(rows: Rows, largest: int) -> tuple[Team | None, int]:
    """Threads of a row, and teams that sum over rows; 0 where there are none."""
    shape = team(rows.n, largest, summing=True) if rows.plain and rows.rows and rows.n else None
    if shape is None:
        return None, 0
    teams = _summing_blocks(shape) * _MULTIPROCESSORS * (shape.threads // shape.along)
    return shape, teams if rows.rows >= _ROWS_OF_TEAM * teams else 0


class _Fold(NamedTuple):
    """Sums over teams, which leave theirs in scratch memory."""

    plan: reduction.Plan
    part_bytes: int
    parts: int

    @classmethod
    def of(cls, device: Device, center: bool, teams: int, n: int, statistics: dtype, sums: dtype) -> _Fold:
        """That of ``teams`` teams for rows of ``n`` elements."""
        parts = 2 if center else 1
        inputs = [((n, 1), statistics)] * parts
        plan = reduction.plan(
            device, _GRADIENT_SUMS[center], (teams, n), (0,), [((0, 1), sums)] * parts, inputs
        )
        return cls(plan, teams * n * statistics.itemsize, parts)

    @property
    def _own_bytes(self) -> int:
        return -(-self.parts * self.part_bytes // 16) * 16

    @property
    def scratch_bytes(self) -> int:
        """Bytes of what teams leave, and of the reduction's own scratch memory behind that."""
        return self._own_bytes + self.plan.scratch_bytes

    def run(self, stream: Any, scratch: int, *gradients: int) -> None:
        """Sum up what is at ``scratch``."""
        partial = [scratch + k * self.part_bytes for k in range(self.parts)]
        self.plan.run(stream, *gradients, *partial, scratch=scratch + self._own_bytes)


class GradientsKernel(NamedTuple):
    """A kernel of rows that sums the gradients of weight and bias on the way, and the reduction of what its teams leave.

    Attributes
    ----------
    kernel : RowKernel
        The first one, which has ``sums`` in place of the gradients of weight and bias.
    sums : dtype
        Of these gradients.
    """

    kernel: RowKernel
    sums: dtype
    refusal: str = "its rows do not fit into registers"

    @property
    def center(self) -> bool:
        """Whether there is a mean, and a bias."""
        return next(each.is_there for each in self.kernel.reads if each.name == "mean")

    @property
    def reads(self) -> tuple[Operand, ...]:
        """See :class:`.fused_rows.RowKernel`."""
        return self.kernel.reads

    @property
    def writes(self) -> tuple[Operand, ...]:
        """See :class:`.fused_rows.RowKernel`."""
        of_bias = Operand("bias_gradient", self.sums, self.center)
        return self.kernel.writes[0], Operand("weight_gradient", self.sums), of_bias

    @property
    def source(self) -> str:
        """See :class:`.fused_rows.RowKernel`."""
        return self.kernel.source

    @property
    def target(self) -> str:
        """See :class:`.fused_rows.RowKernel`."""
        return self.kernel.target

    @property
    def chain_itemsize(self) -> int:
        """See :class:`.fused_rows.RowKernel`."""
        return self.kernel.chain_itemsize

    def plan(self, device: Device, name: str, before: Chain | None, after: Chain | None) -> Plan:
        """What launches it with chains before and after it.

        Returns
        -------
        Plan
            ``run(stream_handle, scratch, ...)``, with the arguments of :func:`.fused_rows.plan`.
        """
        kernel = self.kernel
        launch = kernel.plan(device, name, before, after)
        assert launch is not None
        fold = _Fold.of(device, self.center, kernel.teams, kernel.n, kernel.writes[1].dtype, self.sums)
        first = (len(before.results) if before else 0) + (after is None)
        behind = first + fold.parts

        def run(stream: Any, scratch: int, *arguments: Any) -> None:
            launch(stream, *arguments[:first], scratch, *arguments[behind:])
            fold.run(stream, scratch, *arguments[first:behind])

        return Plan(run, fold.scratch_bytes)


def gradients_row_kernel(
    rows: Rows, grad: dtype, input_dtype: dtype, weight: dtype | None, sums: dtype, *, has_weight: bool
) -> GradientsKernel | None:
    """What makes the gradients of the rows, and of weight and bias, where :func:`plan_gradients` has a plan."""
    statistics, factors = statistics_type(input_dtype), weight or input_dtype
    largest = max(each.itemsize for each in (grad, input_dtype, factors))
    shape, teams = _summing_teams(rows, largest)
    if shape is None or not teams:
        return None
    kernel = RowKernel(
        "normalization.cuh",
        _call(rows, "normalize_rows_gradients", statistics),
        (str(teams), "grad", "in", "weight", "mean", "scale", "out", "sums"),
        (
            Operand("grad", grad),
            Operand("in", input_dtype),
            Operand("weight", factors, has_weight),
            Operand("mean", statistics, rows.center),
            Operand("scale", statistics),
        ),
        (Operand("out", input_dtype), Operand("sums", statistics)),
        "grad",
        "out",
        rows.rows,
        rows.n,
        teams=teams,
        resident=_summing_blocks(shape),
    )
    return GradientsKernel(kernel, sums)


def _summing_blocks(shape: Team) -> int:
    """Blocks of a multiprocessor, as many as have registers for what each thread keeps: five times its elements."""
    threads = 896 if shape.packs * shape.width <= 8 else 512
    return max(threads // shape.threads, 1)


#: Rows of a team, at least, that sums over rows; multiprocessors that are filled, of whatever device, so that sums have the
#: same bits on all of them.
_ROWS_OF_TEAM, _MULTIPROCESSORS = 4, 128
#: Sums over teams of what they leave for the weight, and for the bias where there is a mean.
_GRADIENT_SUMS = {
    True: SUM._replace(
        name="normalization_gradients",
        state="Sums",
        code="several(a, b)",
        results=("x.item[0]", "x.item[1]"),
    ),
    False: SUM._replace(name="rms_normalization_gradient"),
}
#: Gradients of weight and bias: of grad, input, mean and scale of each row.
WEIGHT_GRADIENTS = SUM._replace(
    name="normalization_weight_gradients",
    state="Sums",
    code="several(a * ((b - c) * d), a)",
    results=("x.item[0]", "x.item[1]"),
)
#: The same without means and biases.
RMS_WEIGHT_GRADIENT: Reducer = SUM._replace(name="rms_normalization_weight_gradient", code="a * (b * c)")
#: Sums over a channel of the gradient, and of it times the normalised input: of grad, input, mean and variance.
BATCH_GRADIENTS = SUM._replace(
    name="batch_normalization_gradients",
    state="Sums",
    code="several(a, a * ((b - c) * rsqrt(d + static_cast<decltype(d)>(eps))))",
    results=("x.item[0]", "x.item[1]"),
    scalars=(("eps", "d"),),
)
