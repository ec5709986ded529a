"""In whose name dtypes, sizes and the like are printed: ``tensor``, as in ``tensor.float32``.

A program that runs as PyTorch's has it set to ``torch`` (:mod:`tensor.as_torch`), since such programs take these texts
apart, and names of modules in errors are PyTorch's then.
"""

from __future__ import annotations

import re

library = "tensor"

_OURS = re.compile(r"(?<![\w./])(tensor|nn\.optim|nn\.fx|nn|parallel)(?=\.\w|')")
_THEIRS = {
    "tensor": "torch",
    "nn.optim": "torch.optim",
    "nn.fx": "torch.fx",
    "nn": "torch.nn",
    "parallel": "torch.distributed",
}


def printed(text: str) -> str:
    """``text`` with the names of modules in it as the program knows them.

    >>> printed("use tensor.cat")
    'use tensor.cat'
    """
    if library == "tensor":
        return text
    return _OURS.sub(lambda match: _THEIRS[match[1]], text)
