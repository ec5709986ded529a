"""What graphs consist of: nodes, edges, copies, identifiers, text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cuda.bindings import driver as cuda

from .graphs import copy_parameters, edges, fill_parameters, host_node, launched, types

if TYPE_CHECKING:
    from pathlib import Path

    from tests.drv.simulator.machine import Machine


def chain(machine: Machine, count: int) -> tuple[Any, list[Any]]:
    """A graph of empty nodes, each of which depends on the one before."""
    graph = machine.cuGraphCreate(0)
    nodes: list[Any] = []
    for _ in range(count):
        nodes.append(machine.cuGraphAddEmptyNode(graph, nodes[-1:], min(len(nodes), 1)))
    return graph, nodes


def test_lists_of_nodes_have_the_room_that_is_asked_for(machine: Machine) -> None:
    graph, nodes = chain(machine, 3)
    assert machine.cuGraphGetNodes(graph) == ([], 3)
    for room, listed_count in ((2, 2), (3, 3), (5, 3)):
        listed, count = machine.cuGraphGetNodes(graph, room)
        assert count == listed_count
        assert [int(each) for each in listed] == [int(each) for each in nodes[:listed_count]] + [0] * (
            room - listed_count
        )
    assert machine.cuGraphGetRootNodes(graph) == ([], 1)
    assert [int(each) for each in machine.cuGraphGetRootNodes(graph, 1)[0]] == [int(nodes[0])]
    earlier, later, data, count = machine.cuGraphGetEdges(graph, 2)
    assert [int(each) for each in earlier] == [int(each) for each in nodes[:2]]
    assert [int(each) for each in later] == [int(each) for each in nodes[1:]]
    assert (count, [each.type for each in data]) == (2, [0, 0])
    assert machine.cuGraphNodeGetDependencies(nodes[1])[2] == 1
    assert int(machine.cuGraphNodeGetDependencies(nodes[1], 1)[0][0]) == int(nodes[0])
    assert int(machine.cuGraphNodeGetDependentNodes(nodes[1], 1)[0][0]) == int(nodes[2])
    assert machine.cuGraphNodeGetDependentNodes(nodes[2]) == ([], [], 0)


def test_edges_come_and_go(machine: Machine) -> None:
    graph, nodes = chain(machine, 2)
    third = machine.cuGraphAddEmptyNode(graph, None, 0)
    machine.cuGraphAddDependencies(graph, [nodes[0], nodes[1]], [third, third], None, 2)
    assert edges(machine, graph) == {(0, 1), (0, 2), (1, 2)}
    add = ("cuGraphAddDependencies", graph)
    assert machine.status(*add, [nodes[0]], [third], None, 1) == "INVALID_VALUE"
    assert machine.status(*add, [third], [third], None, 1) == "INVALID_VALUE"
    assert machine.status(*add, [nodes[0]], [machine.cuGraphCreate(0)], None, 1) == "INVALID_VALUE"
    machine.cuGraphRemoveDependencies(graph, [nodes[0]], [third], None, 1)
    assert edges(machine, graph) == {(0, 1), (1, 2)}
    remove = ("cuGraphRemoveDependencies", graph)
    assert machine.status(*remove, [nodes[0]], [third], None, 1) == "INVALID_VALUE"
    machine.cuGraphDestroyNode(nodes[1])
    assert edges(machine, graph) == set()
    assert machine.status("cuGraphNodeGetType", nodes[1]) == "INVALID_VALUE"
    # Numbers are not given out again.
    fourth = machine.cuGraphAddEmptyNode(graph, None, 0)
    assert machine.cuGraphNodeGetLocalId(fourth) == 3


def test_what_is_said_of_an_edge(machine: Machine) -> None:
    graph, nodes = chain(machine, 2)
    programmatic = cuda.CUgraphEdgeData()
    programmatic.from_port, programmatic.type = 1, 1
    other = machine.cuGraphAddEmptyNode(graph, None, 0)
    # Only kernels have ports.
    arguments = (graph, [nodes[0]], [other], [programmatic], 1)
    assert machine.status("cuGraphAddDependencies", *arguments) == "INVALID_VALUE"
    wrong = cuda.CUgraphEdgeData()
    wrong.to_port = 1
    arguments = (graph, [nodes[0]], [other], [wrong], 1)
    assert machine.status("cuGraphAddDependencies", *arguments) == "INVALID_VALUE"


def test_dependencies_are_nodes_of_the_graph_none_twice(machine: Machine) -> None:
    graph, nodes = chain(machine, 1)
    foreign = chain(machine, 1)[1][0]
    for listed_count in ([foreign], [nodes[0], nodes[0]], [cuda.CUgraphNode(1)]):
        assert (
            machine.status("cuGraphAddEmptyNode", graph, listed_count, len(listed_count)) == "INVALID_VALUE"
        )
    with pytest.raises(RuntimeError, match="List is too small: 1 < 2"):
        machine.driver.cuGraphAddEmptyNode(graph, nodes, 2)
    assert types(machine, graph) == ["EMPTY"]


def test_a_circle_is_found_when_it_is_instantiated(machine: Machine) -> None:
    graph, nodes = chain(machine, 3)
    machine.cuGraphAddDependencies(graph, [nodes[2]], [nodes[0]], None, 1)
    assert machine.status("cuGraphInstantiate", graph, 0) == "INVALID_VALUE"
    parameters = cuda.CUDA_GRAPH_INSTANTIATE_PARAMS()
    assert machine.status("cuGraphInstantiateWithParams", graph, parameters) == "INVALID_VALUE"
    assert parameters.result_out.name == "CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE"
    assert int(parameters.hErrNode_out) in [int(each) for each in nodes]
    machine.cuGraphRemoveDependencies(graph, [nodes[2]], [nodes[0]], None, 1)
    machine.cuGraphInstantiateWithParams(graph, parameters)
    assert parameters.result_out.name == "CUDA_GRAPH_INSTANTIATE_SUCCESS"
    assert int(parameters.hErrNode_out) == 0


def test_identifiers(machine: Machine) -> None:
    graph, nodes = chain(machine, 2)
    other = machine.cuGraphCreate(0)
    assert machine.cuGraphGetId(graph) != machine.cuGraphGetId(other)
    executable = machine.cuGraphInstantiate(graph, 0)
    assert machine.cuGraphExecGetId(executable) not in (
        machine.cuGraphGetId(graph),
        machine.cuGraphGetId(other),
    )
    assert int(machine.cuGraphNodeGetContainingGraph(nodes[0])) == int(graph)
    assert len({machine.cuGraphNodeGetToolsId(each) for each in nodes}) == 2
    assert machine.status("cuGraphCreate", 1) == "INVALID_VALUE"


def test_a_clone_is_a_graph_of_its_own(machine: Machine) -> None:
    graph = machine.cuGraphCreate(0)
    first = host_node(machine, graph, "first")
    second = host_node(machine, graph, "second", first)
    inner = machine.cuGraphCreate(0)
    host_node(machine, inner, "inner")
    machine.cuGraphAddChildGraphNode(graph, [second], 1, inner)
    clone = machine.cuGraphClone(graph)
    copy = machine.cuGraphNodeFindInClone(second, clone)
    assert int(copy) != int(second)
    assert edges(machine, clone) == edges(machine, graph) == {(0, 1), (1, 2)}
    machine.cuGraphDestroyNode(copy)
    assert machine.status("cuGraphNodeFindInClone", second, clone) == "INVALID_VALUE"
    machine.cuGraphDestroy(graph)
    launched(machine, clone)
    assert sorted(machine.log) == ["first", "inner"]
    assert machine.status("cuGraphNodeFindInClone", first, clone) == "INVALID_VALUE"


def test_destroyed_graphs_and_nodes_are_gone(machine: Machine) -> None:
    graph, nodes = chain(machine, 1)
    inner = machine.cuGraphCreate(0)
    child = machine.cuGraphAddChildGraphNode(graph, None, 0, inner)
    embedded = machine.cuGraphChildGraphNodeGetGraph(child)
    assert int(embedded) != int(inner)
    assert machine.status("cuGraphDestroy", embedded) == "INVALID_VALUE"
    executable = machine.cuGraphInstantiate(graph, 0)
    machine.cuGraphDestroy(graph)
    for name, handle in (
        ("cuGraphGetNodes", graph),
        ("cuGraphGetNodes", embedded),
        ("cuGraphNodeGetType", nodes[0]),
        ("cuGraphNodeGetType", child),
        ("cuGraphDestroy", graph),
    ):
        assert machine.status(name, handle) == "INVALID_VALUE"
    # What was made of it stays.
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuGraphExecDestroy(executable)
    assert machine.status("cuGraphLaunch", executable, 0) == "INVALID_VALUE"


def test_text_for_graphviz(machine: Machine, tmp_path: Path) -> None:
    graph, path = machine.cuGraphCreate(0), tmp_path / "graph.dot"
    memory = machine.device_memory(64)
    fill = machine.cuGraphAddMemsetNode(graph, None, 0, fill_parameters(memory, 7, 64), machine.contexts[0])
    copy = copy_parameters(memory, memory + 32, 32)
    machine.cuGraphAddMemcpyNode(graph, [fill], 1, copy, machine.contexts[0])
    inner = machine.cuGraphCreate(0)
    host_node(machine, inner, 0)
    machine.cuGraphAddChildGraphNode(graph, [fill], 1, inner)
    machine.cuGraphDebugDotPrint(graph, str(path).encode(), 0)
    number = machine.cuGraphGetId(graph)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("digraph dot {\n")
    assert text.endswith("}\n")
    assert text.count("{") == text.count("}")
    for said in ("MEMSET", "MEMCPY (DEVICE to DEVICE, 32 bytes)", "child graph", "host function"):
        assert said in text
    assert f'"graph_{number}_node_0" -> "graph_{number}_node_1";' in text
    assert "value 0x7" not in text
    verbose = int(cuda.CUgraphDebugDot_flags.CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)
    machine.cuGraphDebugDotPrint(graph, str(path).encode(), verbose)
    text = path.read_text(encoding="utf-8")
    assert "value 0x7" in text
    assert f"node {int(fill):#x}" in text
    where = str(tmp_path / "missing" / "graph.dot").encode()
    assert machine.status("cuGraphDebugDotPrint", graph, where, 0) == "OPERATING_SYSTEM"
    assert machine.status("cuGraphDebugDotPrint", graph, str(path).encode(), 1 << 30) == "INVALID_VALUE"
