"""Collectives over the machine's MPI library, by way of mpi4py."""
