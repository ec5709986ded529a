"""Compilation: a function's operations, recorded once, run as a flat list with chains of them fused.

=============  ==============================================================================================
``tape``       records what a function does to tensors on a device: each plan that it runs, on which tensors
``reading``    what else the function reads: globals, closures, attributes; guards over it
``elements``   pointwise operations by their parts, and the text of a kernel that computes several
``fusion``     chains of pointwise operations as one, its kernel written from the expressions of their rows
``rows``       normalizations and softmax with the chains before and after them as one
``program``    a tape as a flat list of calls over numbered tensors
``compiled``   what :func:`tensor.compile` returns: a program for each signature, or the function itself
=============  ==============================================================================================
"""

from .compiled import CompilationError, Compiled

__all__ = ["CompilationError", "Compiled"]
