"""Sparse tensors: how they are made and converted, and the rules of operations that take them."""
