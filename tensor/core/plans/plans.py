"""Launch plans: what carries out an operation on operands of given layouts, worked out once and kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from drv.host.blas import single_threaded
from nvrtc_kernels.dtypes import dtype
from tensor.core.sparse import SparseLayout, SparseOperandError

from .placing import as_always

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Launch plans after which a device starts over; see :mod:`tensor.core.layout`.
PLAN_LIMIT = 16384


class Plans(dict[Any, Any]):
    """What carries out an operation on operands of given layouts: ``plans[operation, *layouts]``.

    A missing plan is made by the operation's ``plan``: a method, or the function of a :class:`planned` one.
    """

    __slots__ = ()

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        # What is carried out on the host may call BLAS.
        single_threaded()
        _check_stored(key)
        # It is for everyone, whoever makes a plan that is made of it.
        with as_always():
            result = key[0].plan(*key[1:])
        if len(self) >= PLAN_LIMIT:
            self.clear()
        self[key] = result
        return result


def _check_stored(key: tuple[Any, ...]) -> None:
    """Raise NotImplementedError if the operation does not take one of its layouts: one that is sparse, or of a dtype that is
    only stored.
    """
    for each in key[1:]:
        if type(each) is SparseLayout:
            raise SparseOperandError(each.layout_name)
        of = getattr(each, "dtype", None)
        if type(of) is dtype and of.is_storage_only and of not in getattr(key[0], "takes", ()):
            raise not_implemented(_name_of(key), of)


def _name_of(key: tuple[Any, ...]) -> str:
    """What users call the operation of a key: families that share a plan have its name among the arguments."""
    name = getattr(key[0], "name", None)
    return name or next((each for each in key[1:] if isinstance(each, str)), "operation")


def not_implemented(name: str, dtype: Any) -> NotImplementedError:
    """The error of an operation that is not there for a dtype whose elements are only stored."""
    instead = "float32" if dtype.is_floating_point else "int64"
    return NotImplementedError(
        f"\"{name}\" not implemented for '{dtype.scalar_type}': elements of {dtype!r} are stored and converted, and "
        f"hardly computed with; convert them with .to(tensor.{instead}) first"
    )


class planned:  # noqa: N801 - stands where a decorator would
    """An operation that is nothing but how it is planned; as a key it is itself.

    ``COPY = planned(function)`` has ``device_state.plans[COPY, to, origin]`` call ``function(to, origin)`` once; what that
    returns carries the operation out. ``arguments`` come before those of the key, and ``options`` by name, so that one
    function plans a family: ``planned(_pair_plan, "mm", 2)``. ``takes`` names the dtypes that it takes of those whose
    elements are only stored; layouts of another one raise NotImplementedError.
    """

    __slots__ = ("name", "plan", "takes")

    def __init__(
        self, function: Callable[..., Any], *arguments: Any, takes: Sequence[dtype] = (), **options: Any
    ) -> None:
        self.plan = partial(function, *arguments, **options) if arguments or options else function
        self.takes = takes
        self.name = next((each for each in arguments if isinstance(each, str)), None)

    def __repr__(self) -> str:
        function = self.plan.func if isinstance(self.plan, partial) else self.plan
        return f"<planned {function.__module__}.{function.__qualname__}>"
