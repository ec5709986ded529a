"""Graphs and their nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drv.copies import copy_on_device, memset
from drv.current import current_device
from drv.errors import InvalidHandleError, InvalidValueError
from drv.launch import launch
from drv.stream import Stream

from .executable import ExecutableGraph
from .nodes import Condition, GraphNode
from .recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv.device import Device
    from drv.event import Event
    from drv.module import Function

_VERBOSE = 1
_ASSIGN_DEFAULT = 1
_AUTO_FREE = 1


class Graph:
    """Work and its order, to be made executable and launched as a whole.

    It is captured from streams (:func:`capture`) or made node by node.

    Parameters
    ----------
    device : Device, optional
        Where work is done of which nothing else says where; this thread's current device by default.

    Attributes
    ----------
    device : Device
        The device.
    handle
        ``CUgraph``, as the driver's functions take it.

    Raises
    ------
    CudaError
        If the driver cannot make a graph.

    Notes
    -----
    A graph refers to memory by its address. The memory that objects passed to ``add_...`` stand for, and whatever is
    passed to :meth:`keep`, lives as long as the graph and the executable graphs that are made of it; of what is
    captured, the program itself takes care.

    Examples
    --------
    >>> memory, stream = drv.DeviceMemory(8), drv.Stream()
    >>> graph = drv.Graph()
    >>> first = graph.add_memset(memory, 1, 8)
    >>> second = graph.add_memset(memory, 2, 4, after=[first])
    >>> graph.instantiate().launch(stream)
    >>> result = np.zeros(8, np.uint8)
    >>> drv.copy_to_host(result, memory, stream=stream)
    >>> result.tolist()
    [2, 2, 2, 2, 1, 1, 1, 1]
    """

    def __init__(self, device: Device | None = None) -> None:
        self._owned = False
        if device is None:
            device = current_device()
        runtime = device.runtime
        device.use()
        self._set_up(device, runtime.check(runtime.driver.cuGraphCreate(0), "cuGraphCreate"))

    @classmethod
    def _of(cls, device: Device, handle: Any, *, owned: bool) -> Graph:
        self = cls.__new__(cls)
        self._set_up(device, handle)
        self._owned = owned
        return self

    def _set_up(self, device: Device, handle: Any) -> None:
        self.device = device
        self.runtime = device.runtime
        self.handle = handle
        self._referenced: list[Any] = []
        self._owned = True

    def __getattr__(self, name: str) -> Any:
        if name == "handle":
            raise InvalidHandleError("this graph was closed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<drv.Graph {int(self.handle):#x}, {len(self.nodes)} nodes>"

    @property
    def nodes(self) -> tuple[GraphNode, ...]:
        """The nodes, in the order in which they were added.

        Raises
        ------
        InvalidHandleError
            If the graph was closed.
        """
        count = self._ask("cuGraphGetNodes")[1]
        handles = self._ask("cuGraphGetNodes", count)[0] if count else ()
        return tuple(GraphNode(self, handle) for handle in handles)

    @property
    def edges(self) -> tuple[tuple[GraphNode, GraphNode], ...]:
        """Pairs of nodes of which the second comes after the first, for every dependency of the graph.

        Raises
        ------
        InvalidHandleError
            If the graph was closed.

        Examples
        --------
        >>> graph = drv.Graph()
        >>> first = graph.add_empty()
        >>> second = graph.add_empty(after=[first])
        >>> graph.edges == ((first, second),)
        True
        """
        count = self._ask("cuGraphGetEdges")[3]
        if not count:
            return ()
        earlier, later = self._ask("cuGraphGetEdges", count)[:2]
        return tuple(
            (GraphNode(self, first), GraphNode(self, second))
            for first, second in zip(earlier, later, strict=True)
        )

    def _ask(self, call: str, *arguments: Any) -> Any:
        self.device.use()
        return self.runtime.check(getattr(self.runtime.driver, call)(self.handle, *arguments), call)

    # What it does

    def add_kernel(
        self,
        function: Function,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        arguments: Sequence[Any] = (),
        *,
        shared: int = 0,
        after: Sequence[GraphNode] = (),
    ) -> GraphNode:
        """Add a launch of a kernel.

        Parameters
        ----------
        function, grid, block, arguments, shared
            See :func:`launch`. The arguments are packed now.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            As :func:`launch`, and if a node of ``after`` is not of this graph.

        Examples
        --------
        >>> source = 'extern "C" __global__ void add(int* out, int value) { *out += value; }'
        >>> add = drv.Module(drv.compile_program(source, "compute_90").image).function("add")
        >>> total, stream = drv.DeviceMemory(4), drv.Stream()
        >>> graph = drv.Graph()
        >>> zero = graph.add_memset(total, 0, 4)
        >>> first = graph.add_kernel(add, 1, 1, (total, np.int32(2)), after=[zero])
        >>> second = graph.add_kernel(add, 1, 1, (total, np.int32(3)), after=[first])
        >>> graph.instantiate().launch(stream)
        >>> result = np.zeros(1, np.int32)
        >>> drv.copy_to_host(result, total, stream=stream)
        >>> int(result[0])
        5
        """
        self.keep(function, *arguments)
        return self._record(
            after,
            lambda stream: launch(function, grid, block, arguments, shared=shared, stream=stream),
            function.device,
        )

    def add_copy(
        self, destination: Any, source: Any, nbytes: int | None = None, *, after: Sequence[GraphNode] = ()
    ) -> GraphNode:
        """Add a copy between memory of the device and page-locked memory of the host, in any direction.

        Parameters
        ----------
        destination, source
            :class:`DeviceMemory`, :class:`PinnedMemory`, :class:`RegisteredMemory`, an object with
            ``__cuda_array_interface__``, or an address of such memory.
        nbytes : int, optional
            Bytes to copy; by default the size of both sides, which must be the same then.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            If a side has fewer bytes, the sizes differ and ``nbytes`` is not given, an argument is not such memory, or a
            node of ``after`` is not of this graph.
        """
        self.keep(destination, source)
        return self._record(after, lambda stream: copy_on_device(destination, source, nbytes, stream=stream))

    def add_memset(
        self,
        destination: Any,
        value: int,
        count: int,
        *,
        bits: int = 8,
        after: Sequence[GraphNode] = (),
    ) -> GraphNode:
        """Add a fill of memory.

        Parameters
        ----------
        destination, value, count, bits
            See :func:`memset`.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            As :func:`memset`, and if a node of ``after`` is not of this graph.
        """
        self.keep(destination)
        return self._record(after, lambda stream: memset(destination, value, count, bits=bits, stream=stream))

    def add_callback(
        self, function: Callable[..., object], *arguments: Any, after: Sequence[GraphNode] = ()
    ) -> GraphNode:
        """Add a call of ``function(*arguments)`` on the host, which is made at each launch.

        See :meth:`Stream.add_callback` for what such a function must not do, and what becomes of what it raises.

        Parameters
        ----------
        function : callable
            What to call.
        *arguments
            What to call it with.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            If a node of ``after`` is not of this graph.
        """
        return self._record(after, lambda stream: stream.add_callback(function, *arguments))

    def add_graph(self, graph: Graph, *, after: Sequence[GraphNode] = ()) -> GraphNode:
        """Add all that another graph does now, as one node.

        Parameters
        ----------
        graph : Graph
            It is copied.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            If it is this graph, or a node of ``after`` is not of this graph.
        NotSupportedError
            If it allocates memory or has conditional nodes.
        """
        self.keep(graph)
        return self._add("cuGraphAddChildGraphNode", after, graph.handle)

    def add_empty(self, *, after: Sequence[GraphNode] = ()) -> GraphNode:
        """Add a node that does nothing: what comes after it comes after all that it comes after.

        Parameters
        ----------
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            If a node of ``after`` is not of this graph.
        """
        return self._add("cuGraphAddEmptyNode", after)

    def add_event_record(self, event: Event, *, after: Sequence[GraphNode] = ()) -> GraphNode:
        """Add a record of ``event`` at each launch, by which streams and the host wait for a part of the graph.

        Parameters
        ----------
        event : Event
            What is recorded.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            If a node of ``after`` is not of this graph.
        """
        self.keep(event)
        return self._add("cuGraphAddEventRecordNode", after, event.handle)

    def add_event_wait(self, event: Event, *, after: Sequence[GraphNode] = ()) -> GraphNode:
        """Add a wait, at each launch, for what ``event`` marks in that moment.

        Parameters
        ----------
        event : Event
            What is waited for.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Raises
        ------
        InvalidValueError
            If a node of ``after`` is not of this graph.
        """
        self.keep(event)
        return self._add("cuGraphAddEventWaitNode", after, event.handle)

    def add_edge(self, first: GraphNode, second: GraphNode) -> None:
        """Let node ``second`` come after node ``first``, both of this graph.

        Raises
        ------
        InvalidValueError
            If a node is another graph's, or it does so already.

        Examples
        --------
        >>> graph = drv.Graph()
        >>> first, second = graph.add_empty(), graph.add_empty()
        >>> graph.add_edge(first, second)
        >>> second.dependencies == (first,)
        True
        """
        earlier, later = self._dependencies([first]), self._dependencies([second])
        self._ask("cuGraphAddDependencies", earlier, later, None, 1)

    def _add(self, call: str, after: Sequence[GraphNode], *arguments: Any) -> GraphNode:
        nodes = self._dependencies(after)
        self.device.use()
        result = getattr(self.runtime.driver, call)(self.handle, nodes, len(nodes), *arguments)
        return GraphNode(self, self.runtime.check(result, call))

    def _dependencies(self, after: Sequence[GraphNode]) -> list[Any]:
        for node in after:
            if node.graph is not self:
                raise InvalidValueError(f"after={node!r}: it is a node of another graph")
        return [node.handle for node in after]

    def _record(
        self, after: Sequence[GraphNode], queue: Callable[[Stream], object], device: Device | None = None
    ) -> GraphNode:
        """Add what ``queue`` queues on a stream: its one piece of work."""
        nodes = self._dependencies(after)
        with Recording(Stream(device or self.device), "relaxed", self.handle, nodes) as recording:
            queue(recording.stream)
            handles = recording.dependencies()
        added = [each for each in handles if int(each) not in {int(node) for node in nodes}]
        if not added:
            raise InvalidValueError("there is nothing to do: the copy or fill is of no bytes")
        return GraphNode(self, added[-1])

    # Conditions

    def condition(self, default: int | None = None) -> Condition:
        """A condition for one node of this graph.

        Parameters
        ----------
        default : int, optional
            Its value at the beginning of each launch; by default the one that it had at the end of the launch before.
        """
        flags = 0 if default is None else _ASSIGN_DEFAULT
        handle = self._ask("cuGraphConditionalHandleCreate", self.device.context, default or 0, flags)
        return Condition(int(handle))

    def add_if(
        self, condition: Condition, *, otherwise: bool = False, after: Sequence[GraphNode] = ()
    ) -> tuple[Graph, ...]:
        """Add a node that runs a graph if a condition is not 0; with ``otherwise``, another one if it is 0.

        Parameters
        ----------
        condition : Condition
            It belongs to this node from now on.
        otherwise : bool
            Whether there is a graph for 0.
        after : sequence of GraphNode
            Nodes of this graph that it comes after.

        Returns
        -------
        tuple of Graph
            The graphs, empty so far: add nodes to them, or capture into them.

        Raises
        ------
        InvalidValueError
            If the condition is another graph's, or belongs to a node already.
        """
        return self._conditional("IF", condition, 1 + otherwise, after)

    def add_while(self, condition: Condition, *, after: Sequence[GraphNode] = ()) -> Graph:
        """Add a node that runs a graph as long as a condition is not 0.

        Parameters
        ----------
        condition, after
            See :meth:`add_if`.

        Returns
        -------
        Graph
            The graph, empty so far.

        Raises
        ------
        InvalidValueError
            As :meth:`add_if`.

        Examples
        --------
        >>> source = '''
        ... extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(unsigned long long, unsigned);
        ... extern "C" __global__ void halve(unsigned long long condition, int* number, int* steps) {
        ...     *number /= 2; *steps += 1; cudaGraphSetConditional(condition, *number > 1);
        ... }'''
        >>> halve = drv.Module(drv.compile_program(source, "compute_90").image).function("halve")
        >>> number, steps, stream = drv.DeviceMemory(4), drv.DeviceMemory(4), drv.Stream()
        >>> graph = drv.Graph()
        >>> start = graph.add_memset(number, 1000, 1, bits=32)
        >>> zero = graph.add_memset(steps, 0, 1, bits=32)
        >>> condition = graph.condition(default=1)
        >>> body = graph.add_while(condition, after=[start, zero])
        >>> node = body.add_kernel(halve, 1, 1, (condition.handle, number, steps))
        >>> graph.instantiate().launch(stream)
        >>> result = np.zeros(1, np.int32)
        >>> drv.copy_to_host(result, steps, stream=stream)
        >>> int(result[0])
        9
        """
        return self._conditional("WHILE", condition, 1, after)[0]

    def add_switch(
        self, condition: Condition, count: int, *, after: Sequence[GraphNode] = ()
    ) -> tuple[Graph, ...]:
        """Add a node that runs the graph whose index among ``count`` is the value of a condition, or none.

        Parameters
        ----------
        condition, after
            See :meth:`add_if`.
        count : int
            How many graphs there are.

        Returns
        -------
        tuple of Graph
            The graphs, empty so far.

        Raises
        ------
        InvalidValueError
            As :meth:`add_if`, and if ``count`` is not positive.
        """
        if count <= 0:
            raise InvalidValueError(f"count must be positive, {count} was given")
        return self._conditional("SWITCH", condition, count, after)

    def _conditional(
        self, conditional_type: str, condition: Condition, size: int, after: Sequence[GraphNode]
    ) -> tuple[Graph, ...]:
        from cuda.bindings import driver as cuda

        parameters = cuda.CUgraphNodeParams()
        parameters.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        target = parameters.conditional
        target.handle = cuda.CUgraphConditionalHandle(condition.handle)
        target.type = getattr(cuda.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{conditional_type}")
        target.size, target.ctx = size, self.device.context
        nodes = self._dependencies(after)
        self._ask("cuGraphAddNode", nodes, None, len(nodes), parameters)
        bodies = tuple(Graph._of(self.device, handle, owned=False) for handle in target.phGraph_out)
        for body in bodies:
            # What is added to a body is kept by the graph.
            body._referenced = self._referenced
        return bodies

    # What becomes of it

    def keep(self, *objects: object) -> None:
        """Let objects live as long as this graph and the executable graphs that are made of it.

        Parameters
        ----------
        *objects
            Memory that nodes use, for example. ``None`` and numbers are passed over.
        """
        self._referenced += [
            each for each in objects if each is not None and not isinstance(each, (int, float))
        ]

    def instantiate(self, *, auto_free: bool = False) -> ExecutableGraph:
        """Make the graph, as it is now, executable.

        Parameters
        ----------
        auto_free : bool
            Whether memory that the graph allocates and does not free is freed before the next launch.

        Raises
        ------
        InvalidValueError
            If nodes depend on each other in a circle, or the graph allocates memory or has conditional nodes and an
            executable graph of it is there already.
        """
        handle = self._ask("cuGraphInstantiate", _AUTO_FREE if auto_free else 0)
        return ExecutableGraph(self.device, handle, tuple(self._referenced))

    def clone(self) -> Graph:
        """A copy of the graph and of the graphs inside it.

        Raises
        ------
        NotSupportedError
            If it allocates memory or has conditional nodes.
        """
        result = Graph._of(self.device, self._ask("cuGraphClone"), owned=True)
        result._referenced = list(self._referenced)
        return result

    def dot(self, *, verbose: bool = False) -> str:
        """The graph as text in the language of Graphviz.

        Parameters
        ----------
        verbose : bool
            Whether the parameters of nodes are shown, too.

        Examples
        --------
        >>> graph = drv.Graph()
        >>> node = graph.add_empty(after=[graph.add_empty()])
        >>> graph.dot().startswith("digraph")
        True
        """
        import tempfile  # brings compressors, which nothing else here needs

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "graph.dot")
            self.write_dot(path, verbose=verbose)
            return path.read_text(encoding="utf-8", errors="replace")

    def write_dot(self, path: str | os.PathLike[str], *, verbose: bool = False) -> None:
        """Write :meth:`dot` into a file.

        Parameters
        ----------
        path
            The file.
        verbose : bool
            See :meth:`dot`.

        Raises
        ------
        CudaError
            If the file cannot be written.
        """
        self._ask("cuGraphDebugDotPrint", os.fsencode(path), _VERBOSE if verbose else 0)

    def close(self) -> None:
        """Destroy the graph; executable graphs stay. A second call does nothing.

        Any other use of the graph raises :class:`InvalidHandleError` afterwards.
        """
        if self._owned:
            self.device.use()
            self._owned = False
            handle = self.handle
            del self.handle
            self._referenced = []
            self.runtime.check(self.runtime.driver.cuGraphDestroy(handle), "cuGraphDestroy")

    def __del__(self) -> None:
        if self._owned:
            self.runtime.release(self.device, "cuGraphDestroy", self.handle)
