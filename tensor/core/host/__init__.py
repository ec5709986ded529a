"""Memory of the host, for operations on CPU tensors."""
