"""Factorisations of matrices: Cholesky, LU, LDL, QR, eigenvalues, singular values."""
