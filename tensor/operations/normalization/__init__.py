"""Batch, layer, group and RMS normalization, and softmax."""
