"""A compiled call: its programs, forward and backward, and what they hold for."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tensor.autograd.differentiation import grad as gradients_of
from tensor.autograd.recording import saved
from tensor.autograd.recording.node import Node, place_in_graph
from tensor.autograd.recording.state import recorded
from tensor.core.base import view_of
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import copied
from tensor.core.plans.fills import filled

from .generated import Code, Record, expression
from .leaves import cut_off, has_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tensor.autograd.recording.node_hooks import NodeHooks
    from tensor.methods.tensor import Tensor

    from .draws import Draw
    from .program import Program
    from .reading import Readings

_layout_of = attrgetter("_layout")
_storage_of = attrgetter("_storage")
_state_of = attrgetter("_autograd")
_offset_of = attrgetter("_offset")


@dataclass(slots=True)
class Output:
    """Stands in a result's structure for a tensor: an output by number, or an argument that is given back."""

    number: int
    is_argument: bool = False


@dataclass(slots=True)
class Gradients:
    """The backward pass of a program.

    Attributes
    ----------
    program : Program
        Its inputs are the gradients of the outputs that have one, and then what it takes of the forward pass.
    outputs : list of (int, Layout)
        Which outputs have a gradient, and of which layout it was.
    takes : list of int
        Which tensors it takes: those that the function read by number, then what the forward pass keeps.
    inputs : list of int
        The tensors that have a gradient, by number, in the order of the program's results.
    draws : list of int
        Which draws of the forward pass it takes.
    derived : dict
        By output with a gradient, those that are computed from it.
    """

    program: Program
    outputs: list[tuple[int, Any]]
    takes: list[int]
    inputs: list[int]
    draws: list[int]
    derived: dict[int, set[int]]


@dataclass(slots=True)
class Entry:
    """A program of one signature, with what it holds for.

    Attributes
    ----------
    readings : Readings
        What the function reads besides its arguments.
    read : Sharing
        How the tensors among that were, and which memory they share with the arguments and one another.
    forward : Program
        Gives the outputs, and then what the backward pass keeps.
    outputs : int
        How many outputs there are.
    result : object
        The function's result, with an :class:`Output` for each tensor.
    written : list of (int, int)
        Which tensors it writes, and by how much their versions go up.
    draws : list of Draw
        Its draws of random numbers.
    gradients : Gradients or None
        The backward pass, if there is one.
    freed : list of int
        Outputs whose backward pass has been run inside.
    initial : list of (int, bool)
        Leaves whose gradient the function asks for, adds to or replaces: which tensor, and whether it had none.
    leaves : list of int
        Leaves that may get gradients inside, which no hook is to be on: which tensors.
    before : list of int
        Leaves whose gradient of before is read or written: which tensors.
    replaced : list of (container, key, Output)
        Where tensors that the function reads are to be replaced by others.
    """

    readings: Readings
    read: Sharing
    forward: Program
    outputs: int
    result: Any
    written: list[tuple[int, int]]
    draws: list[Draw]
    gradients: Gradients | None
    freed: list[int]
    initial: list[tuple[int, bool]]
    leaves: list[int]
    before: list[int]
    replaced: list[tuple[Any, Any, Output]]
    #: ``assemble(values, tensors)`` is the function's result.
    assemble: Callable[[Sequence[Tensor], Sequence[Tensor]], Any] = field(init=False)
    #: For each tensor that is kept which output with a gradient it is, if it is one.
    kept_outputs: list[int | None] = field(init=False)
    #: Outputs that show the same elements as another one, such as ``x.detach()``, and which.
    twins: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        code = Code("assemble", "values", "tensors")
        result = expression(
            code,
            self.result,
            Output,
            lambda each: f"{'tensors' if each.is_argument else 'values'}[{each.number}]",
        )
        code.add(f"return {result}")
        self.assemble = code.function()
        differentiable = [] if self.gradients is None else [number for number, _ in self.gradients.outputs]
        positions: dict[int | None, int] = {number: i for i, number in enumerate(differentiable)}
        saved_values = range(self.outputs, self.forward.outputs)
        self.kept_outputs = [
            positions.get(self.forward.same_output(each, differentiable)) for each in saved_values
        ]
        self.twins = []
        for number in range(self.outputs):
            other = self.forward.same_output(number, (*differentiable, *self.freed, *range(number)))
            if other is not None and other != number:
                self.twins.append((number, other))

    def tensors(self, arguments: list[Tensor]) -> list[Tensor] | None:
        """``arguments``, the tensors that are read besides, and gradients of before; None if one is not as it was."""
        if not self.readings.hold():
            return None
        try:
            read = self.readings.read()
        except (KeyError, IndexError, ValueError):
            return None
        if self.before:
            gradients = _gradients(map([*arguments, *read].__getitem__, self.before))
            if gradients is None:
                return None
            read += gradients
        tensors = self.read.joined(arguments, read)
        if tensors is None or not (self.leaves or self.initial):
            return tensors
        if any(map(has_hooks, map(tensors.__getitem__, self.leaves))):
            return None
        for number, had_none in self.initial:
            state = tensors[number]._autograd
            if (state is None or state.grad is None) is not had_none:
                return None
        return tensors

    def run(self, tensors: list[Tensor], function: Callable[[], Any], name: str) -> Any:
        """The result of a call; ``function()`` gives it anew, as ``name`` does uncompiled."""
        draws = [draw.generator.next_call(draw.device_state) for draw in self.draws]
        before = modes.recording
        modes.recording = False
        try:
            values = self.forward.run(tensors, draws)
        finally:
            modes.recording = before
        for number, other in self.twins:
            x = values[other]
            values[number] = view_of(x._storage, x._layout, x._offset)
        for number, times in self.written:
            tensors[number]._storage.version += times
        if self.gradients is not None:
            self._record(tensors, values, draws, function, name)
        for number in self.freed:
            values[number]._autograd = recorded(_freed(values[number]), 0)
        for container, key, output in self.replaced:
            container[key] = (tensors if output.is_argument else values)[output.number]
        return self.assemble(values, tensors)

    def _record(
        self,
        tensors: list[Tensor],
        values: list[Tensor],
        draws: list[tuple[int, int]],
        function: Callable[[], Any],
        name: str,
    ) -> None:
        """Put a run into the graph."""
        gradients = self.gradients
        assert gradients is not None
        node = CallBackward()
        place_in_graph(
            node, [tensors[i] for i in gradients.inputs], [values[i] for i, _ in gradients.outputs]
        )
        entries: list[Any] = []
        packs, count = saved.hooks.stack, len(tensors)
        for number in gradients.takes:
            output = None if number < count else self.kept_outputs[number - count]
            x = tensors[number] if number < count else values[self.outputs + number - count]
            if output is not None:
                # Without a reference to the node, which the output will have one to.
                entries.append(saved.save_output(x, output))
                continue
            version = x._storage.version
            entries.append(saved.save(x) if packs or version < 0 else (x, version))
        node.saved = tuple(entries)
        node.entry, node.draws, node.function, node.function_name = self, draws, function, name
        node.arguments = tensors
        for number, (output_number, _) in enumerate(gradients.outputs):
            values[output_number]._autograd = recorded(node, number)


@dataclass(slots=True)
class Sharing:
    """How tensors were that a function read, and which of them, arguments included, share memory.

    Attributes
    ----------
    classes, layouts, required, aligned : list
        Of each: its class, its layout, whether it requires grad, whether it begins at a multiple of 16 bytes.
    distinct : int
        How many different memories there are.
    lasts : list of int or None
        For each the last one that shows the same memory; None where none share.
    distances : list of int
        Then for each the bytes from that one's first element to its own.
    """

    classes: list[type]
    layouts: list[Any]
    required: list[bool]
    aligned: list[bool]
    distinct: int
    lasts: list[int] | None
    distances: list[int]

    @classmethod
    def of(cls, tensors: list[Tensor], arguments: int) -> Sharing:
        """Of ``tensors``, of which the first ``arguments`` are arguments."""
        read = tensors[arguments:]
        distinct = len(set(map(id, map(_storage_of, tensors))))
        lasts = None if distinct == len(tensors) else _lasts(tensors)
        return cls(
            list(map(type, read)),
            [x._layout for x in read],
            [x.requires_grad for x in read],
            [x._offset % 16 == 0 for x in read],
            distinct,
            lasts,
            [] if lasts is None else _distances(tensors, lasts),
        )

    def joined(self, arguments: list[Tensor], read: list[Tensor]) -> list[Tensor] | None:
        """``arguments`` and ``read``; None if one is not as it was."""
        if (
            list(map(type, read)) != self.classes
            or list(map(_layout_of, read)) != self.layouts
            or [state is not None and state.requires_grad for state in map(_state_of, read)] != self.required
            or [offset % 16 == 0 for offset in map(_offset_of, read)] != self.aligned
        ):
            return None
        tensors = arguments + read
        if len(set(map(id, map(_storage_of, tensors)))) != self.distinct:
            return None
        if self.lasts is not None and (
            _lasts(tensors) != self.lasts or _distances(tensors, self.lasts) != self.distances
        ):
            return None
        return tensors


def _gradients(leaves: Iterable[Tensor]) -> list[Tensor] | None:
    """Those of ``leaves``; None if one has none."""
    gradients: list[Any] = [None if state is None else state.grad for state in map(_state_of, leaves)]
    return None if any(each is None for each in gradients) else gradients


def _lasts(tensors: list[Tensor]) -> list[int]:
    ids = list(map(id, map(_storage_of, tensors)))
    last = dict(zip(ids, range(len(ids)), strict=True))
    return list(map(last.__getitem__, ids))


def _distances(tensors: list[Tensor], lasts: list[int]) -> list[int]:
    return [x._offset - tensors[last]._offset for x, last in zip(tensors, lasts, strict=True)]


class CallBackward(Node):
    """A run of a program in the graph."""

    __slots__ = ("arguments", "draws", "entry", "function", "function_name")

    entry: Entry
    draws: list[tuple[int, int]]
    arguments: list[Tensor]
    function: Callable[[], Any] | None
    function_name: str

    @property
    def derived(self) -> Mapping[int, Collection[int]]:  # type: ignore[override]
        """Outputs of which others were computed: the program has these gradients, and does not add them to those."""
        gradients = self.entry.gradients
        return {} if gradients is None else gradients.derived

    def partial(self) -> RuntimeError:
        """The error where such an output is asked for its gradient."""
        return RuntimeError(
            f"{self.function_name}: the gradient of a result that another result was computed from is a part of what it is "
            "uncompiled: call the function uncompiled, or compute the other result outside of it"
        )

    def backward(self, *grads: Tensor | None) -> Any:
        """Gradients of the tensors that the program read."""
        return self._gradients(grads, is_last=False)

    def last_backward(self, *grads: Tensor | None) -> Any:
        """:meth:`backward`; what was saved is freed as the program has read it for the last time."""
        return self._gradients(grads, is_last=True)

    def _gradients(self, grads: Sequence[Tensor | None], *, is_last: bool) -> Any:
        entries = self.saved
        if entries is None:
            raise saved.freed(self)
        if self.hooks is not None:
            self._check_hooks(self.hooks, grads)
        if modes.recording:
            return self._recorded_gradients(grads)
        gradients = self.entry.gradients
        assert gradients is not None
        inputs: list[Any] = []
        for grad, (_, layout) in zip(grads, gradients.outputs, strict=True):
            if grad is None:
                grad = filled(layout, 0)
            elif grad._layout is not layout:
                grad = copied(grad, layout)
            inputs.append(grad)
        inputs += [
            each[0]
            if type(each) is tuple and each[0]._storage.version == each[1]
            else saved.restore(each, self)
            for each in entries
        ]
        draws = [self.draws[i] for i in gradients.draws]
        if is_last:
            # The program has the only references.
            del entries
            self.release()
        return tuple(gradients.program.run(inputs, draws))

    def _check_hooks(self, hooks: NodeHooks, grads: Sequence[Tensor | None]) -> None:
        """Refuse hooks that were given a part of a gradient."""
        for number, others in self.derived.items():
            is_asked = hooks.on_output.get(number) or number in hooks.retain
            if is_asked and any(grads[each] is not None for each in others):
                raise self.partial()

    def release(self) -> None:
        """Free what was saved: a further pass through the node raises RuntimeError, unless nothing was."""
        if self.saved:
            self.saved = None
            self.arguments = []
            # It has the arguments, too.
            self.function = None

    def _recorded_gradients(self, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        """Gradients that have gradients themselves: the function runs again, uncompiled, for its graph."""
        entry = self.entry
        if entry.draws or entry.written or entry.replaced:
            raise RuntimeError(
                f"{self.function_name}: create_graph=True through a compiled function that draws random numbers, or writes to "
                "or replaces a tensor from outside, would do so twice; compile it without, or differentiate it uncompiled"
            )
        gradients = entry.gradients
        assert gradients is not None and self.function is not None
        outputs: list[Tensor] = []
        _collect(self.function(), entry.result, outputs)
        pairs = [
            (outputs[i], grad)
            for (i, _), grad in zip(gradients.outputs, grads, strict=True)
            if grad is not None
        ]
        inputs = [self.arguments[number] for number in gradients.inputs]
        with cut_off(inputs):
            return gradients_of(
                [x for x, _ in pairs],
                inputs,
                [grad for _, grad in pairs],
                create_graph=True,
                allow_unused=True,
            )


def _freed(output: Tensor) -> CallBackward:
    """The node of an output whose backward pass was run before it was there."""
    node = CallBackward()
    place_in_graph(node, [], [output])
    node.saved = None
    return node


def _collect(result: Any, template: Any, outputs: list[Tensor]) -> None:
    """Add the tensors of ``result`` to ``outputs`` that ``template`` has an output for."""
    if isinstance(template, Output):
        if not template.is_argument and template.number == len(outputs):
            outputs.append(result)
    elif isinstance(template, (list, tuple)):
        for each, inner in zip(result, template, strict=True):
            _collect(each, inner, outputs)
    elif isinstance(template, dict):
        for name, inner in template.items():
            _collect(result[name], inner, outputs)
    elif isinstance(template, Record):
        for name, inner in template.values.items():
            _collect(getattr(result, name), inner, outputs)
