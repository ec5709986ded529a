"""Graphs that can be launched."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from drv.arguments import check_parameters
from drv.errors import GraphUpdateError, InvalidHandleError, InvalidValueError
from drv.launch import parameter_layout

from .nodes import GraphNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from drv.arguments import Code
    from drv.device import Device
    from drv.module import Function
    from drv.stream import Stream

    from .graph import Graph

#: Calls that give and take the parameters of nodes, by what these do.
_PARAMETERS = {
    "kernel": ("cuGraphKernelNodeGetParams", "cuGraphExecKernelNodeSetParams"),
    "memcpy": ("cuGraphMemcpyNodeGetParams", "cuGraphExecMemcpyNodeSetParams"),
    "memset": ("cuGraphMemsetNodeGetParams", "cuGraphExecMemsetNodeSetParams"),
    "host": ("cuGraphHostNodeGetParams", "cuGraphExecHostNodeSetParams"),
}
_IN_CONTEXT = ("memcpy", "memset")
_UPDATE_FAILED = 910


class ExecutableGraph:
    """A graph as it was when it was made executable, which :meth:`Graph.instantiate` does.

    Launches are ordered with each other, on whatever streams they are. Within a launch, nodes are ordered as the graph
    says and no further.

    Parameters
    ----------
    device : Device
        The attribute of this name.
    handle
        The attribute of this name.
    referenced : tuple
        Objects that live as long as this.

    Attributes
    ----------
    device : Device
        The graph's.
    handle
        ``CUgraphExec``, as the driver's functions take it.

    Examples
    --------
    >>> memory, stream = drv.DeviceMemory(1024), drv.Stream()
    >>> with drv.capture(stream) as capture:
    ...     drv.memset(memory, 0, 1024, stream=stream)
    >>> executable = capture.graph.instantiate()
    >>> executable.launch(stream)
    >>> executable.launch(stream)
    >>> stream.synchronize()
    """

    def __init__(self, device: Device, handle: Any, referenced: tuple[Any, ...]) -> None:
        self.device = device
        self.runtime = device.runtime
        self.handle = handle
        self._referenced = referenced
        self._owned = True

    def __getattr__(self, name: str) -> Any:
        if name == "handle":
            raise InvalidHandleError("this executable graph was closed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<drv.ExecutableGraph {int(self.handle):#x} on device {self.device.ordinal}>"

    def launch(self, stream: Stream) -> None:
        """Queue everything on ``stream``; what is queued there later comes after all of it.

        While ``stream`` is captured, the graph becomes a node of that graph.

        Raises
        ------
        InvalidValueError
            If memory that an earlier launch has allocated is not freed, and ``auto_free`` was not asked for.
        CudaError
            If earlier work has lost the context.
        """
        self.device.use()
        status = self.runtime.driver.cuGraphLaunch(self.handle, stream.handle)[0]
        if status:
            self.runtime.fail(status, "cuGraphLaunch")

    def upload(self, stream: Stream) -> None:
        """Bring to the device, in the order of ``stream``, what the first launch would otherwise have to.

        Raises
        ------
        CaptureError
            If ``stream`` is captured.
        """
        self.device.use()
        self.runtime.check(self.runtime.driver.cuGraphUpload(self.handle, stream.handle), "cuGraphUpload")

    def update(self, graph: Graph) -> None:
        """Take the parameters of all nodes from a graph of the same shape, from the next launch on.

        That is quicker than to make that graph executable. Where it cannot be done, nothing changes.

        Parameters
        ----------
        graph : Graph
            Such as one that was captured anew, with other addresses.

        Raises
        ------
        GraphUpdateError
            If the graph has another shape, or a node another type, or parameters that cannot be exchanged.

        Examples
        --------
        >>> first, second = drv.DeviceMemory(4), drv.DeviceMemory(4)
        >>> graph, other, stream = drv.Graph(), drv.Graph(), drv.Stream()
        >>> for memory in (first, second):
        ...     drv.memset(memory, 0, 4)
        >>> node, other_node = graph.add_memset(first, 1, 4), other.add_memset(second, 2, 4)
        >>> executable = graph.instantiate()
        >>> executable.update(other)
        >>> executable.launch(stream)
        >>> result = np.zeros(4, np.uint8)
        >>> drv.copy_to_host(result, second, stream=stream)
        >>> result.tolist()
        [2, 2, 2, 2]
        """
        self.device.use()
        status, info = self.runtime.driver.cuGraphExecUpdate(self.handle, graph.handle)
        if int(status) == _UPDATE_FAILED:
            raise _refused(info, graph)
        self.runtime.check((status, info), "cuGraphExecUpdate")
        self._referenced += tuple(graph._referenced)

    def replace(self, node: GraphNode, other: GraphNode) -> None:
        """Give a node the parameters of another one, from the next launch on.

        Parameters
        ----------
        node : GraphNode
            A node of the graph that this was made of.
        other : GraphNode
            A node of any graph that does the same sort of thing: launches a kernel, copies, fills, or calls a function.

        Raises
        ------
        InvalidValueError
            If the two do not do the same sort of thing, it is none of these, or the driver cannot exchange the parameters.
        """
        node_type = node.kind
        if node_type != other.kind or node_type not in _PARAMETERS:
            raise InvalidValueError(
                f"a node of kind {node_type!r} cannot be replaced by one of kind {other.kind!r}: expected "
                f"two of one kind, {', '.join(map(repr, _PARAMETERS))}"
            )
        get, take = _PARAMETERS[node_type]
        driver, check = self.runtime.driver, self.runtime.check
        self.device.use()
        parameters = check(getattr(driver, get)(other.handle), get)
        context = (self.device.context,) if node_type in _IN_CONTEXT else ()
        check(getattr(driver, take)(self.handle, node.handle, parameters, *context), take)
        self._referenced += tuple(other.graph._referenced)

    def arguments_of(self, node: GraphNode, function: Function, types: Iterable[Code]) -> Callable[..., None]:
        """Make the function that gives the kernel of a node other arguments, from the next launch on.

        What it takes is prepared once, so that it is one call of the driver: quicker than :meth:`replace` for a node
        that gets other arguments often.

        Parameters
        ----------
        node : GraphNode
            A node of the graph that this was made of, which launches ``function``.
        function : Function
            The kernel.
        types
            One code per parameter, as for :func:`prepare`.

        Returns
        -------
        callable
            ``set_arguments(*values)``, for one thread at a time.

        Raises
        ------
        InvalidValueError
            If the node launches another kernel or none, or the number or sizes of the parameters are not the kernel's,
            where the driver can tell.

        Examples
        --------
        >>> source = 'extern "C" __global__ void fill(float* out, float x) { out[threadIdx.x] = x; }'
        >>> fill = drv.Module(drv.compile_program(source, "compute_90").image).function("fill")
        >>> memory, stream = drv.DeviceMemory(4 * 2), drv.Stream()
        >>> graph = drv.Graph()
        >>> node = graph.add_kernel(fill, 1, 2, (memory, np.float32(1)))
        >>> executable = graph.instantiate()
        >>> set_arguments = executable.arguments_of(node, fill, "Pf")
        >>> set_arguments(memory.address, 3.0)
        >>> executable.launch(stream)
        >>> result = np.zeros(2, np.float32)
        >>> drv.copy_to_host(result, memory, stream=stream)
        >>> result.tolist()
        [3.0, 3.0]
        """
        if node.kind != "kernel":
            raise InvalidValueError(
                f"a node of kind {node.kind!r} has no arguments: expected one of kind 'kernel'"
            )
        driver, check, device = self.runtime.driver, self.runtime.check, self.device
        device.use()
        parameters = check(driver.cuGraphKernelNodeGetParams(node.handle), "cuGraphKernelNodeGetParams")
        if int(parameters.func) != int(function.handle):
            raise InvalidValueError(f"the node launches another kernel than '{function.name}'")
        codes = tuple(types)
        check_parameters(function, codes)
        packer, new_buffer = parameter_layout(codes)
        buffer = new_buffer()
        # What the driver gave belongs to the node.
        parameters.kernelParams, parameters.extra = buffer[1], 0
        call = "cuGraphExecKernelNodeSetParams"

        def set_arguments(*values: Any) -> None:
            try:
                packer.pack_into(buffer[0], 0, *values)
            except struct.error as error:
                raise InvalidValueError(f"arguments of kernel '{function.name}': {error}") from error
            device.use()
            # It has copied them when it returns, so that the buffer serves again.
            check(driver.cuGraphExecKernelNodeSetParams(self.handle, node.handle, parameters), call)

        return set_arguments

    def set_enabled(self, node: GraphNode, enabled: bool) -> None:
        """Let a launch of a kernel, a copy or a fill take place or not, from the next launch of the graph on.

        Parameters
        ----------
        node : GraphNode
            A node of the graph that this was made of.
        enabled : bool
            Whether it does what it does. If not, it still orders what comes before it and after it.

        Raises
        ------
        InvalidValueError
            If the node does something else.
        """
        call = "cuGraphNodeSetEnabled"
        self.runtime.check(self.runtime.driver.cuGraphNodeSetEnabled(self.handle, node.handle, enabled), call)

    def is_enabled(self, node: GraphNode) -> bool:
        """Whether a launch carries a node out: see :meth:`set_enabled`.

        Parameters
        ----------
        node : GraphNode
            A kernel, copy or fill of the graph that this was made of.

        Raises
        ------
        InvalidValueError
            If the node does something else.
        """
        call = "cuGraphNodeGetEnabled"
        return bool(
            self.runtime.check(self.runtime.driver.cuGraphNodeGetEnabled(self.handle, node.handle), call)
        )

    def close(self) -> None:
        """Destroy it, once its launches are done. A second call does nothing.

        Any other use of it raises :class:`InvalidHandleError` afterwards.
        """
        if self._owned:
            self.device.use()
            self._owned = False
            handle = self.handle
            del self.handle
            self.runtime.check(self.runtime.driver.cuGraphExecDestroy(handle), "cuGraphExecDestroy")

    def __del__(self) -> None:
        if self._owned:
            self.runtime.release(self.device, "cuGraphExecDestroy", self.handle)


def _refused(info: Any, graph: Graph) -> GraphUpdateError:
    reason = info.result.name.removeprefix("CU_GRAPH_EXEC_UPDATE_ERROR_")
    text = reason.replace("_", " ").lower()
    node = GraphNode(graph, info.errorNode) if int(info.errorNode) else None
    node_text = "" if node is None else f", at {node!r}"
    return GraphUpdateError(
        f"the executable graph cannot take the parameters of {graph!r}: {text}{node_text}. Make that graph executable "
        "instead (instantiate).",
        reason=reason,
        node=node,
        status="CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
        call="cuGraphExecUpdate",
    )
