"""New tensors: of a shape, from data, of another dtype or device, shared with other libraries."""
