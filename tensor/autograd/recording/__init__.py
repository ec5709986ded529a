"""The graph while it grows: nodes, what they save, hooks, views, writes in place."""
