"""Error, gamma and Bessel functions, and orthogonal polynomials."""
