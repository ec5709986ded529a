"""CUDA graphs: work and its dependencies, captured or made node by node, and launched as a whole.

==================  ================================================================
``graph``           nodes, edges, order, clones
``nested``          graphs inside nodes: child graphs, and bodies of conditional nodes
``capture``         streams whose work becomes nodes
``chains``          which nodes follow each other on one stream at a launch
``executable``      a graph as it was when it was instantiated
``launching``       a launch: its nodes, queued
``bodies``          bodies of conditional nodes as they run
``graph_memory``    memory that nodes allocate and free
``update``          new parameters for all nodes of an executable graph
``dot``             a graph as text for Graphviz
``book``            handles, and what belongs to what
==================  ================================================================
"""
