"""Symbolic tracing: a module's ``forward`` as a graph that can be read, changed, printed as Python and run.

====================  ==============================================================================================
``node``              one step of a graph
``graph``             the steps in their order
``graph_code``        a graph as Python source
``graph_module``      a module whose ``forward`` is that source
``proxy``             values that record what is done with them
``interception``      how functions of :mod:`tensor` and :mod:`nn.functional` notice such values
``_symbolic_trace``   tracing a module or a function
``interpreter``       running a graph step by step
====================  ==============================================================================================
"""

from tensor.core.names.absent import hints as _hints

from ._symbolic_trace import Tracer, symbolic_trace, wrap
from .graph import Graph
from .graph_code import CodeGen
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

__getattr__ = _hints(__name__)
