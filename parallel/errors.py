"""What goes wrong between ranks."""

from __future__ import annotations


class DistError(RuntimeError):
    """A distributed operation failed."""


class DistBackendError(DistError):
    """A collective failed: a rank died, left, did not come in time, or called another operation."""


class DistNetworkError(DistError):
    """A connection between ranks, or to the store, cannot be made or has broken."""


class DistStoreError(DistError):
    """The store by which ranks find each other refused, or had no answer in time."""
