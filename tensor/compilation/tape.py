"""Records what a function does to tensors on a device, or on the CPU, while it runs.

Whatever an operation is made of, in the end it looks up a plan for its operands' layouts, ``device_state.plans[...]``, and
runs that on tensors; derivatives do the same. A tape stands in for the device's plans and writes down each run: the plan,
and which elements of which memory it was given. That takes nothing from programs that are not being recorded.

What a tape cannot account for makes it unusable (:class:`Unsupported`): memory that nothing on it wrote, work on another
device or stream, a value that the host asked for.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tensor.core.base import TensorBase, maker
from tensor.core.layout import Layout, contiguous
from tensor.core.modes.grad_mode import modes
from tensor.core.modes.sync_debug import sync_debug
from tensor.core.plans import Plans
from tensor.core.plans.copies import COPIED, COPY
from tensor.core.plans.fills import FILL, ZERO
from tensor.core.plans.steps import recorders
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.products.matrix_products import PRODUCT
from tensor.operations.random import generator as generators
from tensor.operations.random.dropout import DROPOUT
from tensor.operations.random.fills import PROBABILITIES, RANDOM

from .draws import Draw, Draws
from .host_tensors import HostWatch
from .leaves import Leaves
from .reading import is_own_code

if TYPE_CHECKING:
    import functools
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tensor.core.devices.state import DeviceState
    from tensor.core.storage import Storage
    from tensor.methods.tensor import Tensor

#: Which operand is written without being read, by the plan's operation.
_TARGETS = {FILL: 0, ZERO: 0, COPY: 0, RANDOM: 0, PROBABILITIES: 0, DROPOUT: 2}


class Unsupported(Exception):  # noqa: N818 - a reason, which the program's user gets as a warning or an error
    """Why a function cannot be compiled; ``where`` is the line of the program, as ``file:line``."""

    def __init__(self, reason: str, where: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where = where if where is not None else line_of_program()


@dataclass(frozen=True, slots=True)
class Ref:
    """Elements of memory.

    Attributes
    ----------
    buffer : int
        The memory's number.
    layout : Layout
    offset : int
        Which elements, as of a tensor.
    lookup : int
        Tells tables of a kernel apart that it reads by different indices; 0 for what is not read by an index.
    """

    buffer: int
    layout: Layout
    offset: int
    lookup: int = 0


@dataclass(slots=True)
class Buffer:
    """Memory that a tape knows.

    Attributes
    ----------
    storage : Storage or None
        The memory during the recording.
    source : str
        ``"argument"`` for what comes from outside, ``"constant"`` for what is kept for good, ``"result"`` for what a step
        made, ``"empty"`` for what a step was the first to write.
    size : int
        Bytes.
    """

    storage: Storage | None
    source: str
    size: int


@dataclass(slots=True)
class Launch:
    """A kernel of a program's own, as its runner launches it.

    Attributes
    ----------
    launch : callable
        Is given the stream, addresses, the two numbers of a draw, and ``numbers``.
    makers : list of callable
        Each gives memory for a result.
    numbers : tuple
        Packed numbers.
    draws : bool
        Whether it is given a draw, before the operands.
    writes : bool
        Whether it writes the first operand, before the results.
    """

    launch: Callable[..., None]
    makers: list[Callable[[], Any]]
    numbers: tuple[Any, ...]
    draws: bool
    writes: bool


@dataclass(slots=True)
class Step:
    """A plan that ran.

    Attributes
    ----------
    key : tuple
        What it was looked up by: the operation, layouts, options.
    run : callable or Launch
        The plan, or a kernel of the program's own.
    arguments : tuple
        What it was run on, with a :class:`Ref` for each tensor, in lists, tuples and dicts too.
    result : object
        What it gave, likewise.
    line : str
        The line of the program, as ``file:line``.
    draw : Draw or None
        The draw of random numbers that ``arguments`` name.
    writes : set of int
        Buffers among ``arguments`` that are written.
    notes : list of str
        Why it is not one with others.
    originals : tuple of Step
        What was recorded, where this does the work of several steps.
    is_part : bool
        Whether what was recorded is among the originals of other steps, of which this does a part.
    on_host : bool
        Whether it also does something on the host, such as keeping books, or sets gradients of leaves.
    """

    key: tuple[Any, ...]
    run: Callable[..., Any] | Launch
    arguments: tuple[Any, ...]
    result: Any
    line: str
    draw: Draw | None = None
    writes: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    originals: tuple[Step, ...] = ()
    is_part: bool = False
    on_host: bool = False

    @property
    def name(self) -> str:
        """The operation's name, for people."""
        operation = self.key[0]
        own = operation if isinstance(operation, str) else getattr(operation, "name", None)
        if own is not None:
            return str(own)
        # A plan, or a function, is known by its module and by what it does there.
        function = getattr(operation, "plan", operation)
        function = getattr(function, "func", function)
        module = getattr(function, "__module__", "").rpartition(".")[2]
        name = getattr(function, "__name__", type(operation).__name__).strip("_").removesuffix("_plan")
        return f"{module}.{name}" if name != "plan" else type(operation).__name__.strip("_")

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it reads and writes, each once; of a view, without what lies between its elements."""
        reads = refs(self.arguments) if getattr(self.key[0], "reads", True) else ()
        layouts = [ref.layout for ref in {*reads, *refs(self.result)}]
        return sum(min(layout.nbytes, layout.numel * layout.itemsize) for layout in layouts)

    def reads(self) -> Iterator[Ref]:
        """What the step was given, the elements that it writes among them."""
        return refs(self.arguments)


def refs(template: Any) -> Iterator[Ref]:
    """The :class:`Ref` in a template, in order."""
    if type(template) is Ref:
        yield template
    elif isinstance(template, (list, tuple)):
        for each in template:
            yield from refs(each)
    elif isinstance(template, dict):
        for each in template.values():
            yield from refs(each)


def map_tensors(
    function: Callable[[Any], Any], value: Any, leaf: type, others: Callable[[Any], Any] | None = None
) -> Any:
    """``value`` with ``function`` of each ``leaf`` in it, in lists, tuples and dicts too, and ``others`` of what is none."""
    if isinstance(value, leaf):
        return function(value)
    if isinstance(value, (list, tuple)):
        elements = [map_tensors(function, each, leaf, others) for each in value]
        return value._make(elements) if hasattr(value, "_make") else type(value)(elements)
    if type(value) is dict:
        return {name: map_tensors(function, each, leaf, others) for name, each in value.items()}
    return value if others is None else others(value)


def line_of_program() -> str:
    """The line that the program is at, below the frames of this library, as ``file:line``."""
    frame = sys._getframe(1)
    while frame is not None and is_own_code(frame.f_code):
        frame = frame.f_back  # type: ignore[assignment]
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass
class Tape:
    """What a function does to tensors of one device, recorded inside of ``with tape:``.

    Attributes
    ----------
    device_state : DeviceState
        The device, or the host.
    buffers : list of Buffer
        The memory, by number.
    steps : list of Step
        The plans that ran, in order.
    """

    device_state: DeviceState
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._draws = Draws(self.device_state)
        self._failure: Unsupported | None = None
        self._stream = self._current_stream()
        self._thread = threading.get_ident()
        self._versions: dict[int, int] = {}
        #: The versions of the last step's operands before it ran.
        self._before: dict[int, int] = {}
        self._leaves = Leaves([])
        #: Gradients that runs have set at leaves before a function that finds them there, and what they showed then.
        self._at_leaves: list[tuple[Tensor, Ref]] = []
        #: Where the steps of the pass begin that is recorded.
        self._begin = 0
        #: Whether steps have copied to the host, which may make something else of that in each call.
        self._host_has_results = False
        #: Of a tape of the host, whose values are there to be asked for: all memory that it knows.
        self._watch = HostWatch(self.host_asked)

    def _current_stream(self) -> Any:
        return self.device_state.local.stream if self.device_state.is_cuda else None

    @property
    def draws(self) -> list[Draw]:
        """The draws of random numbers, in order."""
        return self._draws.drawn

    # Memory

    def argument(self, x: Tensor) -> Ref:
        """Make memory known that the function gets from outside."""
        return self._known(x._storage, "argument", x)

    def constant(self, x: Tensor) -> Ref:
        """Make memory known that is kept for good and not written, such as a table of the runtime's own."""
        return self._known(x._storage, "constant", x)

    def _known(self, storage: Storage, source: str, x: Tensor) -> Ref:
        number = self._numbers.get(id(storage))
        if number is None:
            number = self._numbers[id(storage)] = len(self.buffers)
            self.buffers.append(Buffer(storage, source, storage.nbytes()))
            self._versions[number] = storage.version
            self._watched(storage)
        return Ref(number, x._layout, x._offset)

    def _watched(self, storage: Storage) -> None:
        if not self.device_state.is_cuda:
            self._watch.add(storage)

    def ref(self, x: Tensor) -> Ref:
        """Which memory ``x`` shows.

        Raises
        ------
        Unsupported
            If nothing on the tape has made it.
        """
        number = self._numbers.get(id(x._storage))
        if number is None and self._is_gradient(x):
            number = self._numbers[id(x._storage)]
        if number is None:
            what = f"a tensor of shape {list(x._layout.shape)} on {x._layout.device}"
            raise Unsupported(f"{what} comes from where compilation does not follow")
        return Ref(number, x._layout, x._offset)

    def _is_gradient(self, x: Tensor) -> bool:
        """Whether ``x`` shows memory of a gradient that was there before, which is made known then."""
        gradients = self._leaves.use(x)
        for each in gradients:
            self.argument(each)
        return bool(gradients)

    def written(self) -> dict[int, int]:
        """Buffers from outside that were written, and how often."""
        return {
            number: buffer.storage.version - self._versions[number]
            for number, buffer in enumerate(self.buffers)
            if buffer.source == "argument"
            and buffer.storage is not None
            and buffer.storage.version != self._versions[number]
        }

    def forget_memory(self) -> None:
        """Let go of the memory that the function used while it was recorded."""
        self._watch.forget()
        for buffer in self.buffers:
            if buffer.source != "constant":
                buffer.storage = None

    # Recording

    def __enter__(self) -> Self:
        state = self.device_state
        self._plans = state.plans
        state.plans = _RecordingPlans(self)
        recorders.append(self)
        generators.observers.append(self._drawn)
        sync_debug.observe(self._waited)
        self._watch.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._settle()
        self._watch.stop()
        self.device_state.plans = self._plans
        recorders.remove(self)
        generators.observers.remove(self._drawn)
        sync_debug.unobserve(self._waited)

    def _settle(self) -> None:
        """Note what the last step wrote: operations count their writes once they have run."""
        if self.steps:
            for number, version in self._before.items():
                storage = self.buffers[number].storage
                if storage is not None and storage.version != version:
                    self.steps[-1].writes.add(number)
        self._before = {}

    def follows(self) -> bool:
        """Whether what the calling thread does now is to be written down."""
        return threading.get_ident() == self._thread and self.device_state.plans is not self._plans

    # What is at leaves

    def watch_leaves(self, tensors: list[Tensor]) -> None:
        """Note what becomes of the gradients of those of ``tensors``, which are arguments, that are leaves."""
        self._leaves = Leaves(tensors)
        for each in self._leaves.before():
            if id(each._storage) in self._numbers:
                self._is_gradient(each)

    def gradient_asked(self, x: Tensor) -> None:
        """Note that what the function does, or leaves, depends on whether ``x`` has a gradient."""
        if threading.get_ident() == self._thread:
            self._leaves.ask(x)

    def repeated(
        self, function: functools.partial[Any], clears: Iterable[Tensor] = (), writes: Iterable[Tensor] = ()
    ) -> Any:
        """Call a function that keeps books on the host; each run of the tape calls it at this place.

        It may give a tensor, of one layout in all calls, which nothing else on the tape writes. ``clears`` are leaves that have
        no gradient afterwards, whether they had one or not; ``writes`` are tensors that it may write to, beside those that it
        writes to in this call.
        """
        owner = f"{type(function.args[0]).__name__}." if function.args else ""
        name = f"{owner}{getattr(function.func, '__name__', 'function')}()"
        step = self._gradients_set(name, function)
        if step is not None and not all(map(_is_repeatable, (*function.args, *function.keywords.values()))):
            self.fail(Unsupported(f"it calls {name} with arguments that compilation does not follow"))
        versions = self._all_versions()
        gradients = [(each, each._storage.version) for each in self._leaves.before()]
        profile = sys.getprofile()
        # What it runs is not looked into.
        sys.setprofile(None)
        self.__exit__()
        try:
            result = function()
        finally:
            self.__enter__()
            sys.setprofile(profile)
        for number, version in self._all_versions().items():
            change = version - versions[number]
            if change:
                if step is not None:
                    step.writes.add(number)
                # Its writes count as they happen, in each run anew.
                self._versions[number] = self._versions.get(number, 0) + change
        for each, version in gradients:
            if each._storage.version != version and step is not None:
                step.writes.add(self.ref(each).buffer)
        if step is not None:
            known = (self._numbers.get(id(x._storage)) for x in writes)
            step.writes.update(number for number in known if number is not None)
            step.arguments = (*step.arguments, [self._shown_by(number) for number in sorted(step.writes)])
            if isinstance(result, TensorBase):
                step.result = self._known(result._storage, "result", result)
        self._leaves.settle(by_function=True, cleared=clears)
        return result

    def end(self) -> None:
        """The function has ended: the gradients that it leaves at leaves are set."""
        # What is added to a gradient that is at its leaf already is another buffer then.
        if self._leaves.changed() or any(
            id(gradient._storage) in self._numbers and self.ref(gradient) != ref
            for gradient, ref in self._at_leaves
        ):
            self._gradients_set("gradients of leaves", None)

    @property
    def gradients_are_set(self) -> bool:
        """Whether a backward pass inside of the function has left gradients at leaves, or added to those that were there."""
        written = self.written()
        return self._leaves.set_some or any(self.ref(x).buffer in written for _, x in self._leaves.used)

    def initial_gradients(self) -> list[tuple[int, bool]]:
        """Leaves, by number, for which it matters whether they had a gradient before, and whether they had none."""
        return self._leaves.initial()

    def gradients_used(self) -> list[tuple[int, Tensor]]:
        """Gradients that were there before and are read or written, with the numbers of their leaves."""
        return self._leaves.used

    def _all_versions(self) -> dict[int, int]:
        return {
            number: 0 if buffer.storage is None else buffer.storage.version
            for number, buffer in enumerate(self.buffers)
        }

    def _shown_by(self, number: int) -> Ref:
        """Some elements of a buffer that a step has."""
        every = (ref for step in self.steps for ref in (*step.reads(), *refs(step.result)))
        known = next((ref for ref in every if ref.buffer == number), None)
        if known is None:
            outside = (*self._leaves.everything, *(x for _, x in self._leaves.used))
            return next(ref for ref in map(self.ref, outside) if ref.buffer == number)
        return known

    def _gradients_set(self, name: str, function: functools.partial[Any] | None) -> Step | None:
        """The step that sets gradients of leaves and calls ``function``, which was not called yet."""
        self._settle()
        if self._failure is not None:
            return None
        leaves = self._leaves
        indices, values, gradients = [], [], []
        try:
            for index, gradient in leaves.to_set(lambda x: id(x._storage) in self._numbers):
                indices.append(index)
                values.append(None if gradient is None else self.ref(gradient))
                gradients.append(gradient)
            targets = [self.ref(leaves.everything[index]) for index in indices]
            for index, target in zip(indices, targets, strict=True):
                if any(self.ref(x) == target for x in leaves.everything[:index]):
                    raise Unsupported("a leaf shows the memory of another tensor that it reads")
        except Unsupported as failure:
            self.fail(failure)
            return None
        recording = modes.recording
        self._at_leaves = [
            (gradient, ref)
            for gradient, ref in zip(gradients, values, strict=True)
            if gradient is not None and ref is not None
        ]

        def run(leaves: list[Any], gradients: list[Any], *_: Any) -> Any:
            for leaf, gradient in zip(leaves, gradients, strict=True):
                leaf._autograd.grad = gradient
            if function is None:
                return None
            before, modes.recording = modes.recording, recording
            try:
                return function()
            finally:
                modes.recording = before

        step = Step((name,), run, (targets, values), None, line_of_program(), on_host=True)
        self.steps.append(step)
        leaves.settle(by_function=False)
        return step

    def begin_backward(self) -> None:
        """What is recorded from now on is another program: the backward pass."""
        self._begin = len(self.steps)

    def check(self) -> None:
        """Raise :class:`Unsupported` if something could not be recorded."""
        if self._failure is not None:
            raise self._failure
        if not self._draws.are_followed_by(step.draw for step in self.steps):
            raise Unsupported("random numbers are drawn in a way that compilation does not follow", "")
        for step in self.steps:
            if any(self.buffers[number].source == "constant" for number in step.writes):
                raise Unsupported(
                    "it writes to a tensor on the device that it makes of values on the host", step.line
                )
        read = {ref.buffer for step in self.steps for ref in step.reads()}
        for number in self.written():
            if number not in read:
                raise Unsupported(
                    "a tensor from outside of the function is written in a way that compilation does not follow",
                    "",
                )

    def fail(self, failure: Unsupported) -> None:
        """Keep the first reason why the tape is unusable; the function goes on."""
        if self._failure is None:
            self._failure = failure

    def _waited(self) -> None:
        if threading.get_ident() == self._thread:
            on_device = "on the device" if self.device_state.is_cuda else "of a tensor"
            self.fail(Unsupported(f"the host asks for a value {on_device}"))

    def host_asked(self) -> None:
        """Note that the host reads or writes elements of a tensor on the CPU, beside what the tape's steps do."""
        if threading.get_ident() == self._thread and self.device_state.plans is not self._plans:
            whose = "a tensor on the CPU from outside" if self.device_state.is_cuda else "a tensor"
            self.fail(Unsupported(f"the host asks for a value of {whose}"))

    def _drawn(self, generator: Any, device_state: Any, seed: int, call: int) -> None:
        if threading.get_ident() == self._thread:
            self._draws.note(generator, device_state, seed, call)

    def looked_up(self, key: tuple[Any, ...], look: Callable[[], Any]) -> Any:
        """The plan for ``key``, which records each time it runs."""
        if threading.get_ident() != self._thread:
            return look()
        state, recording = self.device_state, self.device_state.plans
        # Plans that a new plan is made of are no part of the tape, nor may it keep what records.
        state.plans = self._plans
        try:
            plan = look()
        finally:
            state.plans = recording
        return self._recorded(key, plan)

    def _recorded(self, key: tuple[Any, ...], plan: Any) -> Any:
        if isinstance(plan, TensorBase):
            self.constant(plan)
            return plan
        if isinstance(plan, type) or plan is None:
            return plan
        if isinstance(plan, tuple) and plan and callable(plan[0]):
            values = (_Recorded(self, key, plan[0]), *plan[1:])
            return type(plan)(*values) if hasattr(plan, "_fields") else values
        inner = getattr(plan, "run", None)
        if dataclasses.is_dataclass(plan) and callable(inner):
            changed: Any = plan
            return dataclasses.replace(changed, run=_Recorded(self, key, inner))
        return _Recorded(self, key, plan) if callable(plan) else plan

    def step(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run a function that is one step, and write it down."""
        layouts = [each for each in arguments if isinstance(each, Layout)]
        if self.device_state.is_cuda and layouts and not any(each.device_state.is_cuda for each in layouts):
            # It makes something on the host, which is no part of the tape until it is copied to the device.
            return function(*arguments)
        if not getattr(function, "is_on_host", False):
            return self.run((function,), function, arguments)
        sync_debug.unobserve(self._waited)
        try:
            result = self.run((function,), function, arguments)
        finally:
            sync_debug.observe(self._waited)
        if self._failure is None:
            self.steps[-1].on_host = self.device_state.is_cuda
        return result

    def run(self, key: tuple[Any, ...], plan: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run ``plan`` and write it down."""
        state, recording = self.device_state, self.device_state.plans
        template, target, position = None, None, None
        if self._is_from_host(key, arguments):
            return self._from_host(key, arguments)
        if self._is_scalar_from_outside(key, arguments):
            return self._scalar_from_outside(plan, arguments[0])
        self._settle()
        if self._failure is None:
            try:
                position = _target_position(key, arguments)
                target = None if position is None else arguments[position]
                template = self._template(key, arguments, target)
            except Unsupported as failure:
                self.fail(failure)
        before = {} if template is None else {ref.buffer: self._version(ref) for ref in refs(template)}
        state.plans = self._plans
        try:
            result = plan(*arguments)
        finally:
            state.plans = recording
        if template is not None and target is not None and self._is_whole(key, target):
            assert position is not None
            self.steps.append(self._written_anew(key, plan, template, position, target, arguments))
            # What is written from here on is another buffer.
            self._before = {}
        elif template is not None:
            outputs = map_tensors(lambda x: self._known(x._storage, "result", x), result, TensorBase)
            self._host_has_results |= any(not ref.layout.device_state.is_cuda for ref in refs(outputs))
            step = Step(key, plan, template, outputs, line_of_program(), self._draw_of(arguments))
            if target is not None:
                step.writes.add(self.ref(target).buffer)
            self.steps.append(step)
            self._before = before
        return result

    def _is_from_host(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
        """Whether a step copies to the device what the function has made on the host, which is the same in all calls.

        Its elements do not come from the device, nor from outside of the function, of which the tape would have been told.
        """
        if key[0] is not COPIED and key[0] is not COPY:
            return False
        source = arguments[key[0] is COPY]
        to = key[1].device_state
        return (
            self._failure is None
            and self.device_state.is_cuda
            and not self._host_has_results
            and not source._layout.device_state.is_cuda
            and to is self.device_state
            and id(source._storage) not in self._numbers
        )

    def _from_host(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """Copy what the host has made; the copy is kept, and part of the tape are the steps that read it."""
        state, recording = self.device_state, self.device_state.plans
        source = arguments[key[0] is COPY]
        to = key[1] if key[0] is COPIED else contiguous[key[2].shape, key[2].dtype, state]
        state.plans = self._plans
        sync_debug.unobserve(self._waited)
        try:
            result = state.plans[COPIED, to, source._layout](source)
            self._known(result._storage, "constant", result)
            if key[0] is COPIED:
                return result
            key = (COPY, key[1], to, *key[3:])
            plan = state.plans[key]
        finally:
            sync_debug.observe(self._waited)
            state.plans = recording
        return self.run(key, plan, (arguments[0], result, *arguments[2:]))

    def _is_scalar_from_outside(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
        """Whether a step copies a 0-dim tensor of the CPU to the device that the function gets from outside."""
        if key[0] is not COPIED or not self.device_state.is_cuda or self._failure is not None:
            return False
        source = arguments[0]
        number = self._numbers.get(id(source._storage))
        return (
            number is not None
            and self.buffers[number].source == "argument"
            and not source._layout.shape
            and not source._layout.device_state.is_cuda
            and key[1].device_state is self.device_state
        )

    def _scalar_from_outside(self, plan: Callable[..., Any], source: Tensor) -> Any:
        """Copy such a tensor to the device; each run of a pass does so first, as its other steps may be replayed as graphs."""
        state, recording = self.device_state, self.device_state.plans
        state.plans = self._plans
        sync_debug.unobserve(self._waited)
        try:
            result = plan(source)
        finally:
            sync_debug.observe(self._waited)
            state.plans = recording
        copied = self._known(result._storage, "result", result)
        step = Step(
            ("copy of a scalar on the CPU", None),
            plan,
            (self.ref(source),),
            copied,
            line_of_program(),
            on_host=True,
        )
        # Nothing writes to a tensor of the CPU on the way.
        self.steps.insert(self._begin, step)
        return result

    def _is_whole(self, key: tuple[Any, ...], target: Tensor) -> bool:
        """Whether a step that writes ``target`` writes all of some memory of the function's own."""
        own = key[0] is COPY or key[0] is DROPOUT or isinstance(key[0], Pointwise)
        if not own and not hasattr(key[0], "target_operand"):
            return False
        buffer = self.buffers[self._numbers[id(target._storage)]]
        layout = target._layout
        whole = layout.dense and not target._offset and layout.nbytes == buffer.size
        return whole and buffer.source in ("result", "empty")

    def _written_anew(
        self,
        key: tuple[Any, ...],
        plan: Callable[..., Any],
        template: tuple[Any, ...],
        position: int,
        target: Tensor,
        arguments: tuple[Any, ...],
    ) -> Step:
        """The step that gives a new tensor in place of writing all of ``target``: to what follows it is another buffer."""
        make = maker(target._layout)

        def run(*operands: Any) -> Any:
            result = make()
            plan(*operands[:position], result, *operands[position:])
            return result

        number = self._numbers[id(target._storage)] = len(self.buffers)
        self.buffers.append(Buffer(target._storage, "result", target._storage.nbytes()))
        rest = (*template[:position], *template[position + 1 :])
        if key[0] is COPY:
            key = (COPIED, *key[1:])
            # Whether the host waits is no matter on one device.
            rest, run = rest[:1], self._plans[key]
        elif isinstance(key[0], Pointwise):
            key = (key[0], None, *key[2:])
        result = Ref(number, target._layout, 0)
        return Step(key, run, rest, result, line_of_program(), self._draw_of(arguments))

    def _version(self, ref: Ref) -> int:
        storage = self.buffers[ref.buffer].storage
        assert storage is not None, "a tape holds its memory while it records"
        return storage.version

    def _template(
        self, key: tuple[Any, ...], arguments: tuple[Any, ...], target: Tensor | None
    ) -> tuple[Any, ...]:
        if self._current_stream() is not self._stream:
            raise Unsupported("the current stream changes")
        if target is not None and self._is_new(target, arguments):
            self._known(target._storage, "empty", target)
        result: tuple[Any, ...] = map_tensors(self._operand, arguments, TensorBase)
        numbers = {number for draw in self.draws for number in (draw.seed, draw.call)}
        for each in arguments:
            if not _is_followed(each, numbers):
                name, what = Step(key, self.ref, (), None, "").name, type(each).__name__
                raise Unsupported(f"{name} is given {what}, which compilation does not follow")
        return result

    def _is_new(self, target: Tensor, arguments: tuple[Any, ...]) -> bool:
        """Whether a step is the first to write a tensor, and what is in it before is not read."""
        if id(target._storage) in self._numbers:
            return False
        if self._is_gradient(target):
            return False
        same = [x for x in arguments if isinstance(x, TensorBase) and x._storage is target._storage]
        if len(same) > 1:
            raise Unsupported("it writes to a tensor that comes from where compilation does not follow")
        return True

    def _operand(self, x: Tensor) -> Ref:
        if x._layout.device_state is not self.device_state:
            raise Unsupported(
                f"a tensor on {x._layout.device} takes part in work on {self.device_state.device}"
            )
        return self.ref(x)

    def _draw_of(self, arguments: tuple[Any, ...]) -> Draw | None:
        for draw in reversed(self.draws):
            for position, each in enumerate(arguments):
                if draw.is_in(each) or draw.is_at(arguments, position):
                    return draw
        return None


def _is_repeatable(argument: Any) -> bool:
    """Whether a function that keeps books may be called with ``argument`` again."""
    is_plain = isinstance(argument, (type(None), bool, int, float, str))
    return is_plain or bool(getattr(type(argument), "keeps_books", ()))


def _target_position(key: tuple[Any, ...], arguments: tuple[Any, ...]) -> int | None:
    """Which operand is written without being read, if there is one."""
    operation = key[0]
    if isinstance(operation, Pointwise):
        position = None if key[1] is None else 0
    elif operation is PRODUCT:
        position = 0 if len(arguments) == 5 and arguments[4] == 0 else None
    else:
        position = _TARGETS.get(operation) if operation.__hash__ is not None else None
        position = getattr(operation, "target_operand", None) if position is None else position
    if position is None or position >= len(arguments):
        return None
    return position if isinstance(arguments[position], TensorBase) else None


#: Numbers from here on may be addresses, which a plan that takes no tensors is given.
_ADDRESSES = 1 << 31


def _is_followed(argument: Any, numbers: Collection[int]) -> bool:
    """Whether a plan that is given ``argument`` may be given it again; ``numbers`` are large ones that are no addresses."""
    if argument is None or isinstance(argument, (TensorBase, bool, float, complex, str)):
        return True
    if isinstance(argument, int):
        return abs(argument) < _ADDRESSES or argument in numbers
    if type(argument).__module__.startswith(("tensor.core.", "nvrtc_kernels.", "tensor.operations.")):
        return True
    return isinstance(argument, (list, tuple)) and all(_is_followed(each, numbers) for each in argument)


class _Recorded:
    """A plan that writes down each of its runs, and is the plan in all else."""

    __slots__ = ("_key", "_plan", "_tape")

    def __init__(self, tape: Tape, key: tuple[Any, ...], plan: Any) -> None:
        self._tape, self._key, self._plan = tape, key, plan

    def __call__(self, *arguments: Any) -> Any:
        return self._tape.run(self._key, self._plan, arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)


class _RecordingPlans(Plans):
    """Stands in for a device's plans while a tape records."""

    __slots__ = ("_tape",)

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __getitem__(self, key: Any) -> Any:
        plans = self._tape._plans
        return self._tape.looked_up(key, lambda: plans[key])

    def get(self, key: Any, default: Any = None) -> Any:
        plans = self._tape._plans
        return default if key not in plans else self._tape.looked_up(key, lambda: plans[key])

    def __setitem__(self, key: Any, plan: Any) -> None:
        self._tape._plans[key] = plan

    def __contains__(self, key: object) -> bool:
        return key in self._tape._plans

    def clear(self) -> None:
        self._tape._plans.clear()
