"""The operations of process groups, on tensors and on Python objects."""
