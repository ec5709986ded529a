"""Products of matrices and vectors, linear maps, contractions, distances."""
