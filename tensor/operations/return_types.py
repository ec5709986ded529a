"""Types of results with several tensors: named tuples that print as PyTorch's do, one for each function.

They are found in :mod:`tensor.return_types`.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from nvrtc_kernels import printed_names

_R = TypeVar("_R", bound="tuple[Any, ...]")

#: All of them by name.
return_types: dict[str, type[Any]] = {}


def return_type(name: str, fields: type[_R]) -> type[_R]:
    """The type of what the function ``name`` returns: a class of its own, derived from a named tuple."""
    named: Any = fields
    path = name.replace("linalg_", "linalg.", 1)
    members = {
        "__slots__": (),
        "__module__": "tensor.return_types",
        "__doc__": (
            f"{fields.__doc__}\n\nA named tuple of {', '.join(named._fields)}: what ``tensor.{path}()`` returns, whose "
            "documentation says\nshapes and dtypes."
        ),
        "__repr__": _text,
    }
    return_types[name] = result = type(name, (fields,), members)
    return cast("type[_R]", result)


def _text(self: Any) -> str:
    shown = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{printed_names.library}.return_types.{type(self).__name__}(\n{shown})"
