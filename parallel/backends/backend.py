"""The two seams of a process group: what carries tensors between ranks, and what carries host arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    import tensor
    from nvrtc_kernels.dtypes import dtype
    from parallel.groups.reduce_op import ReduceOp
    from parallel.groups.works import Work

    Array = NDArray[np.generic[Any]]


class Backend(Protocol):
    """Collectives of one group on tensors, as ``nccl`` and the host backends offer them.

    The callers (:mod:`parallel.groups.collectives.tensor_collectives`) have checked devices, dtypes, sizes and ranks.
    Every tensor is contiguous, and ranks are ranks of the group. A method queues the operation and returns at once;
    operations of a group run in the order in which they were queued. A "flat" tensor holds the chunks of all ranks one
    after another, in the order of the ranks: chunks of ``N`` elements on ``size`` ranks are ``(size * N,)``.

    A work's ``wait()`` raises :class:`parallel.DistBackendError` where the operation failed, as when another rank has
    gone, or is not there in time. Operations of a group that was closed or aborted raise it at once.
    """

    name: str
    rank: int
    size: int

    def all_reduce(self, tensor: tensor.Tensor, op: ReduceOp) -> Work:
        """Replace ``tensor`` by the combination of every rank's.

        Parameters
        ----------
        tensor : Tensor
            Input and output, of any shape; shape and dtype are the same on all ranks.
        op : ReduceOp
            One for the dtype, as :class:`parallel.ReduceOp` says.
        """
        ...

    def reduce(self, tensor: tensor.Tensor, dst: int, op: ReduceOp) -> Work:
        """As :meth:`all_reduce`, on rank ``dst`` alone; the tensors of the others keep their values."""
        ...

    def broadcast(self, tensor: tensor.Tensor, src: int) -> Work:
        """Replace ``tensor`` by rank ``src``'s."""
        ...

    def all_gather(self, output: tensor.Tensor, input: tensor.Tensor) -> Work:
        """Fill the flat ``output``, ``(size * N,)``, with the ``input`` of every rank, N elements on each."""
        ...

    def reduce_scatter(self, output: tensor.Tensor, input: tensor.Tensor, op: ReduceOp) -> Work:
        """Fill ``output`` with this rank's chunk of the combination of every rank's flat ``input``.

        Parameters
        ----------
        output : Tensor
            N elements.
        input : Tensor
            ``size * N`` elements of the same dtype.
        op : ReduceOp
            As for :meth:`all_reduce`.
        """
        ...

    def gather(self, output: tensor.Tensor | None, input: tensor.Tensor, dst: int) -> Work:
        """Fill the flat ``output`` of rank ``dst``, ``(size * N,)`` (None elsewhere), with every rank's N elements."""
        ...

    def scatter(self, output: tensor.Tensor, input: tensor.Tensor | None, src: int) -> Work:
        """Fill ``output``, N elements, with this rank's chunk of rank ``src``'s ``(size * N,)`` (None elsewhere)."""
        ...

    def all_to_all(
        self,
        output: tensor.Tensor,
        input: tensor.Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
    ) -> Work:
        """Send chunks of ``input`` to all ranks, and fill ``output`` with the chunks that they send.

        Parameters
        ----------
        output, input : Tensor
            Of one dtype, with as many elements as their counts have in sum.
        output_counts : sequence of int
            By rank, how many elements come from it: what it has in ``input_counts`` for this one.
        input_counts : sequence of int
            By rank, how many elements go to it. Counts may be 0.
        """
        ...

    def send(self, tensor: tensor.Tensor, dst: int, tag: int) -> Work:
        """Send ``tensor`` to rank ``dst``, which receives it with the same ``tag``."""
        ...

    def recv(self, tensor: tensor.Tensor, src: int | None, tag: int) -> Work:
        """Fill ``tensor`` from rank ``src``, or from any (None); the work's ``source_rank()`` says which.

        Its size and dtype are those of the tensor that is sent.

        Raises
        ------
        ValueError
            If ``src`` is None, and the backend cannot receive from any rank, as NCCL cannot.
        """
        ...

    def barrier(self) -> Work:
        """Done when every rank has called it."""
        ...

    def close(self) -> None:
        """Finish what is queued and release everything. Idempotent."""
        ...

    def abort(self) -> None:
        """Cancel queued operations: their works fail, and connections are closed. Never blocks."""
        ...


class HostTransport(Protocol):
    """Blocking collectives of one group on host memory; ``gloo`` (sockets) and ``mpi`` are two.

    Arrays are one-dimensional and contiguous; half precision types are ``ml_dtypes``' and NumPy's. Collectives
    are called from one thread, in the same order on every rank; ``send`` and ``recv`` may be called from other threads
    meanwhile. ``deadline`` is a ``time.monotonic()`` second, after which the call raises
    :class:`parallel.DistBackendError` with the operation and the ranks it waited for; so it does when another rank
    has gone. Arrays in a GPU's memory come only where ``reaches_devices`` says so. What the arguments are, and how many
    elements they have, is as :class:`Backend` says of tensors.
    """

    name: str
    rank: int
    size: int

    def reaches_devices(self, op: ReduceOp | None, dtype: dtype) -> bool:
        """Whether arrays may be :class:`parallel.backends.device_arrays.DeviceArray`, for an operation that combines by ``op``."""
        ...

    def all_reduce(self, array: Array, op: ReduceOp, deadline: float) -> None: ...

    def reduce(self, array: Array, dst: int, op: ReduceOp, deadline: float) -> None: ...

    def broadcast(self, array: Array, src: int, deadline: float) -> None: ...

    def all_gather(self, output: Array, input: Array, deadline: float) -> None: ...

    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp, deadline: float) -> None: ...

    def gather(self, output: Array | None, input: Array, dst: int, deadline: float) -> None: ...

    def scatter(self, output: Array, input: Array | None, src: int, deadline: float) -> None: ...

    def all_to_all(
        self,
        output: Array,
        input: Array,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        deadline: float,
    ) -> None: ...

    def send(self, array: Array, dst: int, tag: int, deadline: float) -> None: ...

    def recv(self, array: Array, src: int | None, tag: int, deadline: float) -> int:
        """Fill ``array`` from rank ``src`` (None: any), and return the rank, in the group, that sent it."""
        ...

    def barrier(self, deadline: float) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...
