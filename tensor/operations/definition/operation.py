"""``@operation``: the definition of a public function, from which its other forms follow.

The decorator stands at the function that computes: its name, arguments and documentation are the public ones. It says
in which namespaces the function is found, whether it is a method, has an in-place form, other names, and what autocast
does to its operands::

    @operation(in_place=True, also="absolute tensor.abs_", autocast=Autocast(cuda=FLOAT32))
    def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        ...

publishes ``tensor.abs``, ``tensor.absolute``, ``Tensor.abs``, ``Tensor.absolute``, ``Tensor.abs_``, ``Tensor.absolute_``
and ``tensor.abs_``. The stubs that type checkers read are generated from the same (``python -m tools.stubs``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from tensor.operations.pointwise_operation import IN_PLACE

from .call_forms import Form, autocasting, completed, takes_tensors
from .call_forms import in_place as in_place_form
from .catalogue import publish

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

    from tensor.operations.autocast import Autocast

_F = TypeVar("_F", bound="Callable[..., Any]")

#: The namespace of methods.
METHODS = "Tensor"
#: Modules of namespaces whose functions say which argument was no tensor, and whether they take NumPy's names too.
_COMPLETED = {
    "tensor": ("tensor", True),
    "special": ("tensor.special", True),
    "linalg": ("tensor.linalg", True),
    "fft": ("tensor.fft", True),
    "nn.functional": ("nn.functional", False),
}


def operation(
    *,
    namespace: str = "tensor",
    method: bool = True,
    in_place: bool = False,
    also: str = "",
    autocast: Autocast | None = None,
) -> Callable[[_F], _F]:
    """Publish the function that is defined below.

    Parameters
    ----------
    namespace : str
        Where functions of its name are found, separated by spaces: ``tensor``, ``special``, ``linalg``, ``fft``,
        ``nn.functional``, or none.
    method : bool
        Whether tensors have it as a method.
    in_place : bool
        Whether tensors have the method ``name_``, which passes ``out=IN_PLACE`` on.
    also : str
        Further names, separated by spaces. A plain one has all forms; one with a namespace (``special.psi``,
        ``Tensor.swapdims``, ``tensor.abs_``) is found just there, and one that ends in an underscore is the in-place form.
    autocast : Autocast, optional
        What is done to operands in autocast blocks.

    Raises
    ------
    ValueError
        If a name is taken already.
    """

    def define(function: _F) -> _F:
        forms = _Forms(cast("FunctionType", function), autocast)
        name = function.__name__
        aliases = also.split()
        for each in (name, *(alias for alias in aliases if "." not in alias)):
            for space in namespace.split():
                forms.publish(space, each)
            if method:
                forms.publish(METHODS, each)
            if in_place:
                forms.publish(METHODS, f"{each}_")
        for alias in aliases:
            if "." in alias:
                forms.publish(*alias.rsplit(".", 1))
        return cast("_F", forms.called)

    return define


def autocasted(rules: Autocast) -> Callable[[_F], _F]:
    """Cast the operands of a function that is not public."""

    def define(function: _F) -> _F:
        own = cast("FunctionType", function)
        return cast("_F", autocasting(own, rules, Form.of(own)))

    return define


class _Forms:
    """The forms of one function, each made once."""

    def __init__(self, function: FunctionType, rules: Autocast | None) -> None:
        self._function = function
        self._rules = rules
        self._form_of_function = form = Form.of(function)
        #: What other functions of families call.
        self.called = function if rules is None else autocasting(function, rules, form)
        self._has_dim = "dim" in form.names
        self._takes_tensors = takes_tensors(function, form.names)
        #: Whether a method takes another tensor without asking whether it is one, as pointwise ones do where they plan.
        self._asks_late = (
            rules is None
            and self._takes_tensors
            and ".pointwise." not in function.__module__
            and takes_tensors(function, form.names[1:])
        )
        self._completed: dict[tuple[FunctionType, str], FunctionType] = {}
        self._in_place: FunctionType | None = None

    def publish(self, namespace: str, name: str) -> None:
        """Publish the form that belongs to a namespace and a name."""
        publish(namespace, name, self._form(namespace, name))

    def _form(self, namespace: str, name: str) -> FunctionType:
        if name.endswith("_") and not self._function.__name__.endswith("_"):
            if self._in_place is None:
                self._in_place = in_place_form(self._function, IN_PLACE)
            if namespace == METHODS:
                return self._in_place
            return self._public(self._in_place, *_COMPLETED[namespace], self._in_place.__name__)
        if namespace == METHODS:
            if self._has_dim or self._asks_late:
                return self._public(self._function, "tensor.methods.tensor", True, name, "Tensor.")
            return self.called
        if namespace in _COMPLETED and self._takes_tensors:
            return self._public(self._function, *_COMPLETED[namespace], name)
        return self.called

    def _public(
        self, function: FunctionType, module: str, aliases: bool, name: str, owner: str = ""
    ) -> FunctionType:
        """A form as users call it; one for each module, by the name that it has there first."""
        key = function, module
        if key not in self._completed:
            rules, form = (
                (self._rules, self._form_of_function) if function is self._function else (None, None)
            )
            self._completed[key] = completed(function, module, name, owner, rules, aliases=aliases, form=form)
        return self._completed[key]
