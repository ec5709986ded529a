"""Collectives with devices that are not there: how long they take is worked out by whoever describes the network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommunicationCost:
    """What a collective takes; the cost of a library call that computes nothing.

    Attributes
    ----------
    seconds : float
        How long it takes.
    bytes_moved : int
        Bytes of the tensor that it is about.
    link : str
        What it is sent over: what shares that waits, and the multiprocessors are free.
    """

    seconds: float
    bytes_moved: int
    link: str
