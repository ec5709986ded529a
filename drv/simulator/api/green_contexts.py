"""Driver calls about green contexts: partitions of a device with streams of their own, in the primary context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.device_resources import (
    SM,
    WORKQUEUE,
    WORKQUEUE_CONFIG,
    Multiprocessors,
    all_of,
    resource_of,
    split_by_count,
    split_by_groups,
    workqueue_resource,
)
from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_handle,
    invalid_value,
    listed,
    signed,
    structure,
    unsigned,
)
from drv.simulator.driver_state import LEGACY_STREAM, PER_THREAD_STREAM
from drv.simulator.scheduler import Stream
from drv.simulator.work.events import EventRecordWork, EventWaitWork

from .context import ContextCalls
from .stream import StreamCalls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.driver_state import Context
    from drv.simulator.options import Options
    from drv.simulator.scheduler import Operation

_DEFAULT_STREAM = int(cuda.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)
_NON_BLOCKING = int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)


@dataclass(slots=True, eq=False)
class GreenContext:
    """A green context. ``converted`` is the handle by which it is current in a thread."""

    handle: int
    converted: int
    identifier: int
    context: Context
    partition: Multiprocessors
    default: Stream | None = None
    #: An operation that all that is queued later in it comes after.
    barrier: Operation | None = None
    #: Streams of its own records and waits.
    marks: dict[str, Stream] = field(default_factory=dict)


class GreenContextCalls(StreamCalls, ContextCalls):
    """``cuGreenCtx*``, ``cuDevResource*``, ``cuDevSmResourceSplit*``, ``cu*GetDevResource``, events of whole contexts."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        #: By handle, and by the handle of the context that each converts to.
        self._greens: dict[int, GreenContext] = {}
        self._converted: dict[int, GreenContext] = {}
        self._descriptions: dict[int, Multiprocessors] = {}

    def _green(self, handle: Any) -> GreenContext:
        green = self._greens.get(integer(handle))
        if green is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return green

    # Resources

    @call(1)
    def cuDeviceGetDevResource(self, device: Any, typename: Any) -> tuple[Any, ...]:
        return self._resource(self.device(device), None, typename)

    @call(1)
    def cuCtxGetDevResource(self, hCtx: Any, typename: Any) -> tuple[Any, ...]:
        green = self._converted.get(integer(hCtx))
        return self._resource(self.context(hCtx).device, green, typename)

    @call(1)
    def cuGreenCtxGetDevResource(self, hCtx: Any, typename: Any) -> tuple[Any, ...]:
        green = self._green(hCtx)
        return self._resource(green.context.device, green, typename)

    @call(1)
    def cuStreamGetDevResource(self, hStream: Any, typename: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        if integer(typename) in (WORKQUEUE_CONFIG, WORKQUEUE):
            raise CallError(CUresult.CUDA_ERROR_INVALID_RESOURCE_TYPE)
        return self._resource(stream.context.device, stream.green, typename)

    @staticmethod
    def _resource(device: SimulatedDevice, green: GreenContext | None, typename: Any) -> tuple[Any, ...]:
        resource_type = integer(typename)
        if resource_type == SM:
            return SUCCESS, (all_of(device) if green is None else green.partition).resource()
        if resource_type == WORKQUEUE_CONFIG:
            return SUCCESS, workqueue_resource(device)
        raise CallError(CUresult.CUDA_ERROR_INVALID_RESOURCE_TYPE)

    @call(3)
    def cuDevSmResourceSplitByCount(
        self, nbGroups: Any, input_: Any, flags: Any, minCount: Any
    ) -> tuple[Any, ...]:
        groups, whole = unsigned(nbGroups, 32), resource_of(input_)
        split = self.new_identifier()
        bits, least = unsigned(flags, 32), unsigned(minCount, 32)
        partitions, rest = split_by_count(whole, self.device(whole.device), groups, least, bits, split)
        resources = [partition.resource() for partition in partitions] if groups else []
        resources += [cuda.CUdevResource() for _ in range(groups - len(resources))]
        return SUCCESS, resources, len(partitions), rest.resource()

    @call(2)
    def cuDevSmResourceSplit(
        self, nbGroups: Any, input_: Any, flags: Any, groupParams: Any
    ) -> tuple[Any, ...]:
        whole = resource_of(input_)
        groups = listed(groupParams, unsigned(nbGroups, 32))
        if unsigned(flags, 32) or not groups:
            raise invalid_value()
        partitions, rest = split_by_groups(whole, self.device(whole.device), groups, self.new_identifier())
        return SUCCESS, [partition.resource() for partition in partitions], rest.resource()

    @call(1)
    def cuDevResourceGenerateDesc(self, resources: Any, nbResources: Any) -> tuple[Any, ...]:
        inputs = listed(resources, unsigned(nbResources, 32))
        if not inputs:
            raise invalid_value()
        partitions = []
        for each in inputs:
            structure(each, cuda.CUdevResource)
            if int(each.type) not in (WORKQUEUE_CONFIG, WORKQUEUE):
                partitions.append(resource_of(each))
        if len({(partition.device, partition.coscheduled) for partition in partitions}) != 1 or (
            len(partitions) > 1
            and (len({partition.split for partition in partitions}) > 1 or not partitions[0].split)
        ):
            raise CallError(CUresult.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
        handle, first = self.new_handle(), partitions[0]
        total = sum(partition.count for partition in partitions)
        self._descriptions[handle] = Multiprocessors(
            first.device, first.first, total, first.least, first.coscheduled, flags=first.flags
        )
        return SUCCESS, cuda.CUdevResourceDesc(handle)

    # Green contexts

    @call(1)
    def cuGreenCtxCreate(self, desc: Any, dev: Any, flags: Any) -> tuple[Any, ...]:
        partition, device = self._descriptions.get(integer(desc)), self.device(dev)
        bits = unsigned(flags, 32)
        if partition is None or bits & ~_DEFAULT_STREAM or partition.device != device.ordinal:
            raise invalid_value()
        status, primary = self.cuDevicePrimaryCtxRetain(dev)
        if status != SUCCESS:
            raise CallError(status)
        context = self.context(primary)
        green = GreenContext(self.new_handle(), self.new_handle(), self.new_identifier(), context, partition)
        if bits & _DEFAULT_STREAM:
            name = self.stream_name(context, f"default stream of green context {green.identifier}")
            green.default = Stream(LEGACY_STREAM, context, name, self.new_identifier(), blocking=False)
            green.default.green = green
            context.branches.append(green.default)
        self._greens[green.handle] = self._converted[green.converted] = green
        return SUCCESS, cuda.CUgreenCtx(green.handle)

    @call()
    def cuGreenCtxDestroy(self, hCtx: Any) -> tuple[Any, ...]:
        green = self._green(hCtx)
        self.accepted.clear()
        for stream in [stream for stream in self.streams.values() if stream.green is green]:
            if stream.capture is not None:
                status = CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                stream.capture.invalidate(status, f"the green context of {stream.name} was destroyed")
            self.destroy_stream(stream)
            self.detached.add(stream.handle)
        del self._greens[green.handle], self._converted[green.converted]
        self.thread.greens = {depth: each for depth, each in self.thread.greens.items() if each is not green}
        self.cuDevicePrimaryCtxRelease(green.context.device.ordinal)
        return OK

    @call(1)
    def cuCtxFromGreenCtx(self, hCtx: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUcontext(self._green(hCtx).converted)

    @call(1)
    def cuGreenCtxGetId(self, greenCtx: Any) -> tuple[Any, ...]:
        green = self._green(greenCtx) if integer(greenCtx) else self.current_green()
        if green is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return SUCCESS, green.identifier

    @call(1)
    def cuGreenCtxStreamCreate(self, greenCtx: Any, flags: Any, priority: Any) -> tuple[Any, ...]:
        green = self._green(greenCtx)
        if unsigned(flags, 32) != _NON_BLOCKING:
            raise invalid_value()
        return self.new_stream(green.context, _NON_BLOCKING, signed(priority), green)

    @call(1)
    def cuStreamGetGreenCtx(self, hStream: Any) -> tuple[Any, ...]:
        green = self.stream(hStream).green
        return SUCCESS, cuda.CUgreenCtx(0 if green is None else green.handle)

    @call(2)
    def cuStreamGetCtx_v2(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        green = 0 if stream.green is None else stream.green.handle
        return SUCCESS, cuda.CUcontext(stream.context.handle), cuda.CUgreenCtx(green)

    @call(1)
    def cuStreamGetCtx(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        return SUCCESS, cuda.CUcontext(
            stream.context.handle if stream.green is None else stream.green.converted
        )

    # Streams that a green context has, or had

    def current_green(self) -> GreenContext | None:
        """The green context that is current in the calling thread, if it is one."""
        green: GreenContext | None = self.thread.greens.get(len(self.thread.contexts))
        return green

    def legacy_stream(self, context: Context) -> Stream:
        """The default stream: of the current green context, where that has one."""
        if self._greens:
            green = self.current_green()
            if green is not None and green.context is context and green.default is not None:
                return green.default
        return super().legacy_stream(context)

    def stream(self, hStream: Any) -> Stream:
        """The stream that a handle names."""
        if self._greens or self.detached:
            handle = integer(hStream)
            if handle in self.detached:
                raise CallError(CUresult.CUDA_ERROR_STREAM_DETACHED)
            if handle == PER_THREAD_STREAM and self.current_green() is not None:
                raise invalid_handle()
        return super().stream(hStream)

    # The current context of a thread

    def context(self, ctx: Any) -> Context:
        """The context that a handle names: the primary one, for that of a green context."""
        green = self._converted.get(integer(ctx))
        return super().context(ctx) if green is None else green.context

    @call(1)
    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        green = self.current_green()
        return super().cuCtxGetCurrent() if green is None else (SUCCESS, cuda.CUcontext(green.converted))

    @call()
    def cuCtxSetCurrent(self, ctx: Any) -> tuple[Any, ...]:
        self.thread.greens.pop(len(self.thread.contexts), None)
        answer = super().cuCtxSetCurrent(ctx)
        self._note_green(ctx)
        return answer

    @call()
    def cuCtxPushCurrent(self, ctx: Any) -> tuple[Any, ...]:
        answer = super().cuCtxPushCurrent(ctx)
        if answer is OK:
            self._note_green(ctx)
        return answer

    @call(1)
    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        green = self.thread.greens.pop(len(self.thread.contexts), None)
        answer = super().cuCtxPopCurrent()
        return answer if green is None else (SUCCESS, cuda.CUcontext(green.converted))

    def _note_green(self, ctx: Any) -> None:
        green = self._converted.get(integer(ctx))
        if green is not None:
            self.thread.greens[len(self.thread.contexts)] = green

    # Events of whole contexts

    @call()
    def cuCtxRecordEvent(self, hCtx: Any, hEvent: Any) -> tuple[Any, ...]:
        green = self._converted.get(integer(hCtx))
        return self._record_whole(self.context(hCtx), green, hEvent)

    @call()
    def cuGreenCtxRecordEvent(self, hCtx: Any, hEvent: Any) -> tuple[Any, ...]:
        green = self._green(hCtx)
        return self._record_whole(green.context, green, hEvent)

    @call()
    def cuCtxWaitEvent(self, hCtx: Any, hEvent: Any) -> tuple[Any, ...]:
        green = self._converted.get(integer(hCtx))
        return self._wait_whole(self.context(hCtx), green, hEvent)

    @call()
    def cuGreenCtxWaitEvent(self, hCtx: Any, hEvent: Any) -> tuple[Any, ...]:
        green = self._green(hCtx)
        return self._wait_whole(green.context, green, hEvent)

    def _record_whole(self, context: Context, green: GreenContext | None, hEvent: Any) -> tuple[Any, ...]:
        """The event stands for all that the context, or the green one, has queued."""
        event = self.event(hEvent)
        self.usable(context)
        if event.context is not context:
            raise invalid_handle()
        streams = self._streams_of(context, green)
        self._none_captured(streams)
        marks = self._marks(green or context, "records")
        after = [stream.last for stream in streams if stream.last is not None and stream is not marks]
        event.captured = None
        EventRecordWork(context, event).queue(self, marks, after)
        return OK

    def _wait_whole(self, context: Context, green: GreenContext | None, hEvent: Any) -> tuple[Any, ...]:
        """All that the context, or the green one, queues from now on comes after the event."""
        event = self.event(hEvent)
        self.usable(context)
        streams = self._streams_of(context, green)
        if event.captured is not None:
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            raise event.captured.capture.invalidate(status, "a whole context was to wait for an event of it")
        self._none_captured(streams)
        if event.record is None and event.shared is None:
            return OK
        before = [green.barrier] if green is not None and green.barrier is not None else []
        operation = EventWaitWork(context, event).queue(self, self._marks(green or context, "waits"), before)
        if green is None:
            context.barrier = operation
        else:
            green.barrier = operation
        return OK

    @staticmethod
    def _streams_of(context: Context, green: GreenContext | None) -> list[Stream]:
        return [stream for stream in context.all_streams() if green is None or stream.green is green]

    def _none_captured(self, streams: list[Stream]) -> None:
        """Refuse a call about all of a context while a stream of it is captured."""
        captures = {id(stream.capture): stream.capture for stream in streams if stream.capture is not None}
        status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        for capture in captures.values():
            capture.invalidate(status, "an event was to stand for, or be waited for by, a whole context")
        if captures:
            raise CallError(status)

    def _marks(self, owner: Context | GreenContext, purpose: str) -> Stream:
        """The stream of the records, or of the waits, of a whole context."""
        context = owner.context if isinstance(owner, GreenContext) else owner
        stream = owner.marks.get(purpose)
        if stream is None:
            name = self.stream_name(context, f"{purpose} of a whole context")
            stream = owner.marks[purpose] = Stream(0, context, name, self.new_identifier(), blocking=False)
            context.branches.append(stream)
        return stream
