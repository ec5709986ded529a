"""Which version of PyTorch is followed, as text that compares as a version."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from tensor import version

if TYPE_CHECKING:
    from collections.abc import Callable

#: The version of PyTorch whose behaviour decides.
FOLLOWED = "2.13.0"

_FORM = re.compile(
    r"\s*v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<stage>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<stage_number>\d*))?"
    r"(?P<post>[-_.]?post[-_.]?(?P<post_number>\d*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*",
    re.IGNORECASE,
)
_STAGES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_Key = tuple[Any, ...]


class TorchVersion(str):
    """A version as text, which compares with texts, ``packaging.version.Version`` and tuples of numbers as versions do.

    What has not the form of a version is compared as text.

    >>> TorchVersion("1.10.0") > "1.9"
    True
    >>> TorchVersion("2.13.0+local") >= (2, 13)
    True
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, operator.le)

    def __eq__(self, other: object) -> bool:
        return self._compared(other, operator.eq)

    def __ne__(self, other: object) -> bool:
        return self._compared(other, operator.ne)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, operator.ge)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, operator.gt)

    def _compared(self, other: Any, how: Callable[[Any, Any], bool]) -> bool:
        text = ".".join(map(str, other)) if isinstance(other, (tuple, list)) else str(other)
        mine, theirs = _key(str(self)), _key(text)
        return how(str(self), other) if mine is None or theirs is None else how(mine, theirs)

    __hash__ = str.__hash__


def _key(text: str) -> _Key | None:
    """A tuple that sorts as the version does by PEP 440; None if ``text`` is none."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    release = [int(part) for part in match["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    last: _Key = (1,)
    stage: _Key = last
    if match["stage"]:
        word = match["stage"].lower()
        stage = (0, _STAGES.get(word, word), int(match["stage_number"] or 0))
    elif match["dev"] and not match["post"]:
        stage = (-1,)
    post = (1, int(match["post_number"] or 0)) if match["post"] else (0,)
    dev = (0, int(match["dev_number"] or 0)) if match["dev"] else last
    local: _Key = ()
    if match["local"]:
        parts = re.split(r"[-_.]", match["local"].lower())
        local = tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)
    return tuple(release), stage, post, dev, bool(local), local


#: What ``torch.__version__`` says: whose behaviour is followed, and by what.
TORCH_VERSION = TorchVersion(f"{FOLLOWED}+graphroot.{version.__version__}")
