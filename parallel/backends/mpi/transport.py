"""Collectives over MPI: the machine's own library, by way of mpi4py. On host memory, and on GPUs' where the library knows CUDA.

Every call is of a form that does not block, and is asked about until it is done or its deadline has come. MPI has no
way to take a collective back: what is given up keeps its memory, and the job is ended when the process exits with
such operations, since it could not leave MPI in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parallel.backends.device_arrays import DeviceArray
from parallel.backends.reductions import reduction
from parallel.groups.errors import DistBackendError

from . import process
from .operations import Operations
from .process import calls, library, subgroup, world
from .types import carrier, combines_on_devices, operation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from nvrtc_kernels.dtypes import dtype
    from parallel.backends.backend import Array
    from parallel.groups.reduce_op import ReduceOp


class MpiTransport:
    """The ranks of ``communicator``, an ``mpi4py.MPI.Intracomm``. See :class:`parallel.backends.backend.HostTransport`.

    Nothing else may use the communicator, which :meth:`close` frees. Half precision is combined in float32 and rounded
    once. Before each collective the ranks compare what they call, which MPI does not do.
    """

    name = "mpi"

    def __init__(self, communicator: Any) -> None:
        self._mpi = library()
        self._communicator = communicator
        self.rank: int = communicator.Get_rank()
        self.size: int = communicator.Get_size()
        self._operations = Operations(communicator)
        self._finish = self._operations.finish
        with calls:
            # Only this communicator has the attribute everywhere.
            self._largest_tag: int = self._mpi.COMM_WORLD.Get_attr(self._mpi.TAG_UB)

    def __repr__(self) -> str:
        return f"<MpiTransport rank {self.rank} of {self.size}>"

    def reaches_devices(self, op: ReduceOp | None, dtype: dtype) -> bool:
        """Whether the library reads and writes GPUs' memory itself, and can combine such elements there."""
        return process.reaches_devices() and (op is None or combines_on_devices(op, dtype.numpy))

    # Reductions

    def all_reduce(self, array: Array, op: ReduceOp, deadline: float) -> None:
        """See :meth:`HostTransport.all_reduce`."""
        self._reduce_with(f"all_reduce({op.name})", array, array, op, deadline, self._all_reduce)

    def _all_reduce(self, target: Array, source: Array, datatype: Any, operator: Any) -> Any:
        if target is source:
            return self._communicator.Iallreduce(self._mpi.IN_PLACE, [target, datatype], operator)
        return self._communicator.Iallreduce([source, datatype], [target, datatype], operator)

    def reduce(self, array: Array, dst: int, op: ReduceOp, deadline: float) -> None:
        """See :meth:`HostTransport.reduce`."""

        def start(target: Array, source: Array, datatype: Any, operator: Any) -> Any:
            if self.rank != dst:
                return self._communicator.Ireduce([source, datatype], None, operator, dst)
            buffer = self._mpi.IN_PLACE if target is source else [source, datatype]
            return self._communicator.Ireduce(buffer, [target, datatype], operator, dst)

        self._reduce_with(
            f"reduce({op.name}, dst={dst})", array, array, op, deadline, start, writes=self.rank == dst
        )

    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp, deadline: float) -> None:
        """See :meth:`HostTransport.reduce_scatter`."""

        def start(target: Array, source: Array, datatype: Any, operator: Any) -> Any:
            return self._communicator.Ireduce_scatter_block([source, datatype], [target, datatype], operator)

        self._reduce_with(f"reduce_scatter({op.name})", output, input, op, deadline, start)

    def _reduce_with(
        self,
        operation: str,
        output: Array,
        input: Array,
        op: ReduceOp,
        deadline: float,
        start: Callable[[Array, Array, Any, Any], Any],
        *,
        writes: bool = True,
    ) -> None:
        combine = reduction(op, input.dtype, self.size)
        self._operations.agree(operation, input, deadline)
        if not input.size:
            # Some of MPI's functions refuse empty buffers, and there is nothing to combine.
            return
        source: Any
        target: Any
        source, target = input, output
        if input.dtype.itemsize == 2 and input.dtype.kind not in "iu":
            source = input.astype(np.float32)
            target = source if output is input else np.empty(len(output), np.float32)
        datatype, operator = operation_of(self._mpi, op, source.dtype)
        self._finish(operation, lambda: start(target, source, datatype, operator), (source, target), deadline)
        if not writes:
            return
        with np.errstate(all="ignore"):
            if isinstance(target, DeviceArray):
                if combine.divisor > 1:
                    target.divide(combine.divisor)
                return
            if combine.divisor > 1:
                np.divide(target, target.dtype.type(combine.divisor), out=target)
            if target is not output:
                np.copyto(output, target, casting="same_kind")

    # Copies

    def broadcast(self, array: Array, src: int, deadline: float) -> None:
        """See :meth:`HostTransport.broadcast`."""
        operation, buffer = f"broadcast(src={src})", carrier(self._mpi, array)
        self._operations.agree(operation, array, deadline)
        self._finish(operation, lambda: self._communicator.Ibcast(buffer, src), (array,), deadline)

    def all_gather(self, output: Array, input: Array, deadline: float) -> None:
        """See :meth:`HostTransport.all_gather`."""
        self._operations.agree("all_gather", input, deadline)
        source, target = self._unaliased(input, output), carrier(self._mpi, output)
        self._finish(
            "all_gather",
            lambda: self._communicator.Iallgather(carrier(self._mpi, source), target),
            (source, output),
            deadline,
        )

    def gather(self, output: Array | None, input: Array, dst: int, deadline: float) -> None:
        """See :meth:`HostTransport.gather`."""
        operation = f"gather(dst={dst})"
        self._operations.agree(operation, input, deadline)
        source = input if output is None else self._unaliased(input, output)
        target = None if output is None else carrier(self._mpi, output)
        self._finish(
            operation,
            lambda: self._communicator.Igather(carrier(self._mpi, source), target, dst),
            (source, output),
            deadline,
        )

    def scatter(self, output: Array, input: Array | None, src: int, deadline: float) -> None:
        """See :meth:`HostTransport.scatter`."""
        operation = f"scatter(src={src})"
        self._operations.agree(operation, output, deadline)
        source = None if input is None else self._unaliased(input, output)
        buffer = None if source is None else carrier(self._mpi, source)
        self._finish(
            operation,
            lambda: self._communicator.Iscatter(buffer, carrier(self._mpi, output), src),
            (output, source),
            deadline,
        )

    def all_to_all(
        self,
        output: Array,
        input: Array,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        deadline: float,
    ) -> None:
        """See :meth:`HostTransport.all_to_all`."""
        self._operations.agree("all_to_all", input[:0], deadline)
        # Sizes differ between pairs of ranks, so each is told first.
        announced = np.array(input_counts, np.int64)
        expected = np.empty(self.size, np.int64)
        self._finish(
            "all_to_all",
            lambda: self._communicator.Ialltoall(carrier(self._mpi, announced), carrier(self._mpi, expected)),
            (announced, expected),
            deadline,
        )
        for other, (count, room) in enumerate(zip(expected.tolist(), output_counts, strict=True)):
            if count != room:
                raise self._operations.failed(
                    "all_to_all",
                    f"rank {other} sends {count} elements to rank {self.rank}, whose output has room for {room}",
                )
        source = self._unaliased(input, output)
        buffer, datatype = carrier(self._mpi, source)
        target, _ = carrier(self._mpi, output)
        self._finish(
            "all_to_all",
            lambda: self._communicator.Ialltoallv(
                [buffer, (list(input_counts), _starts(input_counts)), datatype],
                [target, (list(output_counts), _starts(output_counts)), datatype],
            ),
            (source, output),
            deadline,
        )

    # Between two ranks

    def send(self, array: Array, dst: int, tag: int, deadline: float) -> None:
        """See :meth:`HostTransport.send`."""
        self._check_tag(tag)
        buffer = carrier(self._mpi, array)
        self._finish(
            f"send(dst={dst}, tag={tag})",
            lambda: self._communicator.Isend(buffer, dst, tag),
            (array,),
            deadline,
            collective=False,
        )

    def recv(self, array: Array, src: int | None, tag: int, deadline: float) -> int:
        """See :meth:`HostTransport.recv`."""
        self._check_tag(tag)
        operation = f"recv(src={'any' if src is None else src}, tag={tag})"
        buffer = carrier(self._mpi, array)
        origin = self._mpi.ANY_SOURCE if src is None else src
        status = self._mpi.Status()
        self._finish(
            operation,
            lambda: self._communicator.Irecv(buffer, origin, tag),
            (array,),
            deadline,
            status=status,
            receives=True,
            collective=False,
        )
        sender: int = status.Get_source()
        count = status.Get_count(buffer[1])
        if count != len(array):
            raise DistBackendError(
                f"{operation}: rank {sender} sent {count} elements of {array.dtype.itemsize} bytes to rank {self.rank}, "
                f"which expected {len(array)}"
            )
        return sender

    def barrier(self, deadline: float) -> None:
        """See :meth:`HostTransport.barrier`."""
        # Nobody has what all call before all have called it.
        self._operations.agree("barrier", np.empty(0, np.uint8), deadline)

    # The end

    def close(self) -> None:
        """Free the communicator, unless operations are left in it. Idempotent."""
        self._operations.close()

    def abort(self) -> None:
        """Let the calls that wait fail, here alone: MPI cannot tell other ranks. Never blocks."""
        self._operations.abort(f"{self!r}: the process group was aborted")

    def _check_tag(self, tag: int) -> None:
        if not 0 <= tag <= self._largest_tag:
            raise ValueError(f"MPI's tags are 0 to {self._largest_tag}, and {tag} was given")

    def _unaliased(self, input: Any, output: Any) -> Any:
        """``input``, copied where it shares memory with ``output``, which MPI forbids."""
        if isinstance(input, DeviceArray):
            return input.copy() if input.overlaps(output) else input
        return input.copy() if np.may_share_memory(input, output) else input


def world_transport(timeout: timedelta) -> MpiTransport:
    """A transport of all ranks of the job, which all call this. See :func:`world`."""
    communicator = world(timeout)
    return MpiTransport(subgroup(communicator, range(communicator.Get_size()), timeout))


def _starts(counts: Sequence[int]) -> list[int]:
    return [sum(counts[:rank]) for rank in range(len(counts))]
