"""The graph while it grows: modes, nodes, what they save, hooks, writes in place."""
