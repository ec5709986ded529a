"""Parameters, gradients and states of optimizers divided among the ranks of a group."""
