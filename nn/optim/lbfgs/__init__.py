"""L-BFGS, and the line search of its steps."""

from .lbfgs import LBFGS

__all__ = ["LBFGS"]
