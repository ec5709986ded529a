"""Driver calls about graphs: capture, nodes, executable graphs, their memory, user objects."""
