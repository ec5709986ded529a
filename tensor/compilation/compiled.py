"""What :func:`tensor.compile` returns: a program for each signature, or the function itself where there can be none."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import threading
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from nvrtc_kernels import host_loops
from tensor.autograd.differentiation import grad as gradients_of
from tensor.core.base import TensorBase, tensor_class
from tensor.core.devices.device import chosen
from tensor.core.devices.state import cpu
from tensor.core.modes.autocast import settings as autocast_settings
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.fills import filled
from tensor.core.sparse import SparseLayout
from tensor.core.warning import warn_caller

from .casts import absorb_casts
from .elements import Fused
from .entry import Entry, Gradients, Output, Sharing
from .fusion import fuse, fuse_on_host, recomputed
from .generated import Record
from .grouping import group_casts
from .host_tensors import watched_on_host
from .leaves import cut_off, has_hooks, watched_graphs
from .likelihoods import split_likelihoods
from .moves import without_moves
from .outer_sums import group_outer_sums
from .parameter_casts import cache_casts
from .placement import place
from .program import Program
from .reading import PLAIN, REPLACEABLE, Readings, Unreadable, watched
from .reductions import group_reductions
from .replay import Replay
from .replayed_parts import Replaying
from .signature import Special, described, difference, environment, is_plain, recognizer
from .tape import Ref, Tape, Unsupported, map_tensors, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.devices.state import DeviceState
    from tensor.methods.tensor import Tensor

    from .tape import Step

#: How many programs a function may have before it is not compiled again.
RECOMPILE_LIMIT = 8
#: How many forms of calls are told at once, for each function.
_MOST_RECOGNIZED = 16


class CompilationError(RuntimeError):
    """A function that was to be compiled as a whole cannot be.

    Calls of functions that :func:`compile` was given with ``fullgraph=True`` raise it; the text says why, and where.
    """


class _Tracing(threading.local):
    """What this thread records, if it does."""

    tape: Tape | None = None


_tracing = _Tracing()


class _Stance:
    """Of the process: whether compiled functions run as they are."""

    as_it_is = False


stance = _Stance()
#: Held by the thread that records: devices, and what tells recorders of steps, have one at a time.
_recording = threading.Lock()
#: All that are there, for :func:`reset`.
_everything: WeakSet[Compiled] = WeakSet()


def is_compiling() -> bool:
    """Whether this thread runs a function to record it."""
    return _tracing.tape is not None


def reset() -> None:
    """Forget all programs."""
    for each in list(_everything):
        each.forget()


def refuse(reason: str) -> None:
    """Have the function that this thread records, if it does, run as it is from now on."""
    if _tracing.tape is not None:
        _tracing.tape.fail(Unsupported(reason))


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, and no function that calls it is compiled."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse(
            f"it calls {getattr(function, '__qualname__', type(function).__name__)}(), which is not to be compiled"
        )
        return function(*args, **kwargs)

    return call


class Compiled:
    """A function whose operations on a CUDA device, or on the CPU with native loops, run as recorded ones.

    The first call with a signature runs the function, and records what it does to tensors on the device, forward and
    backward. Later calls with that signature run what was recorded, if what the function reads besides is as it was.

    Parameters
    ----------
    function : callable
        What is compiled: a function, or a method of a module.
    fullgraph : bool
        Whether it is an error if it cannot be compiled.
    limit : int, optional
        How many programs it may have; :data:`RECOMPILE_LIMIT` by default.
    replayed : bool
        Whether programs are replayed as CUDA graphs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        fullgraph: bool = False,
        limit: int | None = None,
        replayed: bool = False,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = f"{getattr(function, '__qualname__', None) or repr(function)}()"
        self._fullgraph = fullgraph
        self._limit = RECOMPILE_LIMIT if limit is None else limit
        self._replayed = replayed
        self._entries: dict[Any, list[Entry]] = {}
        self._refused: dict[Any, Unsupported] = {}
        #: Signatures of first calls that set something up, which are recorded once more.
        self._set_up: set[Any] = set()
        #: Signatures that have nothing to compile.
        self._on_host: set[Any] = set()
        #: What tells at once that a call runs a program, and the program.
        self._recognized: tuple[tuple[Callable[[Any, Any], list[Tensor] | None], Entry], ...] = ()
        self._warned = False
        self._lock = threading.RLock()
        _everything.add(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return _compiled(copy.deepcopy(self._function, memo), *self._options())

    def __reduce__(self) -> Any:
        return _compiled, (self._function, *self._options())

    def _options(self) -> tuple[bool, int, bool]:
        return self._fullgraph, self._limit, self._replayed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _tracing.tape is not None or stance.as_it_is:
            return self._function(*args, **kwargs)
        for recognize, entry in self._recognized:
            arguments = recognize(args, kwargs)
            if arguments is not None and (tensors := entry.tensors(arguments)) is not None:
                return entry.run(tensors, partial(self._function, *args, **kwargs), self._name)
        return self._described_call(args, kwargs)

    def _described_call(self, args: Any, kwargs: Any) -> Any:
        """A call that nothing recognizes at once."""
        arguments: list[Tensor] = []
        objects: list[Any] = []
        try:
            signature = (*described([args, kwargs], arguments, objects), *environment())
        except (Special, RecursionError):
            # Arguments that hold themselves have no description.
            return self._function(*args, **kwargs)
        if signature in self._on_host:
            return self._function(*args, **kwargs)
        with self._lock:
            match = self._match(signature, arguments)
            if match is None:
                failure = self._refused.get(signature)
                if failure is None and self.programs >= self._limit:
                    entries = self._entries.get(signature)
                    change = entries[-1].readings.change() if entries else None
                    if change is None and signature not in self._entries:
                        change = difference([*self._entries][-1], signature)
                    reason = (
                        f"it has been compiled {self.programs} times, and what it depends on keeps changing"
                    )
                    if change is not None:
                        reason += f": {change}"
                    failure = Unsupported(reason, "")
                if failure is not None:
                    return self._uncompiled(failure, args, kwargs)
                return self._first_call(signature, args, kwargs, arguments, objects)
            entry, tensors = match
            recognize = recognizer(args, kwargs)
            if recognize is not None:
                # The last one first.
                self._recognized = ((recognize, entry), *self._recognized[: _MOST_RECOGNIZED - 1])
        return entry.run(tensors, partial(self._function, *args, **kwargs), self._name)

    def _match(self, signature: Any, arguments: list[Tensor]) -> tuple[Entry, list[Tensor]] | None:
        """The program for a call, with the tensors that it runs on; None if there is none that holds."""
        for entry in self._entries.get(signature, ()):
            if (tensors := entry.tensors(arguments)) is not None:
                return entry, tensors
        return None

    def forget(self) -> None:
        """Forget the programs: the function is compiled anew when it is called."""
        with self._lock:
            self._recognized = ()
            self._entries.clear()
            self._refused.clear()
            self._set_up.clear()
            self._on_host.clear()
            self._warned = False

    @property
    def programs(self) -> int:
        """How many programs the function has."""
        return sum(map(len, self._entries.values()))

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What a call with these arguments does on the device; it is made, if there is no program for it yet.

        Returns
        -------
        str
            Operations and calls of the forward and the backward pass, and the bytes that they read and write; the line of
            each call, and why operations that follow from one another were not fused; or why the function is not compiled.
        """
        entry = self._entry_for(args, kwargs)
        if isinstance(entry, str):
            return entry
        passes = [("forward and backward" if entry.freed else "forward", entry.forward)]
        if entry.gradients is not None:
            passes.append(("backward", entry.gradients.program))
        lines = []
        for name, program in passes:
            # What is a part of others' work is counted there.
            whole = [step for step in program.steps if not step.is_part]
            originals = [each for step in whole for each in step.originals or (step,)]
            moved, alone = (sum(step.nbytes for step in steps) for steps in (whole, originals))
            lines.append(
                f"{name}: {len(originals)} operations in {len(program.steps)} calls, which read and write {moved:,} "
                f"bytes instead of {alone:,}"
            )
            for step in program.steps:
                lines.append(f"  {step.name:40} {step.line}")
                lines += [f"      {note}" for note in step.notes]
            lines += [f"  {_told(part, calls)}" for part, calls in program.replays]
        return "\n".join(lines)

    def sources(self, *args: Any, **kwargs: Any) -> str:
        """The expressions of the kernels that a call with these arguments runs fused operations by.

        Returns
        -------
        str
            CUDA C++, each part with the operation and the line of the program that it came from.
        """
        entry = self._entry_for(args, kwargs)
        if isinstance(entry, str):
            return entry
        steps = [*entry.forward.steps, *(entry.gradients.program.steps if entry.gradients else ())]
        fused = [step.key[0] for step in steps if isinstance(step.key[0], Fused)]
        return "\n\n".join(f"// {each.name}\n{each.code}" for each in fused)

    def _entry_for(self, args: Any, kwargs: Any) -> Entry | str:
        arguments: list[Tensor] = []
        try:
            signature = (*described([args, kwargs], arguments, []), *environment())
        except Special:
            return (
                f"{self._name} runs as it is: an argument is of a class that has a say in what operations do"
            )
        if signature not in self._refused and self._match(signature, arguments) is None:
            self(*args, **kwargs)
        match = self._match(signature, arguments)
        if match is not None:
            return match[0]
        if signature in self._refused:
            return self._text(self._refused[signature])
        return f"{self._name} runs as it is: nothing is on a CUDA device, and native loops are off"

    # Running

    def _uncompiled(self, failure: Unsupported, args: Any, kwargs: Any) -> Any:
        """What the function gives without a program; ``failure`` says why there is none."""
        self._report(failure)
        return self._function(*args, **kwargs)

    def _report(self, failure: Unsupported) -> None:
        if self._fullgraph:
            raise CompilationError(f"{self._text(failure)}; without fullgraph=True it would run as it is")
        if not self._warned:
            self._warned = True
            warn_caller(f"{self._text(failure)}; it runs as it is")

    def _text(self, failure: Unsupported) -> str:
        where = f" ({failure.where})" if failure.where else ""
        return f"{self._name} cannot be compiled: {failure.reason}{where}"

    # Recording

    def _first_call(
        self, signature: Any, args: Any, kwargs: Any, arguments: list[Tensor], objects: list[Any]
    ) -> Any:
        """Run the function, and make a program of what it does; the function's result."""
        try:
            readings = Readings(self._function, *objects)
        except Unreadable as reason:
            failure = self._refused[signature] = Unsupported(str(reason), _line_of(self._function))
            return self._uncompiled(failure, args, kwargs)
        tensors = [*arguments, *(container[key] for container, key in readings.tensors)]
        if not all(map(is_plain, tensors)):
            return self._function(*args, **kwargs)
        device_state: DeviceState | None = next(
            (x._layout.device_state for x in tensors if x._layout.device_state.is_cuda), None
        )
        if device_state is None:
            if not tensors or host_loops.mode() == "off":
                # On the CPU a program is worth it where its chains are native loops.
                self._on_host.add(signature)
                return self._function(*args, **kwargs)
            device_state = cpu
        elif device_state.is_cuda and device_state.runtime.captures:
            # A later call, outside of the capture, can be recorded; a CUDA graph has the function's own launches.
            return self._function(*args, **kwargs)
        readings.guard(chosen, "now")
        if device_state.is_cuda:
            readings.guard(device_state.runtime.current, "selected")
        if not _recording.acquire(blocking=False):
            # Another thread records, and what it does must not be waited for. A later call can be recorded.
            return self._function(*args, **kwargs)
        try:
            return self._recorded_call(
                signature, args, kwargs, arguments, _Recorder(device_state, readings, tensors)
            )
        finally:
            _recording.release()

    def _recorded_call(
        self, signature: Any, args: Any, kwargs: Any, arguments: list[Tensor], recorder: _Recorder
    ) -> Any:
        """Run the function, and make a program of what ``recorder`` sees; the function's result."""
        readings, tensors = recorder.readings, recorder.tensors
        before = list(map(_aspect, tensors))
        result = recorder.run(lambda: self._function(*args, **kwargs))
        try:
            entry = recorder.entry(result, len(arguments), replayed=self._replayed)
            change = readings.change()
            if change is not None:
                raise Unsupported(f"it changes what it reads: {change}", _line_of(self._function))
            now: list[Tensor] = []
            is_same = (*described([args, kwargs], now, []), *environment()) == signature
            if not is_same or any(map(is_not, now, arguments)) or list(map(_aspect, tensors)) != before:
                raise Unsupported(
                    "it changes its arguments, or settings, in another way than by writing to elements",
                    _line_of(self._function),
                )
        except Unsupported as reason_why:
            if signature not in self._set_up and readings.was_set_up():
                # A later call does not do that again.
                self._set_up.add(signature)
                return result
            self._refused[signature] = reason_why
            self._report(reason_why)
        else:
            self._entries.setdefault(signature, []).append(entry)
        return result


def _compiled(function: Callable[..., Any], fullgraph: bool, limit: int, replayed: bool = False) -> Compiled:
    """A :class:`Compiled` from a pickle, or like another one."""
    return Compiled(function, fullgraph=fullgraph, limit=limit, replayed=replayed)


def _aspect(x: Tensor) -> tuple[Any, ...]:
    """What of a tensor changes only where it is made another one."""
    attributes = {name: id(value) for name, value in x.__dict__.items()}
    return id(x._storage), x._layout, x._offset, x.requires_grad, attributes


def _line_of(function: Any) -> str:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _is_freed(x: Tensor) -> bool:
    """Whether a backward pass through ``x`` raises, for an earlier one has freed what it needs."""
    nodes = [x.grad_fn]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        if node.saved is None:
            return True
        following = {edge[0] for edge in node.next if edge is not None} - seen
        seen |= following
        nodes += following
    return False


def _derived(outputs: Sequence[Tensor]) -> dict[int, set[int]]:
    """Which of ``outputs`` others are computed from in the graph, and which these are, by number."""
    edges: list[Any] = [None if x._autograd is None else x._autograd.edge for x in outputs]
    numbers = {edge: number for number, edge in enumerate(edges) if edge is not None}
    result: dict[int, set[int]] = {}
    for number, edge in enumerate(edges):
        nodes = [] if edge is None else [edge[0]]
        seen = set(nodes)
        while nodes:
            following = [each for each in nodes.pop().next if each is not None]
            for each in following:
                if each in numbers:
                    result.setdefault(numbers[each], set()).add(number)
            new = {node for node, _ in following} - seen
            seen |= new
            nodes += new
    return result


def _told(part: Replay | str, calls: int) -> str:
    """What becomes of a part of a program that may be replayed."""
    reason = part if isinstance(part, str) else part.reason
    if reason:
        return f"{calls} calls are no CUDA graph: {reason}"
    if isinstance(part, Replay) and part.is_captured:
        return f"{calls} calls are replayed as a CUDA graph"
    return f"{calls} calls become a CUDA graph once it is called twice with parameters and buffers at the same addresses"


def _is_record(value: Any) -> bool:
    """Whether ``value`` is a dataclass that is nothing but its fields, and is made of them."""
    cls = type(value)
    if not dataclasses.is_dataclass(cls) or hasattr(cls, "__post_init__"):
        return False
    names = {each.name for each in dataclasses.fields(cls)}
    extra = getattr(value, "__dict__", {}).keys() - names
    return not extra and inspect.signature(cls).parameters.keys() == names and _has_own_constructor(cls)


def _has_own_constructor(cls: Any) -> bool:
    """Whether the constructor of a dataclass is the one that it gets as such."""
    params = next(
        vars(each)["__dataclass_params__"] for each in cls.__mro__ if "__dataclass_params__" in vars(each)
    )
    code = getattr(cls.__init__, "__code__", None)
    return (
        bool(params.init)
        and code is not None
        and code.co_filename == "<string>"
        and cls.__new__ is object.__new__
    )


def _plain_result(value: Any) -> Any:
    """What a result is made of besides tensors."""
    if isinstance(value, PLAIN):
        return value
    raise Unsupported(f"its result is a {type(value).__name__}", "")


def _planned(steps: Sequence[Step], needed: set[int], device_state: DeviceState) -> list[Step]:
    """``steps`` as fewer ones that do the same; ``needed`` are buffers that are read after them."""
    if not device_state.is_cuda:
        return fuse_on_host(steps, needed)
    steps = fuse(split_likelihoods(absorb_casts(steps, needed), needed), needed)
    return group_reductions(group_outer_sums(steps, needed), needed)


class _Recorder:
    """Records a call, and makes an entry of it."""

    def __init__(self, device_state: DeviceState, readings: Readings, tensors: list[Tensor]) -> None:
        self.readings, self.tensors = readings, tensors
        #: What the function reads from outside; gradients that were there before follow once it has run.
        self._tensors = list(tensors)
        self._tape = tape = Tape(device_state)
        self._failure: Unsupported | None = None
        for x in tensors:
            if type(x._layout) is SparseLayout:
                self._failure = Unsupported("it reads a sparse tensor", "")
            elif x._layout.device_state.is_cuda and x._layout.device_state is not device_state:
                self._failure = Unsupported("it reads tensors of several devices", "")
        if self._failure is None:
            self._inputs = [tape.argument(x) for x in tensors]
            tape.watch_leaves(tensors)

    def run(self, function: Callable[[], Any]) -> Any:
        """What ``function`` gives; it is recorded on the way."""
        if self._failure is not None:
            return function()
        tape = self._tape

        def refuse(reason: str, frame: Any) -> None:
            tape.fail(Unsupported(reason, f"{frame.f_code.co_filename}:{frame.f_lineno}"))

        def follows() -> None:
            tape.fail(Unsupported("a backward pass in it goes on to what a tensor from outside was made of"))

        casts, groups = autocast_settings.casts, autocast_settings.groups
        # Casts that are cached, or made together with others', would be on no tape.
        autocast_settings.casts, autocast_settings.groups = {}, {}
        _tracing.tape = tape
        try:
            with (
                tape,
                watched(self.readings, refuse),
                watched_graphs(self._tensors, follows),
                watched_on_host(self._tensors, tape.host_asked),
            ):
                result = function()
                tape.end()
                return result
        finally:
            autocast_settings.casts, autocast_settings.groups = casts, groups
            _tracing.tape = None

    def entry(self, result: Any, arguments: int, *, replayed: bool) -> Entry:
        """The program of the call that gave ``result``; ``replayed`` says whether as CUDA graphs.

        Raises
        ------
        Unsupported
            If there can be none.
        """
        if self._failure is not None:
            raise self._failure
        tape = self._tape
        try:
            tape.check()
            written = tape.written()
            read, before = self._tensors[arguments:], tape.gradients_used()
            self._tensors += [gradient for _, gradient in before]
            self._inputs += [tape.ref(gradient) for _, gradient in before]
            outputs: list[Tensor] = []
            template = self._template(result, outputs)
            replaced = self._replaced(read, outputs)
            refs_of_outputs = [tape.ref(x) for x in outputs]
            self._check_written(written)
            steps = list(tape.steps)
            replaying = None
            if replayed and tape.device_state.is_cuda:
                replaying = Replaying(self._by_reference(arguments), {ref.buffer for ref in refs_of_outputs})
            differentiable = [i for i, x in enumerate(outputs) if x.requires_grad]
            # A tensor that is read in two ways, such as a weight that two layers share, has one gradient.
            first = {id(x): i for i, x in reversed(list(enumerate(self._tensors)))}
            asked = [i for i, x in enumerate(self._tensors) if x.requires_grad and first[id(x)] == i]
            saved: list[Ref] = []
            gradients = None
            freed: list[int] = []
            leaves: list[int] = []
            if tape.gradients_are_set:
                if not all(_is_freed(outputs[i]) for i in differentiable):
                    raise Unsupported(
                        "it calls backward(), and its result can be differentiated afterwards", ""
                    )
                leaves = [i for i in asked if self._tensors[i].is_leaf]
                if any(has_hooks(self._tensors[i]) for i in leaves):
                    raise Unsupported(
                        "it calls backward(), and a hook is on a gradient that this computes", ""
                    )
                freed, differentiable = differentiable, []
                read_later = {ref.buffer for ref in refs_of_outputs}
                if tape.device_state.is_cuda:
                    steps = place(steps, read_later)
                steps = without_moves(steps, read_later)
            if differentiable and asked and modes.recording:
                owners = [refs_of_outputs[i].buffer for i in differentiable]
                if len(set(owners)) < len(owners):
                    raise Unsupported("two of its results that can be differentiated share memory", "")
                available = {ref.buffer for ref in (*self._inputs, *refs_of_outputs)} - set(written)
                gradients, saved = self._gradients(
                    outputs, differentiable, asked, steps, available, replaying
                )
            results = [*refs_of_outputs, *saved]
            # Two of the inputs may be views of one buffer: how many there are says nothing.
            there = {ref.buffer for ref in self._inputs}
            needed = {ref.buffer for ref in results} | there
            if replaying is not None:
                replaying.private = {ref.buffer for ref in saved} - replaying.results
            if tape.device_state.is_cuda:
                steps = group_casts(steps, there)
                if tape.gradients_are_set and replaying is None:
                    steps = cache_casts(steps, there, needed - there)
            forward = Program(
                tape.device_state,
                tape.buffers,
                _planned(steps, needed, tape.device_state),
                tape.draws,
                self._inputs,
                results,
                replaying=replaying,
            )
            return Entry(
                self.readings,
                Sharing.of(self._tensors, arguments),
                forward,
                len(outputs),
                template,
                [
                    (number, times)
                    for buffer, times in written.items()
                    for number in [next(i for i, ref in enumerate(self._inputs) if ref.buffer == buffer)]
                ],
                tape.draws,
                gradients,
                freed,
                tape.initial_gradients(),
                leaves,
                [number for number, _ in before],
                replaced,
            )
        finally:
            tape.forget_memory()

    def _template(self, value: Any, outputs: list[Tensor]) -> Any:
        """The result with what stands for its tensors in their place."""

        def other(value: Any) -> Any:
            if not _is_record(value):
                return _plain_result(value)
            names = [each.name for each in dataclasses.fields(value)]
            return Record(
                type(value), {name: self._template(getattr(value, name), outputs) for name in names}
            )

        return map_tensors(lambda x: self._output(x, outputs), value, TensorBase, other)

    def _output(self, x: Tensor, outputs: list[Tensor]) -> Output:
        """What stands for a tensor of the result; one that is no argument is added to ``outputs``."""
        for tensors, is_argument in ((self._tensors, True), (outputs, False)):
            for number, each in enumerate(tensors):
                if each is x:
                    return Output(number, is_argument)
        source = self._tape.buffers[self._tape.ref(x).buffer].source
        if source == "argument":
            raise Unsupported("its result is a view of a tensor from outside", "")
        if source == "constant":
            raise Unsupported("its result is a tensor that is made of values on the host", "")
        outputs.append(x)
        return Output(len(outputs) - 1)

    def _replaced(self, read: list[Tensor], outputs: list[Tensor]) -> list[tuple[Any, Any, Output]]:
        """Where the function has put other tensors in the place of ``read``, and what stands for these."""
        result = []
        for container, key, x in self.readings.replaced(read):
            name = type(x).__name__
            if not isinstance(container, REPLACEABLE):
                raise Unsupported(f"it replaces {key!r}, which it reads, by another {name}", "")
            output = None if not isinstance(x, TensorBase) else self._output(x, outputs)
            if output is None or (not output.is_argument and type(x) is not tensor_class()):
                raise Unsupported(f"it replaces a tensor that it reads by a new {name}", "")
            result.append((container, key, output))
        return result

    def _check_written(self, written: dict[int, int]) -> None:
        for x, ref in zip(self._tensors, self._inputs, strict=True):
            # What is written to a leaf is in no graph.
            if ref.buffer in written and not x.is_leaf:
                raise Unsupported("it writes to a tensor from outside that is no leaf of the graph", "")

    def _by_reference(self, arguments: int) -> set[int]:
        """Buffers that are expected to stay where they are: what is read besides ``arguments`` tensors, and parameters."""
        return {
            ref.buffer
            for number, (x, ref) in enumerate(zip(self._tensors, self._inputs, strict=True))
            if number >= arguments or type(x) is not tensor_class()
        }

    def _gradients(
        self,
        outputs: Sequence[Tensor],
        differentiable: Sequence[int],
        asked: Sequence[int],
        forward: Sequence[Step],
        available: set[int],
        replaying: Replaying | None,
    ) -> tuple[Gradients, list[Ref]]:
        """The backward pass, and what it takes of the forward pass beside tensors from outside.

        ``available`` are buffers that are there anyway: it computes again what follows from them element by element.
        ``replaying`` is how the forward pass is replayed, if it is.
        """
        tape = self._tape
        forward_buffers = len(tape.buffers)
        layouts = [outputs[i]._layout for i in differentiable]
        layouts = [layout if layout.dense else layout.as_contiguous() for layout in layouts]
        ones = [filled(layout, 1) for layout in layouts]
        seeds = [tape.argument(x) for x in ones]
        draws = len(tape.draws)
        tape.begin_backward()
        try:
            inputs_of_graph = [self._tensors[i] for i in asked]
            with tape, cut_off(inputs_of_graph):
                derivatives = gradients_of(
                    [outputs[i] for i in differentiable],
                    inputs_of_graph,
                    ones,
                    retain_graph=True,
                    allow_unused=True,
                )
        except RuntimeError as error:
            raise Unsupported(f"its backward pass cannot be recorded: {error}", "") from error
        tape.check()
        if len(tape.draws) > draws:
            raise Unsupported("its backward pass draws random numbers", "")
        steps = tape.steps[len(forward) :]
        results = [(i, tape.ref(x)) for i, x in zip(asked, derivatives, strict=True) if x is not None]
        # On the CPU computing takes longer than reading.
        repeated = (
            recomputed(forward, steps, available, [ref.buffer for _, ref in results])
            if tape.device_state.is_cuda
            else []
        )
        recreated = {ref.buffer for step in repeated for ref in refs(step.result)}
        steps = [*repeated, *steps]
        takes: list[int] = []
        inputs: list[Ref] = []
        saved: list[Ref] = []
        taken: set[int] = {seed.buffer for seed in seeds}
        for ref in (*(ref for step in steps for ref in step.reads()), *(ref for _, ref in results)):
            if ref.buffer in taken or ref.buffer in recreated or ref.buffer >= forward_buffers:
                continue
            if tape.buffers[ref.buffer].source == "constant":
                continue
            taken.add(ref.buffer)
            number = next((i for i, each in enumerate(self._inputs) if each.buffer == ref.buffer), None)
            if number is None:
                takes.append(len(self._inputs) + len(saved))
                saved.append(ref)
                inputs.append(ref)
            else:
                takes.append(number)
                inputs.append(self._inputs[number])
        needed = {ref.buffer for _, ref in results} | taken
        used = [step.draw for step in steps if step.draw is not None]
        taken_draws = [i for i, draw in enumerate(tape.draws) if any(draw is each for each in used)]
        program = Program(
            tape.device_state,
            tape.buffers,
            _planned(place(steps, needed) if tape.device_state.is_cuda else steps, needed, tape.device_state),
            [tape.draws[i] for i in taken_draws],
            [*seeds, *inputs],
            [ref for _, ref in results],
            consumes=True,
            replaying=replaying and replaying.of_backward({ref.buffer for ref in saved}),
        )
        gradients = Gradients(
            program,
            list(zip(differentiable, layouts, strict=True)),
            takes,
            [number for number, _ in results],
            taken_draws,
            _derived([outputs[i] for i in differentiable]),
        )
        return gradients, saved
