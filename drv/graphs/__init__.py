"""CUDA graphs: work that is recorded once and launched as a whole, again and again."""

from .capture import Capture, capture
from .executable import ExecutableGraph
from .graph import Graph
from .nodes import Condition, GraphNode

__all__ = ["Capture", "Condition", "ExecutableGraph", "Graph", "GraphNode", "capture"]
