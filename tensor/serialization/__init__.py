"""Checkpoint files: :func:`save` and :func:`load`.

A checkpoint is a safetensors file. Its tensors have the names of their places (``model.conv.weight``), so that any
program that reads safetensors finds them; how they nest, and all that is no tensor, is JSON in the file's metadata.
Nothing in a file is ever run.

==================  ====================================================================
``structure``       nested values as JSON, and back
``blocks``          what is stored of tensors that share memory or lie unusually in it
``header``          the header of a safetensors file, read without trust
``writing``         files that are replaced whole or not at all
``classes``         the tensor classes that come back as such, which other layers announce
``saving``          ``save``
``loading``         ``load``, and where tensors go
==================  ====================================================================
"""

from .classes import keep_class
from .loading import load
from .saving import save

__all__ = ["keep_class", "load", "save"]
