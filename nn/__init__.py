"""Neural network modules on top of `tensor`."""
