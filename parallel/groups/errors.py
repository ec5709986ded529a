"""Errors of operations between ranks."""

from __future__ import annotations


class DistError(RuntimeError):
    """A distributed operation failed.

    Base class of the other errors here, and a ``RuntimeError``.
    """


class DistBackendError(DistError):
    """A collective failed: a rank died, left, did not call it within the timeout, or called another operation.

    The message names the operation and, where they are known, the ranks.
    """


class DistNetworkError(DistError):
    """A connection between ranks, or to a store, cannot be established or has broken.

    The message names the address. The group that the connection belonged to cannot be used any more.
    """


class DistStoreError(DistError):
    """A store refused a request, or a key was not set within the timeout.

    The message names the keys. The store itself can be used on.
    """
