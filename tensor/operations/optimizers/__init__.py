"""Steps of optimizers, gradient clipping, and copies of many tensors in one launch."""
