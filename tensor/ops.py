"""``tensor.ops``: operators by namespace and name, ``tensor.ops.aten.add`` and those that programs register.

>>> tensor.ops.aten.add(tensor.ones(2), 1)
tensor([2., 2.])
>>> tensor.ops.nobody.did_this
Traceback (most recent call last):
AttributeError: '_OpNamespace' 'nobody' object has no attribute 'did_this': no operator nobody::did_this was registered by torch.library; compiled ones are not loaded
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .library.namespaces import Ops as _Ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


# Its attributes are looked up as the class says, and it stays the object that the import system knows.
_module: Any = sys.modules[__name__]
_module.__class__ = _Ops
_module.loaded_libraries = set()
