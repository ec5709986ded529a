"""Memory and threads of the host, for operations on CPU tensors."""
