"""The recorder: the one piece of code through which operations enter the graph.

An operation says how it is run backward by a :class:`BackwardFormula`, whose :class:`Derivative` s name what they need;
only what the gradients that are asked for need is saved. A recorded operation leaves an :class:`OperationNode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nvrtc_kernels.dtypes import Category
from tensor.autograd.composition import composed_gradients
from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.fills import filled

from .node import Node, attach, attach_one, edge_of
from .saved import NOTHING, freed, restore_all, save_operands, save_output, saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensor.methods.tensor import Tensor

#: Of which inputs gradients are asked for; ``None`` for numbers.
Mask: TypeAlias = "tuple[bool | None, ...]"

#: Looked up once: before Python 3.12 members of enumerations are found by Python code.
_FLOATING = Category.FLOATING


class Derivative:
    """How a gradient follows from the gradients of an operation's outputs.

    Parameters
    ----------
    function : callable
        ``function(grad, *needs, *context)`` is the gradient of one input, computed with differentiable operations;
        an operation of several outputs has their gradients one after the other in the place of ``grad``.
    needs : str or sequence of str, optional
        Names of the values that it needs, separated by blanks: inputs, outputs, others that the operation keeps. By
        default the function's parameters after the first one name them. For what gives the gradients of all inputs
        there may be a text for each of them: what only gradients need that are not asked for is ``None``.
    """

    __slots__ = ("by_input", "function", "needs")

    def __init__(self, function: Callable[..., Any], needs: str | Sequence[str] | None = None) -> None:
        self.function = function
        self.by_input: tuple[tuple[str, ...], ...] | None = None
        if needs is None:
            code = function.__code__
            self.needs = code.co_varnames[1 : code.co_argcount]
        elif isinstance(needs, str):
            self.needs = tuple(needs.split())
        else:
            self.by_input = tuple([tuple(each.split()) for each in needs])
            self.needs = tuple(dict.fromkeys([name for names in self.by_input for name in names]))

    @classmethod
    def of(cls, derivative: Derivative | Callable[..., Any] | None) -> Derivative | None:
        """``derivative``, or the one that a function alone stands for."""
        return derivative if derivative is None or isinstance(derivative, Derivative) else cls(derivative)


class Composition:
    """An operation as differentiable operations that compute the same.

    Parameters
    ----------
    function : callable
        ``function(*needs, *context)`` gives the outputs, or the only one.
    needs : str
        Names of the inputs and the other values that it takes, separated by blanks. An input whose value no gradient
        needs, such as one that is only added, need not be saved: zeros take its place, or ``None`` where its gradient is
        not asked for.
    """

    __slots__ = ("function", "needs")

    def __init__(self, function: Callable[..., Any], needs: str) -> None:
        self.function = function
        self.needs = tuple(needs.split())


class Form:
    """What the nodes of an operation have in common whose gradients are asked for by the same inputs.

    Attributes
    ----------
    name : str
        Name as PyTorch shows it.
    saved_positions : tuple of int
        What is saved: values by position; an output as the complement of its number.
    save : callable
        What saves them: ``save(values, outputs)``.
    steps : tuple
        For each input its derivative, with the positions in ``saved_positions`` of what it needs (``None`` for all, in that
        order); ``None`` if no gradient is asked for.
    joint : callable or None
        What gives the gradients of all inputs at once, instead of ``steps``.
    composition : tuple or None
        The operation as a function, and for each of its arguments the position in ``saved_positions`` (``None`` for what is not
        saved) and the number of the input that it is (``None`` for what is none).
    """

    __slots__ = ("composition", "joint", "name", "save", "saved_positions", "steps")

    name: str
    save: Callable[[Sequence[Any], Sequence[Tensor]], tuple[Any, ...]]
    saved_positions: tuple[int, ...]
    steps: tuple[tuple[Callable[..., Any], list[int] | None] | None, ...]
    joint: Callable[..., Any] | None
    composition: tuple[Callable[..., Any], list[tuple[int | None, int | None]]] | None


class OperationNode(Node):
    """A recorded operation, whose gradients are functions of what was saved and of ``context``."""

    __slots__ = ("context", "form")

    context: tuple[Any, ...]
    form: Form

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.form.name

    def keep_output(self, result: Tensor) -> None:
        """Save ``result``, which was written after the other values were saved."""
        assert self.saved is not None
        self.saved = tuple(
            [
                save_output(result) if position == -1 else entry
                for position, entry in zip(self.form.saved_positions, self.saved, strict=True)
            ]
        )

    def gradients(self, grads: list[Any], keep_graph: bool) -> list[Any]:
        """See :meth:`.Node.gradients`."""
        form = self.form
        if form.joint is not None or (grads[0] is None and all(grad is None for grad in grads)):
            return super().gradients(grads, keep_graph)
        if self.saved is None:
            raise freed(self)
        values = restore_all(self.saved, self) if self.saved else ()
        context = self.context
        results: list[Any] = []
        for step in form.steps:
            if step is None:
                results.append(None)
                continue
            function, needs = step
            if needs is None:
                gradient = function(*grads, *values, *context)
            else:
                gradient = function(*grads, *map(values.__getitem__, needs), *context)
            if gradient is not None and gradient._layout.dtype.is_complex:
                gradient = _real_for_real(gradient, self, len(results))
            results.append(gradient)
        return results

    def backward(self, *grads: Any) -> Any:
        """Gradients of the inputs."""
        form = self.form
        if form.joint is None:
            return tuple(self.gradients(list(grads), True))
        if self.saved is None:
            raise freed(self)
        values = restore_all(self.saved, self) if self.saved else ()
        if form.composition is not None and modes.recording:
            return self._composed(grads, values)
        mask = tuple([edge is not None for edge in self.next])
        return form.joint(mask, grads if len(grads) > 1 else grads[0], *values, *self.context)

    def _composed(self, grads: Sequence[Any], values: Sequence[Any]) -> Any:
        """Gradients of the inputs that may be differentiated themselves."""
        assert self.form.composition is not None
        composition, arguments = self.form.composition
        return composed_gradients(
            composition,
            tuple([edge is not None for edge in self.next]),
            grads,
            [_stand_in(self, number) if at is None else values[at] for at, number in arguments],
            [number for _, number in arguments],
            self.context,
        )


_Node = TypeVar("_Node", bound=OperationNode)


def _stand_in(node: Node, number: int | None) -> Any:
    """Zeros like an input that was not saved; ``None`` if its gradient is not asked for."""
    edge = None if number is None else node.next[number]
    return None if edge is None else filled(edge[0].layouts[edge[1]].as_dense(), 0)


def _real_for_real(gradient: Tensor, node: Node, position: int) -> Tensor:
    """A complex gradient, or its real part if the input is real."""
    edge = node.next[position]
    if edge is None or edge[0].layouts[edge[1]].dtype.is_complex:
        return gradient
    return gradient.real


class BackwardFormula:
    """How an operation is run backward.

    Parameters
    ----------
    name : str or callable
        Name of the nodes, which is PyTorch's; or a function that gives it for the values, by which of them are numbers.
    values : str or sequence of str
        Names of what :meth:`record` is given, separated by blanks: the inputs, and other values after them.
    derivatives : sequence of Derivative or callable
        For each input its derivative; a function alone names what it needs by its parameters. ``None`` where there is
        none.
    joint : Derivative, optional
        Instead of ``derivatives``, one function for the gradients of all inputs:
        ``function(mask, grad, *needs, *context)`` gives a tuple (or one gradient for one input). ``mask`` says for
        which inputs a gradient is asked for; ``grad`` is a tuple where the operation has several outputs.
    composition : Composition, optional
        With ``joint``, what computes the same of differentiable operations. Then ``joint`` is for backward passes that
        are not recorded, and may be fast; in recorded ones gradients, and so derivatives of any order, follow from the
        composition.
    outputs : str
        Names of the results, separated by blanks.

    Examples
    --------
    >>> formula = BackwardFormula(
    ...     "MulBackward0", "a b", [Derivative(lambda grad, b: grad * b, needs="b"), lambda grad, a: grad * a]
    ... )
    """

    __slots__ = ("_outputs", "_values", "composition", "derivatives", "forms", "joint", "name", "only")

    def __init__(
        self,
        name: str | Callable[..., str],
        values: str | Iterable[str],
        derivatives: Sequence[Derivative | Callable[..., Any] | None] = (),
        *,
        joint: Derivative | None = None,
        composition: Composition | None = None,
        outputs: str = "out",
    ) -> None:
        self.name = name
        self._values = values.split() if isinstance(values, str) else list(values)
        self._outputs = outputs.split()
        self.derivatives = tuple([Derivative.of(each) for each in derivatives])
        self.joint = joint
        self.composition = composition
        #: By which inputs gradients are asked for.
        self.forms: dict[Mask, Form] = {}
        #: The one form, where what is saved does not depend on that: the number of inputs may be open then.
        self.only: Form | None = None

    def __repr__(self) -> str:
        return f"<BackwardFormula {self.name}>"

    def named(self, name: str | Callable[..., str]) -> BackwardFormula:
        """The same formula whose nodes have another name."""
        return BackwardFormula(
            name,
            self._values,
            self.derivatives,
            joint=self.joint,
            composition=self.composition,
            outputs=" ".join(self._outputs),
        )

    def record(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Any],
        others: Sequence[Any] = (),
        context: tuple[Any, ...] = (),
        mask: Mask | None = None,
    ) -> None:
        """Put the operation that computed ``outputs`` into the graph if a gradient of one of ``inputs`` is asked for.

        Outputs of integers have no gradients.

        Parameters
        ----------
        others
            The values after the inputs that derivatives may need.
        context
            What the derivatives get behind what they need.
        mask
            Of which inputs gradients are asked for, where the caller knows that operations are recorded and that it is
            so for one of them at least.
        """
        form = self.only
        if mask is None:
            if not modes.recording:
                return
            # As mask_of() would, without the call; most operations outside of training end here.
            for x in inputs:
                if isinstance(x, TensorBase) and x._autograd is not None and x._autograd.requires_grad:
                    break
            else:
                return
            if form is None:
                mask = tuple(
                    [
                        x._autograd is not None and x._autograd.requires_grad
                        if isinstance(x, TensorBase)
                        else None
                        for x in inputs
                    ]
                )
        if outputs[0]._layout.dtype.category >= _FLOATING:
            values = (*inputs, *others) if others else inputs
            node = OperationNode()
            if form is None:
                assert mask is not None
                form = self.forms.get(mask) or self.form(mask, values)
            node.form = form
            node.context = context
            node.saved = form.save(values, outputs) if form.saved_positions else ()
            if len(outputs) > 1:
                outputs = [x for x in outputs if x._layout.dtype.category >= _FLOATING]
            attach(node, inputs, outputs)

    def record_binary(self, output: Tensor, a: Tensor, b: Any, mask: Mask) -> None:
        """As ``record((output,), (a, b), (), (), mask)``, which is what happens most often: with fewer steps."""
        layout = output._layout
        if layout.dtype.category < _FLOATING:
            return
        node = OperationNode()
        form = self.forms.get(mask)
        if form is None:
            form = self.form(mask, (a, b))
        node.form = form
        node.context = ()
        if form.saved_positions:
            save = form.save
            node.saved = save((a, b), (output,))
        else:
            node.saved = ()
        if mask[0]:
            state = a._autograd
            left = state.edge if state.edge is not None and a._base is None else edge_of(a)
        else:
            left = None
        if mask[1]:
            state = b._autograd
            right = state.edge if state.edge is not None and b._base is None else edge_of(b)
        else:
            right = None
        node.next = left, right
        attach_one(node, output, layout)

    def node(
        self,
        mask: Mask,
        values: Sequence[Any],
        outputs: Sequence[Tensor] = (),
        context: tuple[Any, ...] = (),
        cls: type[_Node] = OperationNode,  # type: ignore[assignment]
    ) -> _Node:
        """A node that is to be put into the graph; outputs that are still to be written are not saved yet."""
        node = cls()
        node.form = form = self.only or self.forms.get(mask) or self.form(mask, values)
        node.context = context
        node.saved = save_operands(form.saved_positions, values, outputs)
        return node

    def form(self, mask: Mask, values: Sequence[Any]) -> Form:
        """What nodes have in common of which the gradients in ``mask`` are asked for; cached."""
        form = Form()
        form.name = self.name if isinstance(self.name, str) else self.name(*values)
        form.joint, form.steps, form.composition = None, (), None
        if self.joint is not None:
            form.joint = self.joint.function
            form.saved_positions = tuple([self._position(name) for name in self.joint.needs])
            if self.joint.by_input is not None:
                used = {
                    name
                    for names, asked_for in zip(self.joint.by_input, mask, strict=False)
                    if asked_for
                    for name in names
                }
                form.saved_positions = tuple(
                    [self._position(name) if name in used else NOTHING for name in self.joint.needs]
                )
            if self.composition is not None:
                positions = [self._position(name) for name in self.composition.needs]
                form.composition = (
                    self.composition.function,
                    [
                        (
                            form.saved_positions.index(position)
                            if position in form.saved_positions
                            else None,
                            position if position < len(mask) else None,
                        )
                        for position in positions
                    ],
                )
        else:
            asked = [
                derivative if requires_grad else None
                for derivative, requires_grad in zip(self.derivatives, mask, strict=False)
            ]
            needed = {self._position(name) for each in asked if each is not None for name in each.needs}
            # Values in their order, then outputs.
            positions = sorted(needed, key=lambda position: (position < 0, abs(position)))
            steps: list[Any] = []
            for each in asked:
                if each is None:
                    steps.append(None)
                    continue
                needs = [positions.index(self._position(name)) for name in each.needs]
                # Most need all that is saved, as it stands there.
                steps.append((each.function, None if needs == [*range(len(positions))] else needs))
            form.saved_positions, form.steps = tuple(positions), (*steps, *[None] * (len(mask) - len(steps)))
        form.save = saver(form.saved_positions)
        if self.joint is not None and self.joint.by_input is None and isinstance(self.name, str):
            self.only = form
        else:
            self.forms[mask] = form
        return form

    def _position(self, name: str) -> int:
        return ~self._outputs.index(name) if name in self._outputs else self._values.index(name)


def mask_of(inputs: Sequence[Any]) -> Mask | None:
    """Of which inputs gradients are asked for; ``None`` where nothing is to be recorded."""
    if not modes.recording:
        return None
    mask: list[bool | None] = []
    for x in inputs:
        if isinstance(x, TensorBase):
            mask.append(x._autograd is not None and x._autograd.requires_grad)
        else:
            mask.append(None)
    return tuple(mask) if True in mask else None
