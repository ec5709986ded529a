"""Driver calls about contexts: primary ones, created ones, the current one of a thread, limits, peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.driver_state import Context
from drv.simulator.graphs.book import GraphBook

if TYPE_CHECKING:
    from drv.simulator.device_properties import SimulatedDevice

_SCHEDULING = 0x7
_FLAGS = int(cuda.CUctx_flags.CU_CTX_FLAGS_MASK)
_LIMITS = {
    cuda.CUlimit.CU_LIMIT_STACK_SIZE: 1024,
    cuda.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE: 1 << 20,
    cuda.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE: 8 << 20,
    cuda.CUlimit.CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH: 2,
    cuda.CUlimit.CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: 2048,
    cuda.CUlimit.CU_LIMIT_MAX_L2_FETCH_GRANULARITY: 64,
    cuda.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE: 0,
}
#: Lowest and highest stream priority; a lower number is a higher priority.
LEAST_PRIORITY, GREATEST_PRIORITY = 0, -5


class ContextCalls(GraphBook):
    """``cuCtx*`` and ``cuDevicePrimaryCtx*``."""

    def _new_context(self, device: SimulatedDevice, flags: int, *, primary: bool) -> Context:
        context = Context(self.new_handle(), self.new_identifier(), device, primary, flags)
        self.contexts[context.handle] = context
        return context

    def _alive(self, device: SimulatedDevice) -> SimulatedDevice:
        if device.lost:
            raise CallError(CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE)
        return device

    # Primary contexts

    @call(1)
    def cuDevicePrimaryCtxRetain(self, dev: Any) -> tuple[Any, ...]:
        device = self._alive(self.device(dev))
        context = self.primary.get(device.ordinal)
        if context is None:
            context = self._new_context(device, 0, primary=True)
            context.active = False
            self.primary[device.ordinal] = context
        context.active = True
        context.retained += 1
        return SUCCESS, cuda.CUcontext(context.handle)

    @call()
    def cuDevicePrimaryCtxRelease(self, dev: Any) -> tuple[Any, ...]:
        context = self.primary.get(self.device(dev).ordinal)
        if context is None or context.retained == 0:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        context.retained -= 1
        if context.retained == 0:
            self._tear_down(context)
        return OK

    @call(unsafe=True)
    def cuDevicePrimaryCtxReset(self, dev: Any) -> tuple[Any, ...]:
        device = self._alive(self.device(dev))
        context = self.primary.get(device.ordinal)
        if context is not None and context.active:
            self._tear_down(context)
        return OK

    @call(2)
    def cuDevicePrimaryCtxGetState(self, dev: Any) -> tuple[Any, ...]:
        device = self.device(dev)
        context = self.primary.get(device.ordinal)
        return SUCCESS, context.flags if context else 0, int(context is not None and context.active)

    @call()
    def cuDevicePrimaryCtxSetFlags(self, dev: Any, flags: Any) -> tuple[Any, ...]:
        device = self._alive(self.device(dev))
        context = self.primary.get(device.ordinal)
        if context is None:
            context = self._new_context(device, 0, primary=True)
            context.active = False
            self.primary[device.ordinal] = context
        context.flags = _context_flags(flags)
        return OK

    def _tear_down(self, context: Context) -> None:
        """Destroy everything in ``context`` and, for a primary one, the error it had."""
        self.accepted.clear()
        self.end_captures(context)
        for stream in context.all_streams():
            self.scheduler.discard(stream)
        self.release_modules(context)
        self.release_context_memory(context)
        for handle in list(context.streams):
            self.streams.pop(handle, None)
        for handle in [h for h, event in self.events.items() if event.context is context]:
            del self.events[handle]
        context.streams.clear()
        context.per_thread.clear()
        context.orphans.clear()
        context.branches.clear()
        context.marks.clear()
        context.legacy = None
        context.barrier = None
        context.active = False
        context.lost = None
        context.report = None
        context.passing = None
        context.limits.clear()
        for other in self.contexts.values():
            other.peers.discard(context.handle)
        context.peers.clear()
        self.refresh_peers()

    # Created contexts

    @call(1)
    def cuCtxCreate(self, ctxCreateParams: Any, flags: Any, dev: Any) -> tuple[Any, ...]:
        device = self._alive(self.device(dev))
        if ctxCreateParams is not None:
            parameters = structure(ctxCreateParams, cuda.CUctxCreateParams)
            if parameters.numExecAffinityParams or parameters.cigParams:
                raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        context = self._new_context(device, _context_flags(flags), primary=False)
        self.thread.contexts.append(context)
        return SUCCESS, cuda.CUcontext(context.handle)

    @call()
    def cuCtxDestroy(self, ctx: Any) -> tuple[Any, ...]:
        context = self.context(ctx)
        if context.primary:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        self._tear_down(context)
        context.destroyed = True
        del self.contexts[context.handle]
        stack = self.thread.contexts
        if stack and stack[-1] is context:
            stack.pop()
        return OK

    # The current context of the calling thread

    @call(1)
    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        stack = self.thread.contexts
        return SUCCESS, cuda.CUcontext(stack[-1].handle if stack else 0)

    @call()
    def cuCtxSetCurrent(self, ctx: Any) -> tuple[Any, ...]:
        stack = self.thread.contexts
        handle = integer(ctx)
        if handle == 0:
            if stack:
                stack.pop()
            return OK
        context = self.context(handle)
        if stack:
            stack[-1] = context
        else:
            stack.append(context)
        return OK

    @call()
    def cuCtxPushCurrent(self, ctx: Any) -> tuple[Any, ...]:
        self.thread.contexts.append(self.context(ctx))
        return OK

    @call(1)
    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        stack = self.thread.contexts
        if not stack:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return SUCCESS, cuda.CUcontext(stack.pop().handle)

    def _top(self) -> Context:
        stack = self.thread.contexts
        if not stack:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return stack[-1]

    @call(1)
    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUdevice(self._top().device.ordinal)

    @call(1)
    def cuCtxGetDevice_v2(self, ctx: Any) -> tuple[Any, ...]:
        context = self.context(ctx) if integer(ctx) else self._top()
        return SUCCESS, cuda.CUdevice(context.device.ordinal)

    @call(1)
    def cuCtxGetFlags(self) -> tuple[Any, ...]:
        return SUCCESS, self.current().flags

    @call()
    def cuCtxSetFlags(self, flags: Any) -> tuple[Any, ...]:
        self.current().flags = _context_flags(flags)
        return OK

    @call(1)
    def cuCtxGetId(self, ctx: Any) -> tuple[Any, ...]:
        context = self.context(ctx) if integer(ctx) else self._top()
        return SUCCESS, context.identifier

    @call(1)
    def cuCtxGetApiVersion(self, ctx: Any) -> tuple[Any, ...]:
        if integer(ctx):
            self.context(ctx)
        else:
            self._top()
        return SUCCESS, 3020

    @call(unsafe=True)
    def cuCtxSynchronize(self) -> tuple[Any, ...]:
        context = self.current()
        self.nothing_captured(context)
        self.wait_context(context)
        return self.status(context)

    @call(unsafe=True)
    def cuCtxSynchronize_v2(self, ctx: Any) -> tuple[Any, ...]:
        context = self.usable(self.context(ctx) if integer(ctx) else self._top())
        self.nothing_captured(context)
        self.wait_context(context)
        return self.status(context)

    @call(2)
    def cuCtxGetStreamPriorityRange(self) -> tuple[Any, ...]:
        self.current()
        return SUCCESS, LEAST_PRIORITY, GREATEST_PRIORITY

    @call(1)
    def cuCtxGetLimit(self, limit: Any) -> tuple[Any, ...]:
        context = self.current()
        return SUCCESS, context.limits.get(integer(limit), _LIMITS[_limit(limit)])

    @call()
    def cuCtxSetLimit(self, limit: Any, value: Any) -> tuple[Any, ...]:
        context = self.current()
        context.limits[int(_limit(limit))] = unsigned(value)
        return OK

    @call(1)
    def cuCtxGetCacheConfig(self) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUfunc_cache(self.current().cache_config)

    @call()
    def cuCtxSetCacheConfig(self, config: Any) -> tuple[Any, ...]:
        context = self.current()
        if integer(config) not in range(4):
            raise invalid_value()
        context.cache_config = integer(config)
        return OK

    @call()
    def cuCtxResetPersistingL2Cache(self) -> tuple[Any, ...]:
        self.current()
        return OK

    @call(1)
    def cuCtxGetSharedMemConfig(self) -> tuple[Any, ...]:
        self.current()
        return SUCCESS, cuda.CUsharedconfig.CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE

    @call()
    def cuCtxSetSharedMemConfig(self, config: Any) -> tuple[Any, ...]:
        # Banks have had four bytes, whatever was asked for, since compute capability 5.
        self.current()
        if integer(config) not in tuple(int(each) for each in cuda.CUsharedconfig):
            raise invalid_value()
        return OK

    @call(1)
    def cuCtxGetExecAffinity(self, typename: Any) -> tuple[Any, ...]:
        self.current()
        if integer(typename) != cuda.CUexecAffinityType.CU_EXEC_AFFINITY_TYPE_SM_COUNT:
            raise invalid_value()
        raise CallError(CUresult.CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY)

    @call(1)
    def cuCtxAttach(self, flags: Any) -> tuple[Any, ...]:
        if unsigned(flags, 32):
            raise invalid_value()
        context = self.current()
        context.attached += 1
        return SUCCESS, cuda.CUcontext(context.handle)

    @call()
    def cuCtxDetach(self, ctx: Any) -> tuple[Any, ...]:
        context = self.context(ctx)
        if self.thread.contexts[-1:] != [context]:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        if context.attached:
            context.attached -= 1
            return OK
        return self.cuCtxDestroy(ctx)

    # Peers

    @call()
    def cuCtxEnablePeerAccess(self, peerContext: Any, Flags: Any) -> tuple[Any, ...]:
        context = self.current()
        if unsigned(Flags, 32) != 0:
            raise invalid_value()
        peer = self.usable(self.context(peerContext))
        if peer is context:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        pair = (context.device.index, peer.device.index)
        if pair not in self.options.peers:
            raise CallError(CUresult.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
        if peer.handle in context.peers:
            raise CallError(CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        context.peers.add(peer.handle)
        self.refresh_peers()
        return OK

    @call()
    def cuCtxDisablePeerAccess(self, peerContext: Any) -> tuple[Any, ...]:
        context = self.current()
        peer = self.context(peerContext)
        if peer.handle not in context.peers:
            raise CallError(CUresult.CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
        self.accepted.clear()
        context.peers.discard(peer.handle)
        self.refresh_peers()
        return OK

    def refresh_peers(self) -> None:
        """Tell the address space which devices reach which."""
        self.memory.peers = {
            (context.device.ordinal, self.contexts[handle].device.ordinal)
            for context in self.contexts.values()
            for handle in context.peers
            if handle in self.contexts
        }

    # Faults on demand

    def _lose_device(self, ordinal: int) -> None:
        with self.lock:
            device = self.machine[ordinal] if not self.devices else self.devices[ordinal]
            device.lost = True
            for context in self.contexts.values():
                if context.device is device:
                    self.lose(
                        context,
                        CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE,
                        f"Device {ordinal} was lost (asked for by inject.lose_device).",
                    )


def _context_flags(flags: Any) -> int:
    value = unsigned(flags, 32)
    if value & ~_FLAGS or (value & _SCHEDULING).bit_count() > 1:
        raise invalid_value()
    return value


def _limit(limit: Any) -> cuda.CUlimit:
    try:
        known = cuda.CUlimit(integer(limit))
    except ValueError:
        raise invalid_value() from None
    if known not in _LIMITS:
        raise CallError(CUresult.CUDA_ERROR_UNSUPPORTED_LIMIT)
    return known
