"""Views, and tensors put together, repeated, or rearranged."""
