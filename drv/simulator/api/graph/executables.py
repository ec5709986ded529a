"""Driver calls about executable graphs: instantiation, launches, changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.api.clusters import cluster_of
from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    from_finalizer,
    integer,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.graphs.executable import Executable, imaged, planned
from drv.simulator.graphs.graph import CycleError, Graph, copied
from drv.simulator.graphs.graph_memory import AllocationWork, FreeWork
from drv.simulator.graphs.launching import queue
from drv.simulator.graphs.nested import ChildGraphWork, ConditionalWork
from drv.simulator.graphs.update import UpdateError, check_change, paired
from drv.simulator.work.copy import CopyWork
from drv.simulator.work.events import EventRecordWork, EventWaitWork
from drv.simulator.work.fill import FillWork
from drv.simulator.work.host import HostWork
from drv.simulator.work.kernel import KernelWork
from drv.simulator.work.memory_operations import MemoryOperationsWork
from drv.simulator.work.simulated_library import LibraryWork

from .attributes import like
from .node_parameters import member_of
from .nodes import NodeCalls
from .structure import copyable

if TYPE_CHECKING:
    from drv.simulator.graphs.executable import Step
    from drv.simulator.graphs.graph import Node
    from drv.simulator.scheduler import Stream
    from drv.simulator.work.work import Work

_FLAGS = cuda.CUgraphInstantiate_flags
_AUTO_FREE = int(_FLAGS.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
_UPLOAD = int(_FLAGS.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
_DEVICE_LAUNCH = int(_FLAGS.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
_ALL_FLAGS = sum(int(each) for each in _FLAGS)
_RESULTS = cuda.CUgraphInstantiateResult
_UPDATE = cuda.CUgraphExecUpdateResult
#: What can be switched off in an executable graph.
_SWITCHED = (KernelWork, LibraryWork, FillWork, CopyWork)
#: What a graph that is launched from a device may hold.
_ON_DEVICE = (KernelWork, LibraryWork, FillWork, CopyWork, ChildGraphWork)


class InstantiateError(Exception):
    """A graph that cannot be instantiated: the result, the node that it is about, and the status of the call."""

    def __init__(self, result: Any, node: Node | None, status: CUresult) -> None:
        super().__init__(result.name)
        self.result = result
        self.node = node
        self.status = status


class ExecutableCalls(NodeCalls):
    """``cuGraphInstantiate*``, ``cuGraphLaunch``, ``cuGraphExec*``."""

    # Instantiation

    @call(1)
    def cuGraphInstantiate(self, hGraph: Any, flags: Any) -> tuple[Any, ...]:
        bits = unsigned(flags)
        if bits & _UPLOAD:
            raise invalid_value()
        try:
            executable = self._instantiate(self.graph(hGraph), bits)
        except InstantiateError as error:
            raise CallError(error.status) from None
        return SUCCESS, cuda.CUgraphExec(executable.handle)

    @call(1)
    def cuGraphInstantiateWithParams(self, hGraph: Any, instantiateParams: Any) -> tuple[Any, ...]:
        parameters = structure(instantiateParams, cuda.CUDA_GRAPH_INSTANTIATE_PARAMS)
        parameters.hErrNode_out = cuda.CUgraphNode(0)
        parameters.result_out = _RESULTS.CUDA_GRAPH_INSTANTIATE_ERROR
        bits = integer(parameters.flags)
        stream = self.stream(parameters.hUploadStream) if bits & _UPLOAD else None
        try:
            executable = self._instantiate(self.graph(hGraph), bits)
        except InstantiateError as error:
            parameters.result_out = error.result
            parameters.hErrNode_out = cuda.CUgraphNode(0 if error.node is None else error.node.handle)
            raise CallError(error.status) from None
        parameters.result_out = _RESULTS.CUDA_GRAPH_INSTANTIATE_SUCCESS
        if stream is not None:
            self._upload(executable, stream)
        return SUCCESS, cuda.CUgraphExec(executable.handle)

    def _instantiate(self, graph: Graph, flags: int) -> Executable:
        invalid = CUresult.CUDA_ERROR_INVALID_VALUE
        plain = _RESULTS.CUDA_GRAPH_INSTANTIATE_ERROR
        if flags & ~_ALL_FLAGS or (flags & _AUTO_FREE and flags & _DEVICE_LAUNCH):
            raise InstantiateError(plain, None, invalid)
        if graph.holder is not None or graph.capture is not None:
            raise InstantiateError(plain, None, invalid)
        nodes = list(graph.everything())
        unique = any(isinstance(node.work, (AllocationWork, FreeWork, ConditionalWork)) for node in nodes)
        if unique and graph.executables:
            raise InstantiateError(plain, None, invalid)
        if flags & _DEVICE_LAUNCH:
            _check_for_device(graph, nodes)
        for node in nodes:
            self._check_body(node)
            if isinstance(node.work, KernelWork) and node.work.cluster is None:
                # Some kernels need clusters that the launch has to name.
                cluster_of(node.work.function, node.work.grid, None)
        for condition in graph.handles:
            if condition.node is None or condition.node.handle not in self.graph_nodes:
                raise InstantiateError(plain, None, invalid)
        try:
            image = imaged(graph)
        except CycleError as error:
            structural = _RESULTS.CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
            raise InstantiateError(structural, error.node, invalid) from None
        executable = Executable(
            self.new_handle(),
            self.new_graph_identifier(),
            graph,
            flags & ~_UPLOAD,
            image,
            planned(image, self.new_identifier),
            {step.origin: step for step in image.everything()},
            [node.work.condition for node in nodes if isinstance(node.work, ConditionalWork)],
        )
        freed = {node.work.graph_allocation for node in nodes if isinstance(node.work, FreeWork)}
        executable.unfreed = [
            node.work.graph_allocation
            for node in nodes
            if isinstance(node.work, AllocationWork) and node.work.graph_allocation not in freed
        ]
        for user_object, count in graph.references.items():
            user_object.references += count
            executable.references[user_object] = count
        graph.executables += 1
        self.executables[executable.handle] = executable
        return executable

    @staticmethod
    def _check_body(node: Node) -> None:
        """Bodies run in the context of their conditional node."""
        work = node.work
        if isinstance(work, ConditionalWork):
            for body in work.bodies:
                for inner in body.everything():
                    if isinstance(inner.work, KernelWork) and inner.work.context is not work.context:
                        raise InstantiateError(
                            _RESULTS.CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
                            inner,
                            CUresult.CUDA_ERROR_INVALID_VALUE,
                        )

    @call(1)
    def cuGraphExecGetFlags(self, hGraphExec: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.cuuint64_t(self.executable(hGraphExec).flags)

    @call(1)
    def cuGraphExecGetId(self, hGraphExec: Any) -> tuple[Any, ...]:
        return SUCCESS, self.executable(hGraphExec).identifier

    @from_finalizer
    @call()
    def cuGraphExecDestroy(self, hGraphExec: Any) -> tuple[Any, ...]:
        executable = self.executable(hGraphExec)
        self.accepted.clear()
        del self.executables[executable.handle]
        executable.graph.executables -= 1
        if not executable.graph.executables:
            self.unmap_memory_of(executable.graph)
        for stream in executable.branches.values():
            context = stream.context
            if stream in context.branches:
                context.branches.remove(stream)
                if stream.pending:
                    # What is queued still runs.
                    context.orphans.append(stream)
        last, references = executable.last, executable.references
        if not references:
            return OK
        if last is None or last.done:
            self.release_references(references)
        else:
            # What is queued may still use what it refers to.
            self.enqueue(last.stream, "release of a graph", partial(self.release_references, references))
        return OK

    # Launches

    @call()
    def cuGraphUpload(self, hGraphExec: Any, hStream: Any) -> tuple[Any, ...]:
        self._upload(self.executable(hGraphExec), self.stream(hStream))
        return OK

    def _upload(self, executable: Executable, stream: Stream) -> None:
        if stream.capture is not None:
            raise stream.capture.invalidate(
                CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuGraphUpload cannot be captured"
            )
        after = [executable.last] if executable.last is not None else []
        if self.execute:
            label = f"upload of graph {executable.graph.identifier}"
            executable.last = self.enqueue(stream, label, None, after)

    @call()
    def cuGraphLaunch(self, hGraphExec: Any, hStream: Any) -> tuple[Any, ...]:
        executable, stream = self.executable(hGraphExec), self.stream(hStream)
        if stream.capture is not None:
            stream.capture.check()
            self.submit(stream, ChildGraphWork(stream.context, self._as_graph(executable)))
            return OK
        for context in executable.plan.lanes:
            self.usable(context)
        if stream is stream.context.legacy and self.captures:
            self.refuse_implicit(stream.context)
        self._check_memory(executable)
        for step in executable.image.everything():
            step.work.check(self)
        faults = self._injected(executable) if self.inject.asked else {}
        if not self.execute:
            return OK
        self._free_before(executable, stream)
        queue(self, executable, stream, faults)
        if self.launch_blocking and stream.last is not None:
            self.wait(stream.last)
            return self.status(stream.context)
        return OK

    def _injected(self, executable: Executable) -> dict[Step, CUresult]:
        """Faults that are asked for, by the kernel that they are to happen in; one of the launch itself is raised."""
        faults = {}
        for step in executable.plan.steps:
            if isinstance(step.work, KernelWork) and step.enabled:
                fault = self.inject.launch_fault(step.work.function.kernel.name)
                if fault is not None and not fault[1]:
                    raise CallError(fault[0])
                if fault is not None:
                    faults[step] = fault[0]
        return faults

    def _check_memory(self, executable: Executable) -> None:
        """Refuse a launch whose memory is still allocated from the one before."""
        if not executable.flags & _AUTO_FREE and any(each.live for each in executable.unfreed):
            raise invalid_value()

    def _free_before(self, executable: Executable, stream: Stream) -> None:
        """Free what earlier launches have left allocated."""
        for allocation in executable.unfreed:
            if allocation.live:
                last = executable.last
                after = [last] if last is not None and last.stream is not stream else []
                FreeWork(allocation.context, allocation).queue(self, stream, after)

    def _as_graph(self, executable: Executable) -> Graph:
        """The graph that does what ``executable`` does now, for a capture."""
        copyable(executable.graph)
        result = self.new_graph()
        copied(executable.graph, result, self._copied_step(executable))
        return result

    def _copied_step(self, executable: Executable) -> Any:
        def new_node(into: Graph, node: Node) -> Node:
            work = executable.by_node[node].work
            if isinstance(work, ChildGraphWork):
                inner = self.new_graph()
                copied(work.graph, inner, new_node)
                work = ChildGraphWork(work.context, inner)
            copy = into.add(self.new_handle(), self.new_identifier(), work, {}, node.stack)
            self.graph_nodes[copy.handle] = copy
            return copy

        return new_node

    # Changes

    @call(1)
    def cuGraphExecUpdate(self, hGraphExec: Any, hGraph: Any) -> tuple[Any, ...]:
        executable, graph = self.executable(hGraphExec), self.graph(hGraph)
        info = cuda.CUgraphExecUpdateResultInfo()
        try:
            pairs = paired(executable.image, graph)
            for step, node in pairs.items():
                check_change(step.work, node.work, node)
        except UpdateError as error:
            info.result = error.result
            info.errorNode = cuda.CUgraphNode(0 if error.node is None else error.node.handle)
            dependency = error.dependency
            info.errorFromNode = cuda.CUgraphNode(0 if dependency is None else dependency.handle)
            return CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, info
        for step, node in pairs.items():
            _take(step, node.work)
        info.result = _UPDATE.CU_GRAPH_EXEC_UPDATE_SUCCESS
        return SUCCESS, info

    def _step(self, hGraphExec: Any, hNode: Any, *sorts: type) -> Step:
        """The step of an executable graph for a node whose work is one of ``sorts``."""
        step = self.executable(hGraphExec).by_node.get(self.node(hNode))
        if step is None or (sorts and not isinstance(step.work, sorts)):
            raise invalid_value()
        return step

    def _set(self, step: Step, work: Work) -> tuple[Any, ...]:
        try:
            check_change(step.work, _with_attributes(step.work, work), step.origin)
        except UpdateError:
            raise invalid_value() from None
        _take(step, _with_attributes(step.work, work))
        return OK

    @call()
    def cuGraphExecKernelNodeSetParams(self, hGraphExec: Any, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        step = self._step(hGraphExec, hNode, KernelWork)
        return self._set(step, self.kernel_work(structure(nodeParams, cuda.CUDA_KERNEL_NODE_PARAMS)))

    @call()
    def cuGraphExecMemcpyNodeSetParams(
        self, hGraphExec: Any, hNode: Any, copyParams: Any, ctx: Any
    ) -> tuple[Any, ...]:
        step = self._step(hGraphExec, hNode, CopyWork)
        return self._set_copy(step, self.copy_work(self._node_context(ctx), copyParams))

    def _set_copy(self, step: Step, work: CopyWork) -> tuple[Any, ...]:
        before = step.work
        assert isinstance(before, CopyWork)
        if before.shape[:2] != (1, 1) or work.shape[:2] != (1, 1):
            raise invalid_value()
        return self._set(step, work)

    @call()
    def cuGraphExecMemsetNodeSetParams(
        self, hGraphExec: Any, hNode: Any, memsetParams: Any, ctx: Any
    ) -> tuple[Any, ...]:
        step = self._step(hGraphExec, hNode, FillWork)
        parameters = structure(memsetParams, cuda.CUDA_MEMSET_NODE_PARAMS)
        return self._set(step, self._fill_work(self._node_context(ctx), parameters))

    @call()
    def cuGraphExecHostNodeSetParams(self, hGraphExec: Any, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        step = self._step(hGraphExec, hNode, HostWork)
        parameters = structure(nodeParams, cuda.CUDA_HOST_NODE_PARAMS)
        return self._set(step, self._host_work(step.work.context, parameters))

    @call()
    def cuGraphExecChildGraphNodeSetParams(
        self, hGraphExec: Any, hNode: Any, childGraph: Any
    ) -> tuple[Any, ...]:
        return self._set_child(self._step(hGraphExec, hNode, ChildGraphWork), self.graph(childGraph))

    def _set_child(self, step: Step, graph: Graph) -> tuple[Any, ...]:
        try:
            pairs = paired(step.inside[0], graph)
            for inner, node in pairs.items():
                check_change(inner.work, node.work, node)
        except UpdateError:
            raise CallError(CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) from None
        for inner, node in pairs.items():
            _take(inner, node.work)
        return OK

    @call()
    def cuGraphExecEventRecordNodeSetEvent(self, hGraphExec: Any, hNode: Any, event: Any) -> tuple[Any, ...]:
        step, known = self._step(hGraphExec, hNode, EventRecordWork), self.event(event)
        if known.context is not step.work.context:
            raise invalid_value()
        step.work = EventRecordWork(known.context, known)
        return OK

    @call()
    def cuGraphExecEventWaitNodeSetEvent(self, hGraphExec: Any, hNode: Any, event: Any) -> tuple[Any, ...]:
        step = self._step(hGraphExec, hNode, EventWaitWork)
        step.work = EventWaitWork(step.work.context, self.event(event))
        return OK

    @call()
    def cuGraphExecBatchMemOpNodeSetParams(
        self, hGraphExec: Any, hNode: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        step = self._step(hGraphExec, hNode, MemoryOperationsWork)
        parameters = structure(nodeParams, cuda.CUDA_BATCH_MEM_OP_NODE_PARAMS)
        return self._set(step, self._operations_work(parameters))

    @call()
    def cuGraphExecExternalSemaphoresSignalNodeSetParams(
        self, hGraphExec: Any, hNode: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        self.executable(hGraphExec)
        raise self._no_semaphores(hNode)

    @call()
    def cuGraphExecExternalSemaphoresWaitNodeSetParams(
        self, hGraphExec: Any, hNode: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        self.executable(hGraphExec)
        raise self._no_semaphores(hNode)

    @call()
    def cuGraphExecNodeSetParams(self, hGraphExec: Any, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        step = self._step(hGraphExec, hNode)
        node_type, parameters = member_of(nodeParams)
        if node_type != step.work.node_type:
            raise invalid_value()
        if isinstance(step.work, ChildGraphWork):
            return self._set_child(step, self.graph(parameters.graph))
        if isinstance(step.work, (AllocationWork, FreeWork, ConditionalWork)):
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        work = self._described_work(node_type, parameters)
        if isinstance(work, CopyWork):
            return self._set_copy(step, work)
        if isinstance(work, EventRecordWork) and work.context is not step.work.context:
            raise invalid_value()
        return self._set(step, work)

    @call()
    def cuGraphNodeSetEnabled(self, hGraphExec: Any, hNode: Any, isEnabled: Any) -> tuple[Any, ...]:
        self._step(hGraphExec, hNode, *_SWITCHED).enabled = bool(unsigned(isEnabled, 32))
        return OK

    @call(1)
    def cuGraphNodeGetEnabled(self, hGraphExec: Any, hNode: Any) -> tuple[Any, ...]:
        return SUCCESS, int(self._step(hGraphExec, hNode, *_SWITCHED).enabled)


def _take(step: Step, work: Work) -> None:
    """Let ``step`` do ``work`` from the next launch on."""
    if isinstance(step.work, ConditionalWork) and isinstance(work, ConditionalWork):
        step.work.condition.default = work.condition.default
    elif not isinstance(work, ChildGraphWork):
        step.work = work


def _with_attributes(before: Work, work: Work) -> Work:
    """Parameters of a launch leave its attributes as they are."""
    if isinstance(before, KernelWork) and isinstance(work, KernelWork):
        return like(before, work)
    return work


def _check_for_device(graph: Graph, nodes: list[Node]) -> None:
    """Refuse what a graph that is launched from a device must not hold."""
    invalid = CUresult.CUDA_ERROR_INVALID_VALUE
    if not graph.nodes:
        raise InstantiateError(_RESULTS.CUDA_GRAPH_INSTANTIATE_ERROR, None, invalid)
    for node in nodes:
        unsupported = not isinstance(node.work, _ON_DEVICE)
        if isinstance(node.work, CopyWork):
            unsupported = node.work.source.allocation is None or node.work.target.allocation is None
        if unsupported:
            result = _RESULTS.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
            raise InstantiateError(result, node, CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if node.work.context is not nodes[0].work.context:
            result = _RESULTS.CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED
            raise InstantiateError(result, node, CUresult.CUDA_ERROR_NOT_SUPPORTED)
