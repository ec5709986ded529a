"""Systems of linear equations: square, triangular, and in the sense of least squares."""
