"""Tensors with PyTorch semantics on CUDA devices."""
