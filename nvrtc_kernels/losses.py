"""Losses whose target is a class, and their derivatives, in one kernel each: see ``cuda/losses.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .dtypes import float32, float64, int64
from .fused_rows import Operand, RowKernel
from .plans import includes, launcher
from .reducers import SUM
from .rows import Team

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

_THREADS = 128
_MOST_THREADS = 1024
_WARP = 32
#: Packs of a thread from which on more threads share a line.
_PACKS = 8
#: Threads that fill any device.
_MANY_THREADS = 1 << 18
#: Bytes of the widest load.
_LOAD_BYTES = 16
#: Classes from which on they are not counted by an int.
_FAR = 1 << 31


class Classes(NamedTuple):
    """Sizes of contiguous ``(outer, classes, inner)`` inputs, none of them 0, and the target that counts nothing."""

    outer: int
    classes: int
    inner: int
    ignored: int

    @property
    def lines(self) -> int:
        """Targets."""
        return self.outer * self.inner

    @property
    def arguments(self) -> tuple[int, ...]:
        """As kernels take them."""
        return self.lines, self.classes, self.inner, self.ignored


_SIZES = "long long lines, long long classes, long long inner, long long ignored"
_PROBLEM = "Classes{lines, classes, inner, ignored}"


def statistics_type(dtype: dtype) -> dtype:
    """Type of what is kept of a line, and of what it weighs."""
    return float64 if dtype is float64 else float32


def plan_cross_entropy(
    device: Device,
    sizes: Classes,
    input_dtype: dtype,
    weight: dtype | None,
    *,
    smooth: bool,
    summed: bool = False,
    reads: dtype | None = None,
) -> Callable[..., None]:
    """What makes the loss of each line.

    Parameters
    ----------
    summed
        Whether losses, and what lines weigh, are added up as far as a block has them: :func:`loss_count` of each.
    reads
        The dtype of the logits in memory, where it is another one; results are those of logits that were cast before.

    Returns
    -------
    callable
        ``run(stream_handle, smoothing, in, target, weight, loss, weighs, kept)``, all addresses but for
        ``smoothing``. Losses, what each weighs, and ``kept`` (two of each line) are of
        :func:`statistics_type`; the weight's address may be 0.
    """
    compute_type = statistics_type(input_dtype).cuda
    weight_dtype, in_memory = weight or input_dtype, reads or input_dtype
    parameters = (
        f"double smoothing, const {in_memory.cuda}* in, const long long* target, const {weight_dtype.cuda}* weight, "
        f"{compute_type}* loss, {compute_type}* weighs, {compute_type}* kept"
    )
    head = _cross_entropy_head(input_dtype, smooth=smooth, summed=summed)
    team = _team(sizes, input_dtype, summed=summed)
    passed = "smoothing, in, target, weight, loss, weighs, kept"

    def kernel(variant: str, template: str) -> Callable[..., None]:
        return _kernel(
            device,
            f"cross_entropy_{variant}",
            f"{head}, {template or team.threads}",
            parameters,
            passed,
            "dPPPPPP",
        )

    return _over_lines(kernel, sizes, team)


def loss_count(sizes: Classes, input_dtype: dtype, *, summed: bool) -> int:
    """How many losses cross entropy makes, and as many of what they weigh: of lines, or of blocks that add theirs up."""
    return _team(sizes, input_dtype, summed=True).blocks(sizes.lines) if summed else sizes.lines


def _cross_entropy_head(input_dtype: dtype, *, smooth: bool, summed: bool) -> str:
    """Arguments of the templates of cross entropy up to the team's."""
    flags = (str(flag).lower() for flag in (smooth, summed))
    return f"{', '.join(flags)}, {statistics_type(input_dtype).cuda}, {input_dtype.cuda}"


def _over_lines(
    kernel: Callable[[str, str], Callable[..., None]],
    sizes: Classes,
    team: Team,
) -> Callable[..., None]:
    """What launches a kernel of lines, in rows or in columns; ``kernel(variant, template)`` makes it."""
    arguments = sizes.arguments
    if sizes.inner > 1:
        launch = kernel("columns", "")
        grid = team.blocks(sizes.lines)

        def run_columns(stream: Any, *operands: Any) -> None:
            launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, *arguments, *operands)

        return run_columns
    rows, threads = team.blocks(sizes.lines), team.threads
    launch_rows = kernel("rows", f"{threads}, {team.along}, {team.width}")

    def run_rows(stream: Any, *operands: Any) -> None:
        launch_rows(rows, 1, 1, threads, 1, 1, 0, stream, *arguments, *operands)

    return run_rows


def _team(sizes: Classes, input_dtype: dtype, *, summed: bool = False) -> Team:
    """Threads of a line, and of a block, which has more lines where these are many and are added up."""
    if sizes.inner > 1:
        return Team(_THREADS, 1, 1, 1)
    width = max(_LOAD_BYTES // input_dtype.itemsize, 1)
    along = _WARP
    while along < _MOST_THREADS and along * width * _PACKS < sizes.classes:
        along = _THREADS if along == _WARP else along * 2
    threads = 2 * _THREADS if summed and sizes.lines * along >= _MANY_THREADS else _THREADS
    return Team(max(along, threads), along, 1, width)


#: Operands of cross entropy that are no rows of logits.
_BESIDE = ("grad", "total", "target", "weight", "all", "statistics", "loss", "weighs")


def _inner(sizes: Classes) -> tuple[str, ...]:
    """What kernels are passed in addition where the logits of a line do not lie behind each other."""
    return () if sizes.inner == 1 else (f"{sizes.inner}LL",)


def cross_entropy_row_kernel(
    sizes: Classes, input_dtype: dtype, weight: dtype | None, reads: dtype, *, smooth: bool, summed: bool
) -> RowKernel | None:
    """What makes the loss of each line, for pointwise operations before it: as :func:`plan_cross_entropy`.

    ``None`` where there are too many classes.
    """
    if sizes.classes >= _FAR:
        return None
    statistics = statistics_type(input_dtype)
    head = _cross_entropy_head(input_dtype, smooth=smooth, summed=summed)
    shape = _team(sizes, input_dtype, summed=summed)
    return RowKernel(
        "losses.cuh",
        f"cross_entropy_of_rows<{head}, {{team}}>"
        if sizes.inner == 1
        else f"cross_entropy_of_columns<{head}, {shape.threads}>",
        (
            *_inner(sizes),
            str(sizes.ignored),
            "smoothing",
            "in",
            "target",
            "weight",
            "loss",
            "weighs",
            "statistics",
        ),
        (
            Operand("in", reads),
            Operand("target", int64),
            Operand("weight", weight or input_dtype, weight is not None),
        ),
        tuple(Operand(name, statistics) for name in ("loss", "weighs", "statistics")),
        "in",
        "",
        sizes.lines,
        sizes.classes,
        (("smoothing", "d"),),
        beside=_BESIDE,
        shape=shape,
    )


def cross_entropy_backward_row_kernel(
    sizes: Classes,
    grad: dtype,
    input_dtype: dtype,
    weight: dtype | None,
    reads: dtype,
    gives: dtype,
    *,
    smooth: bool,
    each: bool,
    divided: bool,
    has_all: bool,
) -> RowKernel | None:
    """What makes the gradient of the logits, for pointwise operations around it: as :func:`plan_cross_entropy_backward`.

    ``divided`` says that there is what the gradient is divided by, ``has_all`` that there is the sum of the weights. ``None``
    where there are too many classes.
    """
    if sizes.classes >= _FAR:
        return None
    statistics = statistics_type(input_dtype)
    head = f"{'true' if smooth else 'false'}, {statistics.cuda}"
    return RowKernel(
        "losses.cuh",
        f"cross_entropy_of_rows_backward<{head}, {{team}}>"
        if sizes.inner == 1
        else f"cross_entropy_of_columns_backward<{head}>",
        (
            *(
                *_inner(sizes),
                str(sizes.ignored),
                "smoothing",
                "grad",
                "total",
                str(int(each)),
                "in",
                "target",
                "weight",
                "all",
            ),
            *("statistics", "out"),
        ),
        (
            Operand("grad", grad),
            Operand("total", statistics, divided),
            Operand("in", reads),
            Operand("target", int64),
            Operand("weight", weight or input_dtype, weight is not None),
            Operand("all", statistics, has_all),
            Operand("statistics", statistics),
        ),
        (Operand("out", gives),),
        "in",
        "out",
        sizes.lines,
        sizes.classes,
        (("smoothing", "d"),),
        beside=_BESIDE,
        shape=_team(sizes, input_dtype),
    )


def plan_cross_entropy_backward(
    device: Device,
    sizes: Classes,
    grad: dtype,
    input_dtype: dtype,
    weight: dtype | None,
    *,
    smooth: bool,
    each: bool,
    reads: dtype | None = None,
    gives: dtype | None = None,
) -> Callable[..., None]:
    """What makes the gradient of the input, of its own type.

    Parameters
    ----------
    each
        Whether there is a gradient for each line, or one for all.
    reads, gives
        The dtypes of the input and of the result in memory, where they are others: casts before and behind are left out.

    Returns
    -------
    callable
        ``run(stream_handle, smoothing, grad, total, in, target, weight, all, kept, out)``. What is divided by
        (``total``), the weight and the sum of its elements (``all``) may have address 0.
    """
    compute_type = statistics_type(input_dtype).cuda
    weight_dtype, in_memory, out = weight or input_dtype, reads or input_dtype, gives or input_dtype
    parameters = (
        f"double smoothing, const {grad.cuda}* grad, const {compute_type}* total, const {in_memory.cuda}* in, "
        f"const long long* target, const {weight_dtype.cuda}* weight, const {compute_type}* all, const {compute_type}* kept, {out.cuda}* out"
    )
    passed = f"smoothing, {_gradient(compute_type, grad, each=each)}, in, target, weight, all, kept, out"
    head = f"{'true' if smooth else 'false'}, {compute_type}"

    def kernel(variant: str, template: str) -> Callable[..., None]:
        return _kernel(
            device, f"cross_entropy_{variant}_backward", f"{head}, {template}" if template else head, parameters, passed, "dPPPPPPPP", each=each,
        )  # fmt: skip

    return _over_lines(kernel, sizes, _team(sizes, input_dtype))


def plan_nll(device: Device, sizes: Classes, input_dtype: dtype, weight: dtype | None) -> Callable[..., None]:
    """What makes the loss of each line: ``run(stream_handle, in, target, weight, loss, weighs)``."""
    compute_type = statistics_type(input_dtype).cuda
    weight_dtype = weight or input_dtype
    parameters = f"const {input_dtype.cuda}* in, const long long* target, const {weight_dtype.cuda}* weight, {compute_type}* loss, {compute_type}* weighs"
    passed = "in, target, weight, loss, weighs"
    launch = _kernel(device, "nll_lines", compute_type, parameters, passed, "PPPPP")
    return _each_line(launch, sizes)


def plan_nll_backward(
    device: Device, sizes: Classes, grad: dtype, input_dtype: dtype, weight: dtype | None, *, each: bool
) -> Callable[..., None]:
    """What makes the gradient of the input in memory that is all zeros.

    Returns
    -------
    callable
        ``run(stream_handle, grad, total, target, weight, out)``; the second and the fourth may be 0.
    """
    compute_type = statistics_type(input_dtype).cuda
    weight_dtype = weight or input_dtype
    parameters = (
        f"const {grad.cuda}* grad, const {compute_type}* total, const long long* target, const {weight_dtype.cuda}* weight, "
        f"{input_dtype.cuda}* out"
    )
    passed = f"{_gradient(compute_type, grad, each=each)}, target, weight, out"
    launch = _kernel(
        device,
        "nll_backward",
        compute_type,
        parameters,
        passed,
        "PPPPP",
        each=each,
    )
    return _each_line(launch, sizes)


def _gradient(compute_type: str, grad: dtype, *, each: bool) -> str:
    return f"LineGradient<{compute_type}, {grad.cuda}>{{grad, total, {int(each)}}}"


def _kernel(
    device: Device,
    function: str,
    template: str,
    parameters: str,
    passed: str,
    codes: str,
    *,
    each: bool = False,
) -> Callable[..., None]:
    kernel_name = f"{function}_of_each" if each else function
    source = (
        f"{includes('losses.cuh')}"
        f'extern "C" __global__ void __launch_bounds__({_MOST_THREADS}) {kernel_name}({_SIZES}, {parameters}) {{\n'
        f"    {function}<{template}>({_PROBLEM}, {passed});\n}}\n"
    )
    return launcher(device, "losses.cu", source, kernel_name, ("q", "q", "q", "q", *codes))


def _each_line(launch: Callable[..., None], sizes: Classes) -> Callable[..., None]:
    grid, arguments = -(-sizes.lines // _THREADS), sizes.arguments

    def run(stream: Any, *operands: int) -> None:
        launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, *arguments, *operands)

    return run


#: Sums of losses and of what they weigh, and the first divided by the second: of both of each line.
WEIGHTED_MEAN = SUM._replace(
    name="weighted_mean",
    state="Sums",
    code="several(a, b)",
    results=("x.item[0] / x.item[1]", "x.item[1]"),
)
#: The same without the division.
WEIGHTED_SUM = WEIGHTED_MEAN._replace(name="weighted_sum", results=("x.item[0]", "x.item[1]"))
