"""Autocast: which operations compute in which precision, and the casts that this takes.

:data:`CUDA` and :data:`CPU` are the lists, by what is done to the operands, as PyTorch has them for each type of
device. A function that stands in one of them is decorated where it is defined::

    @autocasted
    def mm(input, mat2, *, out=None): ...

and that is all: called inside of a block it gets operands in the precision that its name stands for, and what it
calls itself is cast no further. Decorate a function with PyTorch's name, under which the lists know it (a fused
attention as ``scaled_dot_product_attention``, for example). Functions with ``out=`` given, and in-place ones, are
left alone. Where no thread is in a block, a decorated function costs one more call.

The casts are recorded as any conversion. Those of parameters are kept until the outermost block ends.
"""

from __future__ import annotations

from functools import cache, update_wrapper
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nvrtc_kernels.dtypes import float32, float64
from tensor.core.base import TensorBase
from tensor.core.modes.autocast import autocast_blocks, settings
from tensor.core.modes.grad_mode import modes

from .written_code import Form, defaults, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.modes.autocast import Casts
    from tensor.methods.tensor import Tensor

_F = TypeVar("_F", bound="Callable[..., Any]")

#: Operands are cast to the block's dtype.
LOWER = "lower"
#: Operands are cast to float32.
SINGLE = "single"
#: The result is asked for in float32, unless the call names a dtype.
SINGLE_RESULT = "single result"
#: Operands are cast to the widest type among them: float32, if one of them is.
WIDEST = "widest"
#: As outside of a block, also for the functions that it consists of here and does not in PyTorch.
AS_GIVEN = "as given"
#: An error.
REFUSED = "refused"

CUDA: dict[str, str] = {
    LOWER: """
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        addbmm addmm addmv addr baddbmm bmm chain_matmul einsum linear matmul mm multi_dot mv prelu vecdot
        recur scaled_dot_product_attention
    """,
    SINGLE: """
        acos asin cosh erfinv exp expm1 log log10 log1p log2 logsumexp pow reciprocal rsqrt rtruediv sinh
        softplus tan
        cdist cosine_similarity dist pdist renorm
        group_norm layer_norm local_response_norm rms_norm
        binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy hinge_embedding_loss huber_loss kl_div
        l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss
        smooth_l1_loss soft_margin_loss triplet_margin_loss
        interpolate
    """,
    SINGLE_RESULT: "cumprod cumsum log_softmax matrix_norm norm prod softmax sum vector_norm",
    WIDEST: "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot",
    AS_GIVEN: "householder_product lstsq orgqr ormqr vander",
    REFUSED: "binary_cross_entropy",
}

CPU: dict[str, str] = {
    LOWER: """
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        addbmm addmm baddbmm bmm linear matmul mm prelu vecdot
        recur scaled_dot_product_attention
    """,
    SINGLE: """
        binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
        hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
        multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
        adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d max_unpool2d max_unpool3d
        fractional_max_pool2d fractional_max_pool3d grid_sample local_response_norm reflection_pad
        replication_pad
        cdist nanquantile polar prod quantile stft trace view_as_complex
        fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn
        cholesky cholesky_ex cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf
        householder_product inv inv_ex inverse lstsq lu_solve matrix_rank orgqr ormqr pinverse qr solve svd svdvals
        tensorinv tensorsolve triangular_solve
    """,
    WIDEST: "cat index_copy stack",
    AS_GIVEN: "bilinear",
}


class Rules(NamedTuple):
    """What is done to the operands of a function, for each type of device; ``None`` where it is in no list."""

    cuda: str | None
    cpu: str | None
    #: Where the function takes the ``dtype`` of its result.
    dtype_at: int | str | None = None


def _by_name(lists: Mapping[str, str]) -> dict[str, str]:
    return {name: rule for rule, names in lists.items() for name in names.split()}


_CUDA, _CPU = _by_name(CUDA), _by_name(CPU)


def eligible(x: Any, *, cuda: bool) -> bool:
    """Whether ``x`` is a tensor that is cast: of a type of device, of floating point, and not float64."""
    if not isinstance(x, TensorBase):
        return False
    kind = x._layout.dtype
    return x._layout.place.is_cuda is cuda and kind.is_floating_point and kind is not float64


def cast(x: Tensor, kind: dtype, *, keeps: bool) -> Tensor:
    """``x`` in another type; that of a float32 parameter is kept in the block where ``keeps`` is true."""
    layout, state = x._layout, x._autograd
    if (
        not keeps
        or state is None
        or state.edge is not None
        or not state.requires_grad
        or layout.dtype is not float32
        or x._base is not None
        or not settings.depth
    ):
        return x.to(kind)
    # Each stream has its own: nothing orders one stream behind the cast of another.
    stream = layout.place.local.stream if layout.place.is_cuda else None  # type: ignore[attr-defined]
    key = id(x), kind, id(stream)
    entry = settings.kept.get(key)
    if entry is not None and entry.shows(x):
        return entry.result
    entry = settings.kept[key] = _Kept(x, stream, x.to(kind))
    return entry.result


class _Kept:
    """The cast of a parameter, with what must not change or be freed while it is used."""

    __slots__ = ("input", "result", "storage", "stream", "version")

    def __init__(self, input: Tensor, stream: Any, result: Tensor) -> None:
        self.input = input
        self.stream = stream
        self.result = result
        self.storage = input._storage
        self.version = input._storage.version

    def shows(self, input: Tensor) -> bool:
        """Whether the cast has the elements of ``input`` now, and a history if operations are recorded."""
        storage = input._storage
        if storage is not self.storage or storage.version != self.version:
            return False
        return self.result._autograd is not None or not modes.recording


def lowered(*operands: Any) -> Any:
    """Operands in the precision of the block that this thread is in, for what is no function of its own.

    Tensors that a block does not cast, and what is no tensor, come back as they are: all of them outside of one.
    """
    casts = modes.autocast
    if casts is None:
        return operands
    for cuda, lower in ((True, casts.cuda), (False, casts.cpu)):
        if lower is not None:
            operands = tuple([_cast_all(x, lower, cuda, casts.keeps) for x in operands])
    return operands


def _cast_all(x: Any, kind: dtype, cuda: bool, keeps: bool) -> Any:
    """``x`` in another type, if it is eligible; of a list or tuple all elements."""
    if isinstance(x, TensorBase):
        layout = x._layout
        own = layout.dtype
        if own is kind or layout.place.is_cuda is not cuda or not own.is_floating_point or own is float64:
            return x
        return cast(x, kind, keeps=keeps)  # type: ignore[arg-type]
    if type(x) in (list, tuple):
        return type(x)([_cast_all(each, kind, cuda, keeps) for each in x])
    return x


def _tensors(values: Sequence[Any]) -> Iterator[TensorBase]:
    for x in values:
        if isinstance(x, TensorBase):
            yield x
        elif type(x) in (list, tuple):
            yield from _tensors(x)


def _widest(values: Sequence[Any], lower: dtype, cuda: bool) -> dtype:
    kinds = {x._layout.dtype for x in _tensors(values) if eligible(x, cuda=cuda)}
    return kinds.pop() if len(kinds) == 1 else float32 if kinds else lower


def _any_on(cuda: bool, values: Iterable[Any]) -> bool:
    for x in values:
        if isinstance(x, TensorBase):
            if x._layout.place.is_cuda is cuda:
                return True
        elif type(x) in (list, tuple) and _any_on(cuda, x):
            return True
    return False


def enter(
    name: str, rules: Rules, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Casts | None]:
    """Arguments of a function as the block that this thread is in wants them.

    Where it is in the list that the block follows, nothing is cast from now on, until ``modes.autocast`` is what
    comes third.
    """
    casts = modes.autocast
    if casts is None:
        return args, named, None
    for cuda, rule, lower in ((True, rules.cuda, casts.cuda), (False, rules.cpu, casts.cpu)):
        if rule is None or lower is None or not (_any_on(cuda, args) or _any_on(cuda, named.values())):
            continue
        if rule is LOWER:
            kind = lower
        elif rule is SINGLE:
            kind = float32
        elif rule is WIDEST:
            kind = _widest((*args, *named.values()), lower, cuda)
        else:
            args, named = _as_they_are(name, rule, rules.dtype_at, args, named, cuda)
            break
        args = tuple([_cast_all(x, kind, cuda, casts.keeps) for x in args])
        if named:
            named = {name: _cast_all(x, kind, cuda, casts.keeps) for name, x in named.items()}
        break
    else:
        return args, named, None
    modes.autocast = None
    return args, named, casts


def _as_they_are(
    name: str,
    rule: str,
    dtype_at: int | str | None,
    args: tuple[Any, ...],
    named: dict[str, Any],
    cuda: bool,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a function whose operands are not cast: only the type of its result may be chosen."""
    if rule is REFUSED:
        raise RuntimeError(_REFUSALS[name])
    if rule is SINGLE_RESULT and eligible(args[0], cuda=cuda):
        if isinstance(dtype_at, int):
            if args[dtype_at] is None:
                args = (*args[:dtype_at], float32, *args[dtype_at + 1 :])
        elif dtype_at is not None and named[dtype_at] is None:
            named[dtype_at] = float32
    return args, named


_REFUSALS = {
    "binary_cross_entropy": (
        "binary_cross_entropy and nn.BCELoss are unsafe to autocast: in half precision chances are rounded to 0 and 1. "
        "Leave out the sigmoid before it and use binary_cross_entropy_with_logits or nn.BCEWithLogitsLoss, which "
        "compute in float32; or call it on float32 tensors inside of autocast(..., enabled=False)"
    )
}

_CALL = """
def _call({heads}):
    if _blocks.count{unless}:
        _args, _named, _casts = _enter(_name, _rules, ({args}), {{{named}}})
        try:
            return _function(*_args, **_named)
        finally:
            if _casts is not None:
                _modes.autocast = _casts
    return _function({passed})
"""


def autocasted(function: _F) -> _F:
    """Let ``function`` follow the lists, under its name.

    The function that asks whether a thread is in a block is written out with all parameters: that is the fastest
    way to pass them on. Between the user and ``function`` there is one frame, in blocks and outside of them.
    """
    name = function.__name__
    if name not in _CUDA and name not in _CPU:
        raise ValueError(
            f"{name} is in no list of tensor.operations.autocast: add it there, or leave the decorator out"
        )
    text, at = _text(Form.of(function))
    rules = Rules(_CUDA.get(name), _CPU.get(name), at)
    made: dict[str, Any] = {f"_default_{each}": default for each, default in defaults(function).items()}
    made |= {
        "__name__": function.__module__,
        "_blocks": autocast_blocks,
        "_enter": enter,
        "_modes": modes,
        "_name": name,
        "_function": function,
        "_rules": rules,
    }
    call: Any = update_wrapper(written(text, name, made), function)
    # It is no shell that may be taken off again.
    del call.__wrapped__
    call.autocasts, call.bare = rules, function
    return call  # type: ignore[no-any-return]


@cache
def _text(form: Form) -> tuple[str, int | str | None]:
    """The call that is written out, and where ``dtype`` is among its arguments."""
    heads, args, named, at = [], [], [], None
    starred = False
    for each in form.parameters():
        if each.kind == "starred":
            heads.append(f"*{each.name}")
            args.append(f"*{each.name}")
            starred = True
            continue
        if each.kind == "named":
            if not starred:
                heads.append("*")
                starred = True
            named.append(each.name)
            at = each.name if each.name == "dtype" else at
        else:
            at = len(args) if each.name == "dtype" else at
            args.append(each.name)
        heads.append(f"{each.name}=_default_{each.name}" if each.optional else each.name)
    text = _CALL.format(
        heads=", ".join(heads),
        unless=" and out is None" if "out" in named or "out" in args else "",
        args="".join(f"{each}, " for each in args),
        named=", ".join(f"{each!r}: {each}" for each in named if each != "out"),
        passed=", ".join([*args, *(f"{each}={each}" for each in named)]),
    )
    return text, at


def bare(function: _F) -> _F:
    """A decorated function without the question, for those that ask it and have nothing left to cast."""
    return function.bare  # type: ignore[attr-defined, no-any-return]
