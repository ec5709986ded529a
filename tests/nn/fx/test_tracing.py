"""Symbolic tracing gives PyTorch's graphs and code, and modules that compute what the traced ones do."""

from __future__ import annotations

import copy
import functools
import operator
import pickle
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import nn
import nn.fx
import tensor
from nn.fx._symbolic_trace import is_fx_tracing
from nn.fx.proxy import TraceError
from tests.tensor.torch_names.programs import run, run_on_pytorch

from .models import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path


class Block(nn.Module):
    """A function kept as an attribute, a parameter, a buffer and submodules."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(tensor.rand(4))
        self.register_buffer("shift", tensor.rand(4))
        self.linear = nn.Linear(4, 4)
        self.act = nn.functional.gelu
        self.body = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

    def forward(self, x: Any) -> Any:
        y = self.act(self.linear(x * self.scale + self.shift))
        return self.body(functools.partial(nn.functional.leaky_relu, negative_slope=0.2)(y))


def test_values_and_gradients_are_the_modules() -> None:
    block, x = Block(), tensor.rand(5, 4)
    traced = nn.fx.symbolic_trace(block)
    assert [(each.op, each.target) for each in traced.graph.nodes][1:] == [
        ("get_attr", "scale"),
        ("call_function", operator.mul),
        ("get_attr", "shift"),
        ("call_function", operator.add),
        ("call_module", "linear"),
        ("call_function", nn.functional.gelu),
        ("call_function", nn.functional.leaky_relu),
        ("call_module", "body.0"),
        ("call_module", "body.1"),
        ("output", "output"),
    ]
    assert traced.scale is block.scale
    block.eval(), traced.eval()
    assert tensor.equal(traced(x), block(x))
    traced(x).sum().backward()
    expected = tensor.autograd.grad(block(x).sum(), list(block.parameters()))
    for each, gradient in zip(block.parameters(), expected, strict=True):
        assert tensor.equal(each.grad, gradient)


def test_functions_are_as_before_when_tracing_ends_or_fails() -> None:
    before = tensor.relu.__code__, tensor.relu.__kwdefaults__, nn.Module.__call__, nn.Module.__getattr__

    def branches(x: Any) -> Any:
        return tensor.relu(x) if x.sum() > 0 else x

    with pytest.raises(TraceError, match="inputs to control flow"):
        nn.fx.symbolic_trace(branches)
    assert (
        tensor.relu.__code__,
        tensor.relu.__kwdefaults__,
        nn.Module.__call__,
        nn.Module.__getattr__,
    ) == before
    assert not is_fx_tracing()


def test_another_thread_computes_while_one_traces() -> None:
    inside, done = threading.Event(), threading.Event()
    results = []

    def compute() -> None:
        inside.wait(10)
        results.append(tensor.relu(tensor.tensor([-1.0, 1.0])).tolist())
        done.set()

    def traced(x: Any) -> Any:
        inside.set()
        assert done.wait(10) and is_fx_tracing()
        return tensor.relu(x)

    thread = threading.Thread(target=compute)
    thread.start()
    graph = nn.fx.symbolic_trace(traced)
    thread.join()
    assert results == [[0.0, 1.0]]
    assert graph(tensor.tensor([-2.0])).tolist() == [0.0]


def test_operations_are_mapped_while_something_is_traced_and_afterwards() -> None:
    # In a process of its own, in which the trace is the first to look at the operations.
    program = """
import nn.fx, tensor
own = tensor.sin.__code__, tensor.relu.__code__
def mapped(x):
    return tensor.func.vmap(lambda a: a.sin() * 2)(x)
def traced(x):
    return tensor.relu(x) + mapped(tensor.ones(3))
graph = nn.fx.symbolic_trace(traced)
print(graph(tensor.zeros(3)).tolist() == mapped(tensor.ones(3)).tolist() == (tensor.ones(3).sin() * 2).tolist())
inner = []
def tracing(a):
    inner.append(nn.fx.symbolic_trace(lambda x: tensor.relu(x) * 2))
    return inner[-1](a).cos()
print(tensor.func.vmap(tracing)(tensor.zeros(2)).tolist(), len(inner[0].graph.nodes))
print((tensor.sin.__code__, tensor.relu.__code__) == own)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:3] == ["True", "[1.0, 1.0] 4", "True"], done.stderr


def test_what_tracing_cannot_know_is_an_error() -> None:
    for program, words in (
        (lambda x: sorted(x), "cannot be iterated"),
        (lambda x: len(x), "'len' is not supported"),
        (lambda x: object() if x is None else tensor.add(x, object()), "argument of type"),
    ):
        with pytest.raises((TraceError, RuntimeError, NotImplementedError), match=words):
            nn.fx.symbolic_trace(program)


def test_concrete_arguments() -> None:
    def program(x: Any, negate: bool = False) -> Any:
        return -x if negate else x + 1

    traced = nn.fx.symbolic_trace(program, {"negate": True})
    assert traced(tensor.tensor([2.0]), True).tolist() == [-2.0]
    with pytest.raises(AssertionError, match="specialized to have value True"):
        traced(tensor.tensor([2.0]), False)


def test_copies_and_pickles() -> None:
    traced = nn.fx.symbolic_trace(Block().eval())
    x = tensor.rand(2, 4)
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert other.code == traced.code and type(other).__name__ == "Block"
        assert other.scale is not traced.scale
        assert tensor.equal(other(x), traced(x))


def test_graphs_are_changed() -> None:
    traced = nn.fx.symbolic_trace(lambda x: tensor.relu(x) + 1)
    graph = traced.graph
    relu = graph.find_nodes(op="call_function", target=tensor.relu)[0]
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(relu)
    with graph.inserting_after(relu):
        new = graph.call_function(tensor.neg, (relu.args[0],))
    relu.replace_all_uses_with(new)
    assert graph.eliminate_dead_code()
    graph.lint()
    traced.recompile()
    assert traced(tensor.tensor([3.0])).tolist() == [-2.0]
    new.args = (1,)
    assert not graph.find_nodes(op="placeholder")[0].users


def test_lint_finds_uses_before_definitions() -> None:
    graph = nn.fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(tensor.relu, (x,))
    graph.output(first)
    x.prepend(first)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()


def test_leaves_are_what_the_tracer_says() -> None:
    class Through(nn.fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return False

    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    graph = Through().trace(model)
    assert [each.op for each in graph.nodes] == [
        "placeholder",
        "get_attr",
        "get_attr",
        "call_function",
        "call_function",
        "output",
    ]
    x = tensor.rand(4, 2)
    assert tensor.equal(nn.fx.GraphModule(model, graph)(x), model(x))


def test_interpreters_and_transformers() -> None:
    traced, x = nn.fx.symbolic_trace(Block().eval()), tensor.rand(3, 4)
    seen = []

    class Watching(nn.fx.Interpreter):
        def run_node(self, n: nn.fx.Node) -> Any:
            seen.append(n.name)
            return super().run_node(n)

    assert tensor.equal(Watching(traced).run(x), traced(x))
    assert seen == [each.name for each in traced.graph.nodes]
    assert nn.fx.Transformer(traced).transform().code == traced.code


@pytest.mark.parity
def test_pytorchs_graph_and_code(tmp_path: Path) -> None:
    program = (
        PROGRAM
        + """
print(traced.graph)
# PyTorch writes a line for each function of `fx.wrap`, so that its pickles of code know them.
print("\\n".join(line for line in traced.code.splitlines() if line and "_symbolic_trace.wrap(" not in line))
class Flag(nn.Module):
    def forward(self, x, *args, flag: bool = False, nothing=None, **kwargs):
        return (-x if flag else x) + args[0] * kwargs["scale"]
print(fx.symbolic_trace(Flag(), concrete_args={"flag": True, "nothing": None}).graph)
out = traced(x)
(out["normal"].sum() + out["joined"].sum() + out["product"].sum()).backward()
for value in (*out.values(), *(each.grad for each in model.parameters())):
    print([f"{each:.4g}" for each in torch.as_tensor(value).detach().double().flatten().tolist()])
"""
    )
    assert run(tmp_path, f"import tensor.as_torch\n{program}") == run_on_pytorch(tmp_path, program)
