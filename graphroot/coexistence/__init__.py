"""Our packages beside those of a program that have the same names: ``tools``, ``nn``, ``parallel``, ``drv``, ``tensor``.

Their names are common ones, and whoever installs graphroot has them beside the folders of every project. Neither harms
the other:

- A folder of the program's without ``__init__.py`` shares the name: its files are importable beside ours, and where both
  have a file, the program's is what ``import`` gives.
- A regular package of the program's, or a file, hides ours. Ours find each other nevertheless, and so do programs that
  know them by other names: ``torch.nn``, ``tensor.nn``, the command.

``share`` is the last line of every package of ours. As soon as a name is taken by both, everything of ours is loaded,
whose imports by name are done then, and makes way in ``sys.modules`` for the program's (``make_way``); ``own`` finds a
module of ours in any case. Where no name is taken, nothing happens but a look into the folders of ``sys.path``.

This package needs nothing but the standard library: it is the lowest of all layers.
"""

import sys as _sys

from .finder import NEEDS_NO_OTHERS, PACKAGES, OwnPackages, being_loaded, is_ours
from .taken_names import (
    loaded,
    make_way,
    neighbours,
    own,
    own_names,
    own_spec,
    remark_on,
    set_aside,
    share,
)

__all__ = [
    "PACKAGES",
    "is_ours",
    "loaded",
    "make_way",
    "neighbours",
    "own",
    "own_names",
    "own_spec",
    "remark_on",
    "share",
]

_sys.meta_path.insert(0, OwnPackages(set_aside))
if being_loaded() not in ([], [NEEDS_NO_OTHERS]):
    # The first package of ours that the program imports; the finder was not there yet.
    set_aside()
