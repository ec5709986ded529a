"""Graphs as text for Graphviz, as ``cuGraphDebugDotPrint`` writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda.bindings import driver as cuda

from drv.simulator.work.copy import CopyWork
from drv.simulator.work.events import EventRecordWork, EventWaitWork
from drv.simulator.work.fill import FillWork
from drv.simulator.work.host import HostWork
from drv.simulator.work.kernel import KernelWork

from .graph import WHOLE
from .graph_memory import AllocationWork, FreeWork
from .nested import ChildGraphWork, ConditionalWork

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from drv.simulator.work.work import Work

    from .graph import Edge, Graph, Node

_FLAGS = cuda.CUgraphDebugDot_flags
_SHAPES = {
    cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL: "octagon",
    cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY: "invtrapezium",
    cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET: "invtrapezium",
    cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_HOST: "doubleoctagon",
    cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL: "diamond",
}


def dot_text(graph: Graph, flags: int = 0) -> str:
    """``graph`` and the graphs inside its nodes; ``flags`` are those of ``CUgraphDebugDot_flags``."""
    lines = ["digraph dot {"]
    _write(graph, flags, lines)
    return "\n".join([*lines, "}", ""])


def _write(graph: Graph, flags: int, lines: list[str]) -> None:
    name = f"graph_{graph.identifier}"
    lines.append(f"subgraph cluster_{graph.identifier} {{")
    lines.append(f'label="{name}" graph[style="dashed"];')
    for node in graph.nodes:
        shape = _SHAPES.get(node.work.node_type, "box" if node.graphs else "ellipse")
        label = _quoted("\n".join(_described(node, flags)))
        lines.append(f'{_name(node)}[style="bold" shape="{shape}" label="{label}"];')
    edges = graph.edges()
    for number, (earlier, later, edge) in enumerate(edges):
        said = _edge_text(number, edge, flags)
        lines.append(f"{_name(earlier)} -> {_name(later)}{said};")
    lines.append("}")
    for node in graph.nodes:
        for number, inner in enumerate(node.graphs):
            _write(inner, flags, lines)
            said = f'[style="dashed" label="body {number}"]' if len(node.graphs) > 1 else '[style="dashed"]'
            first = next(iter(inner.nodes), None)
            if first is not None:
                lines.append(f"{_name(node)} -> {_name(first)}{said};")


def _name(node: Node) -> str:
    return f'"graph_{node.graph.identifier}_node_{node.number}"'


def _edge_text(number: int, edge: Edge, flags: int) -> str:
    said = []
    if _asked(flags, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO):
        said.append(str(number))
    if edge != WHOLE:
        said.append("programmatic" if edge.type else f"port {edge.from_port}")
    return f'[label="{", ".join(said)}"]' if said else ""


def _asked(flags: int, flag: Any) -> bool:
    return bool(flags & (int(flag) | int(_FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _described(node: Node, flags: int) -> list[str]:
    work = node.work
    lines = [str(node.number), _summary(work)]
    if _asked(flags, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES):
        lines.append(f"node {node.handle:#x}")
        if isinstance(work, KernelWork):
            lines.append(f"function {work.function.handle:#x}")
    for sort, flag, details in _DETAILS:
        if isinstance(work, sort) and _asked(flags, flag):
            lines += details(work)
    return lines


def _summary(work: Work) -> str:
    if isinstance(work, KernelWork):
        return work.function.kernel.name
    if isinstance(work, CopyWork):
        return f"MEMCPY ({_side(work.source)} to {_side(work.target)}, {work.nbytes} bytes)"
    if isinstance(work, FillWork):
        return f"MEMSET ({work.address:#x}, {work.rows * work.count * work.item} bytes)"
    if isinstance(work, ChildGraphWork):
        return f"child graph {work.graph.identifier}"
    return work.label


def _side(endpoint: Any) -> str:
    return "HOST" if endpoint.host else "DEVICE"


def _kernel(work: Any) -> list[str]:
    shape = " ".join(f"({', '.join(map(str, each))})" for each in (work.grid, work.block))
    return [f"<<<{shape}, {work.shared}>>>", f"{len(work.parameters)} bytes of parameters"]


def _copy(work: Any) -> list[str]:
    depth, height, width = work.shape
    return [
        f"from {work.source.address:#x}, pitch {work.source.pitch}",
        f"to {work.target.address:#x}, pitch {work.target.pitch}",
        f"{width} x {height} x {depth} bytes",
    ]


def _fill(work: Any) -> list[str]:
    return [
        f"value {work.value:#x}, {work.item} bytes each",
        f"{work.count} x {work.rows}, pitch {work.pitch}",
    ]


def _host(work: Any) -> list[str]:
    return [f"function {work.address:#x}, argument {work.data:#x}"]


def _event(work: Any) -> list[str]:
    return [f"event {work.event.handle:#x}"]


def _memory(work: Any) -> list[str]:
    return [f"{work.graph_allocation.allocation.base:#x}"]


def _conditional(work: Any) -> list[str]:
    default = work.condition.default
    return [
        f"handle {work.condition.handle:#x}, {len(work.bodies)} bodies",
        "no default" if default is None else f"default {default}",
    ]


def _attributes(work: Any) -> list[str]:
    return [f"cooperative {int(work.cooperative)}"]


_DETAILS: tuple[tuple[type, Any, Callable[[Any], list[str]]], ...] = (
    (KernelWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES, _attributes),
    (KernelWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS, _kernel),
    (CopyWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS, _copy),
    (FillWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS, _fill),
    (HostWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS, _host),
    (EventRecordWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS, _event),
    (EventWaitWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS, _event),
    (AllocationWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS, _memory),
    (FreeWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS, _memory),
    (ConditionalWork, _FLAGS.CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS, _conditional),
)
