"""Graphs made node by node, and what becomes of executable ones."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv

if TYPE_CHECKING:
    from pathlib import Path


def contents(memory: Any, dtype: Any = np.uint8) -> list[Any]:
    result = np.zeros(memory.nbytes, np.uint8)
    drv.copy_to_host(result, memory)
    values: list[Any] = result.view(dtype).tolist()
    return values


def test_nodes_of_every_kind(device: drv.Device, module: drv.Module) -> None:
    memory, pinned, stream = drv.DeviceMemory(32, device), drv.PinnedMemory(32, device), drv.Stream(device)
    log: list[str] = []
    before, after = drv.Event(device), drv.Event(device)
    graph, inner = drv.Graph(device), drv.Graph(device)
    inner.add_callback(log.append, "inner")
    node = graph.add_event_wait(before)
    node = graph.add_memset(memory, 0, 32, after=[node])
    arguments = memory, np.float32(1.5), np.int32(4)
    node = graph.add_kernel(module.function("fill"), 1, 32, arguments, after=[node])
    node = graph.add_copy(pinned, memory, after=[node])
    node = graph.add_graph(inner, after=[node])
    node = graph.add_empty(after=[node])
    node = graph.add_callback(log.append, "outer", after=[node])
    node = graph.add_event_record(after, after=[node])
    assert [each.kind for each in graph.nodes] == [
        "wait_event",
        "memset",
        "kernel",
        "memcpy",
        "graph",
        "empty",
        "host",
        "event_record",
    ]
    assert graph.nodes[-1] == node
    assert len(graph.edges) == 7
    inner.close()
    executable = graph.instantiate()
    executable.upload(stream)
    executable.launch(stream)
    after.synchronize()
    stream.synchronize()
    assert log == ["inner", "outer"]
    assert pinned.array(np.float32).tolist() == [1.5] * 4 + [0] * 4


def test_nodes_come_after_nodes_of_their_own_graph(device: drv.Device) -> None:
    graph, other = drv.Graph(device), drv.Graph(device)
    node = other.add_empty()
    memory = drv.DeviceMemory(4, device)
    for add in (
        lambda: graph.add_empty(after=[node]),
        lambda: graph.add_memset(memory, 0, 4, after=[node]),
    ):
        with pytest.raises(drv.InvalidValueError, match="a node of another graph"):
            add()
    with pytest.raises(drv.InvalidValueError, match="no bytes"):
        graph.add_memset(memory, 0, 0)
    with pytest.raises(drv.InvalidValueError, match="do not fit"):
        graph.add_memset(memory, 0, 5)
    assert graph.nodes == ()
    assert device.runtime.captures == ()


def test_what_a_graph_was_given_lives_as_long_as_it_and_what_is_made_of_it(device: drv.Device) -> None:
    graph, stream = drv.Graph(device), drv.Stream(device)
    memory = drv.DeviceMemory(16, device)
    result = drv.DeviceMemory(16, device)
    first = graph.add_memset(memory, 7, 16)
    graph.add_copy(result, memory, after=[first])
    del memory
    executable = graph.instantiate()
    graph.close()
    gc.collect()
    executable.launch(stream)
    stream.synchronize()
    assert contents(result) == [7] * 16


def test_clones_and_text(device: drv.Device, tmp_path: Path) -> None:
    graph, memory = drv.Graph(device), drv.DeviceMemory(16, device)
    graph.add_memset(memory, 7, 16)
    clone = graph.clone()
    clone.add_empty()
    assert (len(graph.nodes), len(clone.nodes)) == (1, 2)
    text = graph.dot(verbose=True)
    assert text.startswith("digraph")
    assert len(text) > len(graph.dot())
    path = tmp_path / "graph.dot"
    graph.write_dot(path)
    assert path.read_text(encoding="utf-8") == graph.dot()
    with pytest.raises(drv.CudaError):
        graph.write_dot(tmp_path / "no" / "graph.dot")
    assert "1 nodes" in repr(graph)


def test_updates(device: drv.Device) -> None:
    first, second, stream = drv.DeviceMemory(4, device), drv.DeviceMemory(4, device), drv.Stream(device)
    graphs = []
    for memory, value in ((first, 1), (second, 2)):
        drv.memset(memory, 0, 4)
        graph = drv.Graph(device)
        graph.add_memset(memory, value, 4)
        graphs.append(graph)
    executable = graphs[0].instantiate()
    executable.update(graphs[1])
    executable.launch(stream)
    stream.synchronize()
    assert (contents(first), contents(second)) == ([0] * 4, [2] * 4)
    other = drv.Graph(device)
    empty = other.add_empty()
    with pytest.raises(drv.GraphUpdateError, match="node type changed, at <drv.GraphNode empty") as caught:
        executable.update(other)
    assert caught.value.reason == "NODE_TYPE_CHANGED"
    assert caught.value.node == empty
    with pytest.raises(drv.GraphUpdateError, match="topology changed"):
        executable.update(drv.Graph(device))


def test_single_nodes_are_replaced_and_switched_off(device: drv.Device, module: drv.Module) -> None:
    memory, stream = drv.DeviceMemory(16, device), drv.Stream(device)
    fill = module.function("fill")
    graph, other = drv.Graph(device), drv.Graph(device)
    kernel = graph.add_kernel(fill, 1, 32, (memory, np.float32(1), np.int32(4)))
    memset = graph.add_memset(memory, 0, 8, after=[kernel])
    new_kernel = other.add_kernel(fill, 1, 32, (memory, np.float32(9), np.int32(4)))
    executable = graph.instantiate()
    executable.replace(kernel, new_kernel)
    executable.launch(stream)
    stream.synchronize()
    assert contents(memory, np.float32) == [0, 0, 9, 9]
    assert executable.is_enabled(memset)
    executable.set_enabled(memset, False)
    assert not executable.is_enabled(memset)
    executable.launch(stream)
    stream.synchronize()
    assert contents(memory, np.float32) == [9] * 4
    with pytest.raises(
        drv.InvalidValueError, match="kind 'memset' cannot be replaced by one of kind 'kernel'"
    ):
        executable.replace(memset, new_kernel)


def test_kernels_get_other_arguments(device: drv.Device, module: drv.Module) -> None:
    memory, other, stream = drv.DeviceMemory(16, device), drv.DeviceMemory(16, device), drv.Stream(device)
    fill = module.function("fill")
    graph = drv.Graph(device)
    kernel = graph.add_kernel(fill, 1, 32, (memory, np.float32(1), np.int32(4)))
    empty = graph.add_empty()
    executable = graph.instantiate()
    set_arguments = executable.arguments_of(kernel, fill, "Pfi")
    executable.launch(stream)
    set_arguments(other.address, 5.0, 4)
    executable.launch(stream)
    # What a launch was queued with stays its own.
    set_arguments(memory.address, 7.0, 2)
    executable.launch(stream)
    stream.synchronize()
    assert contents(memory, np.float32) == [7, 7, 1, 1]
    assert contents(other, np.float32) == [5] * 4
    # Another executable graph of it is as the graph is.
    graph.instantiate().launch(stream)
    stream.synchronize()
    assert contents(memory, np.float32) == [1] * 4
    with pytest.raises(drv.InvalidValueError, match="arguments of kernel 'fill'"):
        set_arguments(1, 2.0)
    with pytest.raises(drv.InvalidValueError, match="a node of kind 'empty' has no arguments"):
        executable.arguments_of(empty, fill, "Pfi")
    with pytest.raises(drv.InvalidValueError, match="takes 3 arguments, 2 were given"):
        executable.arguments_of(kernel, fill, "Pf")
    with pytest.raises(drv.InvalidValueError, match="launches another kernel than 'scale'"):
        executable.arguments_of(kernel, module.function("scale"), "PPdq")


@pytest.mark.simulator_only
def test_conditions(device: drv.Device) -> None:
    program = drv.compile_program(
        """
        extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(unsigned long long, unsigned);
        extern "C" __global__ void choose(unsigned long long condition, int *value) {
            cudaGraphSetConditional(condition, *value);
        }""",
        "compute_90",
    )
    choose = drv.Module(program.image, device).function("choose")
    value, out, stream = drv.DeviceMemory(4, device), drv.DeviceMemory(3, device), drv.Stream(device)
    graph = drv.Graph(device)
    chosen, which = graph.condition(), graph.condition(default=2)
    first = graph.add_kernel(choose, 1, 1, (chosen.handle, value))
    then, otherwise = graph.add_if(chosen, otherwise=True, after=[first])
    then.add_memset(out.address, 1, 1)
    otherwise.add_memset(out.address + 1, 1, 1)
    for number, body in enumerate(graph.add_switch(which, 3)):
        body.add_memset(out.address + 2, 10 + number, 1)
    executable = graph.instantiate()
    for start, expected in ((5, [1, 0, 12]), (0, [0, 1, 12])):
        drv.memset(value, start, 1, bits=32, stream=stream)
        drv.memset(out, 0, 3, stream=stream)
        executable.launch(stream)
        stream.synchronize()
        assert contents(out) == expected
    with pytest.raises(drv.InvalidValueError, match="count must be positive"):
        graph.add_switch(graph.condition(), 0)
    with pytest.raises(drv.NotSupportedError):
        then.add_callback(print)


def test_closing(device: drv.Device) -> None:
    graph = drv.Graph(device)
    executable = graph.instantiate()
    for each in (graph, executable):
        each.close()
        each.close()
    for use in (graph.instantiate, lambda: executable.launch(device.default_stream)):
        with pytest.raises(drv.InvalidHandleError, match="was closed"):
            use()


@pytest.mark.simulator_only
def test_dropped_graphs_give_their_handles_back(device: drv.Device) -> None:
    driver = device.runtime.driver
    graph = drv.Graph(device)
    graph.add_empty()
    executable = graph.instantiate()
    stream = drv.Stream(device)
    executable.launch(stream)
    del graph, executable
    gc.collect()
    stream.synchronize()
    assert not driver.graphs
    assert not driver.graph_nodes
    assert not driver.executables


def test_a_launch_in_a_capture_is_a_node(device: drv.Device) -> None:
    memory, stream = drv.DeviceMemory(4, device), drv.Stream(device)
    graph = drv.Graph(device)
    graph.add_memset(memory, 3, 4)
    executable = graph.instantiate()
    with drv.capture(stream) as capture:
        executable.launch(stream)
    assert [node.kind for node in capture.graph.nodes] == ["graph"]
    capture.graph.instantiate().launch(stream)
    stream.synchronize()
    assert contents(memory) == [3] * 4
