"""Driver calls about compiled code: modules, libraries, kernels and their parameters."""
