"""Autocast: what is done to the operands of operations in autocast blocks, and the casts that this takes.

A definition says its rule for each type of device, as PyTorch's lists have it::

    @operation(autocast=Autocast(cuda=LOWER, cpu=LOWER))
    def mm(input, mat2, *, out=None): ...

and that is all: called inside of a block it gets operands in the precision that the rule says, and what it calls
itself is cast no further. Functions with ``out=`` given, and in-place ones, are left alone. Where no thread is in a
block, the rule costs one question.

The casts are recorded as any conversion. Those of parameters are cached until the outermost block ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nvrtc_kernels import coalescing
from nvrtc_kernels.dtypes import float32, float64
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import TensorBase, empty
from tensor.core.modes.autocast import CachedCast, cast_key, settings
from tensor.core.modes.grad_mode import modes
from tensor.core.plans import planned
from tensor.core.plans.steps import recorders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.modes.autocast import Casts
    from tensor.methods.tensor import Tensor

_F = TypeVar("_F", bound="Callable[..., Any]")

#: Operands are cast to the block's dtype.
LOWER = "lower"
#: Operands are cast to float32.
FLOAT32 = "float32"
#: The result is asked for in float32, unless the call names a dtype.
FLOAT32_RESULT = "float32 result"
#: Operands are cast to the widest type among them: float32, if one of them is.
WIDEST = "widest"
#: As outside of a block, also for the functions that it consists of here and does not in PyTorch.
AS_GIVEN = "as given"
#: An error.
REFUSED = "refused"


class Autocast(NamedTuple):
    """What is done to the operands of an operation, for each type of device; ``None``: nothing."""

    cuda: str | None = None
    cpu: str | None = None
    #: Where the function takes the ``dtype`` of its result: a position, or a name.
    dtype_at: int | str | None = None


def eligible(x: Any, *, cuda: bool) -> bool:
    """Whether ``x`` is a tensor that is cast: of a type of device, of floating point, and not float64."""
    if not isinstance(x, TensorBase):
        return False
    dtype = x._layout.dtype
    return x._layout.device_state.is_cuda is cuda and dtype.is_floating_point and dtype is not float64


def cast(x: Tensor, dtype: dtype, *, keeps: bool) -> Tensor:
    """``x`` in another type; that of a float32 parameter is cached in the block where ``keeps`` is true.

    A device casts with it what was cast in the block before this one that began with it: in one launch.
    """
    if not keeps or not _is_parameter(x) or not settings.depth:
        return x.to(dtype)
    layout = x._layout
    stream = layout.device_state.local.stream if layout.device_state.is_cuda else None
    key = cast_key(x, dtype, stream)
    entry = settings.casts.get(key)
    if entry is not None and entry.shows(x):
        return entry.result
    group = settings.groups.get(key)
    # What records puts casts together itself.
    if group is not None and stream is not None and not recorders and group[0]() is x and layout.dense:
        _cast_group(group, x, dtype, stream)
        return settings.casts[key].result
    result = x.to(dtype)
    _expect_gradient(result, x)
    settings.casts[key] = CachedCast(x, stream, result)
    return result


def _expect_gradient(result: Tensor, x: Tensor) -> None:
    """Have the node of a cast take gradients of the parameter's dtype, and those of its own converted to that.

    So they are summed in float32, and what can give them in float32 at once, such as a product, is asked to: see
    :func:`dtype_of_gradient`.
    """
    state = result._autograd
    if state is not None and state.edge is not None:
        node = state.edge[0]
        node.layouts = (x._layout.as_dense(),)


def dtype_of_gradient(x: Tensor | None) -> dtype | None:
    """The dtype in which the gradient of ``x`` is wanted, where that is not its own."""
    state = None if x is None else x._autograd
    if x is None or state is None or state.edge is None:
        return None
    node, number = state.edge
    own: dtype = node.layouts[number].dtype
    return None if own is x._layout.dtype else own


def _is_parameter(x: Tensor) -> bool:
    state = x._autograd
    return (
        state is not None
        and state.edge is None
        and state.requires_grad
        and x._layout.dtype is float32
        and x._base is None
    )


def _cast_group(group: Sequence[Any], first: Tensor, dtype: dtype, stream: Any) -> None:
    """Cast ``first``, and those of ``group`` that can be cast with it, in one launch."""
    casts, device_state = settings.casts, first._layout.device_state
    members: list[Tensor] = []
    for reference in group:
        x = reference()
        if x is None or not _is_parameter(x):
            continue
        layout, key = x._layout, cast_key(x, dtype, stream)
        if layout.device_state is not device_state or not layout.dense or (key in casts and x is not first):
            continue
        members.append(x)
    for x, result in zip(members, cast_together(members, dtype), strict=True):
        _CAST.record((result,), (x,))
        _expect_gradient(result, x)
        casts[cast_key(x, dtype, stream)] = CachedCast(x, stream, result)


def cast_together(tensors: Sequence[Tensor], dtype: dtype) -> list[Tensor]:
    """Dense tensors of one floating dtype and one CUDA device in ``dtype``, in one launch; not recorded."""
    first = tensors[0]._layout
    device_state: Any = first.device_state
    results = [empty(x._layout.with_dtype(dtype)) for x in tensors]
    cast = casting(device_state, [x._layout for x in results], first.dtype)
    cast(device_state.local.stream.handle, *[x._address for x in (*results, *tensors)])
    return results


def casting(device_state: Any, layouts: Sequence[Any], source: dtype) -> Callable[..., None]:
    """What casts dense tensors of ``source`` to ``layouts``, of one dtype: ``run(stream_handle, *addresses)``.

    The addresses are those of all results, in order, then those of what is cast.
    """
    cast = device_state.plans[_CASTS, device_state, layouts[0].dtype, source]
    counts, count = [layout.numel for layout in layouts], len(layouts)

    def run(stream: Any, *addresses: int) -> None:
        pairs = [0] * (2 * count)
        pairs[::2], pairs[1::2] = addresses[:count], addresses[count:]
        cast(stream, pairs, counts)

    return run


def _casts_plan(device_state: Any, target: dtype, source: dtype) -> Callable[..., None]:
    """``device_state.plans[operation, device_state, target, source]``: see :func:`coalescing.plan_casts`."""
    return coalescing.plan_casts(device_state.native, target, source)


_CASTS = planned(_casts_plan)
_CAST = BackwardFormula("ToCopyBackward0", "input", [Derivative(lambda grad: grad.to(float32), needs="")])


def lowered(*operands: Any) -> Any:
    """Operands in the precision of the block that this thread is in, for what is no function of its own.

    Tensors that a block does not cast, and what is no tensor, come back as they are: all of them outside of one.
    """
    casts = modes.autocast
    if casts is None:
        return operands
    for cuda, lower in ((True, casts.cuda), (False, casts.cpu)):
        if lower is not None:
            operands = tuple([cast_all(x, lower, cuda, casts.keeps) for x in operands])
    return operands


def cast_all(x: Any, dtype: dtype, cuda: bool, keeps: bool) -> Any:
    """``x`` in another type, if it is eligible; of a list or tuple all elements. Others come back as they are."""
    if isinstance(x, TensorBase):
        layout = x._layout
        own = layout.dtype
        if (
            own is dtype
            or layout.device_state.is_cuda is not cuda
            or not own.is_floating_point
            or own is float64
        ):
            return x
        return cast(x, dtype, keeps=keeps)
    if type(x) in (list, tuple):
        return type(x)([cast_all(each, dtype, cuda, keeps) for each in x])
    return x


def _tensors(values: Sequence[Any]) -> Iterator[TensorBase]:
    for x in values:
        if isinstance(x, TensorBase):
            yield x
        elif type(x) in (list, tuple):
            yield from _tensors(x)


def _widest(values: Sequence[Any], lower: dtype, cuda: bool) -> dtype:
    dtypes = {x._layout.dtype for x in _tensors(values) if eligible(x, cuda=cuda)}
    return dtypes.pop() if len(dtypes) == 1 else float32 if dtypes else lower


def _any_on(cuda: bool, values: Iterable[Any]) -> bool:
    for x in values:
        if isinstance(x, TensorBase):
            if x._layout.device_state.is_cuda is cuda:
                return True
        elif type(x) in (list, tuple) and _any_on(cuda, x):
            return True
    return False


def enter(
    name: str, rules: Autocast, args: tuple[Any, ...], named: dict[str, Any]
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
            dtype = lower
        elif rule is FLOAT32:
            dtype = float32
        elif rule is WIDEST:
            dtype = _widest((*args, *named.values()), lower, cuda)
        else:
            args, named = _as_they_are(name, rule, rules.dtype_at, args, named, cuda)
            break
        args = tuple([cast_all(x, dtype, cuda, casts.keeps) for x in args])
        if named:
            named = {name: cast_all(x, dtype, cuda, casts.keeps) for name, x in named.items()}
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
    if rule is FLOAT32_RESULT and eligible(args[0], cuda=cuda):
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


def bare(function: _F) -> _F:
    """A decorated function without the question, for those that ask it and have nothing left to cast."""
    return function.bare  # type: ignore[attr-defined, no-any-return]
