"""Numbers with their nouns, for what the tools print."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None, *, separator: str = "") -> str:
    """A number with its noun in singular or plural.

    Parameters
    ----------
    number : int
        How many.
    noun : str
        In singular.
    plural : str, optional
        Where it is not the singular with an "s".
    separator : str, default: ""
        What stands between groups of three digits.

    Examples
    --------
    >>> counted(1, "launch", "launches"), counted(1200, "byte"), counted(1200, "file", separator=",")
    ('1 launch', '1200 bytes', '1,200 files')
    """
    return f"{number:,}".replace(",", separator) + f" {noun if number == 1 else plural or f'{noun}s'}"
