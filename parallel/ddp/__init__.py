"""Training with one process per device: gradients averaged in buckets while the backward pass runs."""
