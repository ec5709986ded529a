"""Programs of the command ``graphroot``, which ``python -m tools.NAME`` runs, too."""

from graphroot.coexistence import share as _share

_share(__name__)
