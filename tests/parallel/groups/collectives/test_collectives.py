"""Every collective, on the CPU and on simulated devices, at once and later, of every layout and type."""

from __future__ import annotations

import importlib.util
import os
import pickle
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import parallel
import tensor
from nvrtc_kernels import dtypes
from parallel import ReduceOp
from tests.parallel.jobs import PLACES, joined, use
from tests.parallel.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = [name for name, _ in PLACES]


class _Forms:
    """Gives tensors of one value in every layout, and calls collectives in every form."""

    def __init__(self, device: str, strided: bool, async_op: bool) -> None:
        self.device = device
        self.strided = strided
        self.async_op = async_op

    def of(self, values: Any) -> Any:
        """A tensor of shape ``(N, 2)`` with the given values."""
        x = tensor.tensor(values, dtype=tensor.float32, device=self.device)
        return self.empty(x.shape).copy_(x)

    def empty(self, shape: Any) -> Any:
        """A tensor of undefined values."""
        if not self.strided:
            return tensor.empty(shape, device=self.device)
        # Every second column of a transposed tensor, away from its storage's start.
        return tensor.full((2 * shape[1] + 1, shape[0]), -1.0, device=self.device).t()[:, 1::2]

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Call it, and wait."""
        work = function(*arguments, async_op=self.async_op, **options)
        if self.async_op:
            assert work.wait()
            if self.device == "cuda":
                tensor.cuda.synchronize()
            assert work.is_completed()
            assert work.is_success()
        else:
            assert work is None


def _rows(rank: int, count: int = 3) -> list[list[float]]:
    return [[rank * 100.0 + row, rank * 100.0 + row + 0.5] for row in range(count)]


def _sum(size: int) -> list[list[float]]:
    each = [_rows(rank) for rank in range(size)]
    return [[sum(rows[row][column] for rows in each) for column in range(2)] for row in range(3)]


def _every_collective(rank: int, size: int, path: str, place: str) -> None:
    device = use(place)
    with joined(rank, size, path):
        # Each takes a while on simulated devices.
        every = [(False, False), (False, True), (True, False), (True, True)]
        for strided, async_op in every if place in ("cpu", "lazy") else every[1::2]:
            forms = _Forms(device, strided, async_op)
            _reductions(forms, rank, size)
            _copies(forms, rank, size)
            _exchanges(forms, rank, size)
        if device == "cuda":
            _streams(rank, size)


def _reductions(forms: _Forms, rank: int, size: int) -> None:
    x = forms.of(_rows(rank))
    forms.call(parallel.all_reduce, x)
    assert (x + 0).tolist() == _sum(size)
    x = forms.of(_rows(rank))
    forms.call(parallel.all_reduce, x, ReduceOp.AVG)
    assert (x + 0).tolist() == [[each / size for each in row] for row in _sum(size)]
    for op, expected in ((ReduceOp.MAX, _rows(size - 1)), (ReduceOp.MIN, _rows(0))):
        x = forms.of(_rows(rank))
        forms.call(parallel.all_reduce, x, op=op)
        assert (x + 0).tolist() == expected
    x = forms.of(_rows(rank))
    forms.call(parallel.reduce, x, 1)
    assert (x + 0).tolist() == (_sum(size) if rank == 1 else _rows(rank))
    # Each rank gives every rank its rows; the results are of this rank.
    argument = [forms.of([[rank + to, rank * to]]) for to in range(size)]
    out = forms.empty((1, 2))
    forms.call(parallel.reduce_scatter, out, argument)
    expected = [[sum(each + rank for each in range(size)), sum(each * rank for each in range(size))]]
    assert (out + 0).tolist() == expected
    out = forms.empty((1, 2))
    forms.call(parallel.reduce_scatter_tensor, out, forms.of([[rank + to, rank * to] for to in range(size)]))
    assert (out + 0).tolist() == expected


def _copies(forms: _Forms, rank: int, size: int) -> None:
    x = forms.of(_rows(rank))
    forms.call(parallel.broadcast, x, src=size - 1)
    assert (x + 0).tolist() == _rows(size - 1)
    outs = [forms.empty((3, 2)) for _ in range(size)]
    forms.call(parallel.all_gather, outs, forms.of(_rows(rank)))
    assert [(each + 0).tolist() for each in outs] == [_rows(each) for each in range(size)]
    # Places that lie one after another are filled themselves.
    flat = forms.empty((3 * size, 2))
    forms.call(parallel.all_gather, list(flat.chunk(size)), forms.of(_rows(rank)))
    everything = [row for each in range(size) for row in _rows(each)]
    assert (flat + 0).tolist() == everything
    flat = forms.empty((3 * size, 2))
    forms.call(parallel.all_gather_into_tensor, flat, forms.of(_rows(rank)))
    assert (flat + 0).tolist() == everything
    outs = [forms.empty((3, 2)) for _ in range(size)]
    forms.call(parallel.gather, forms.of(_rows(rank)), outs if rank == 1 else None, dst=1)
    if rank == 1:
        assert [(each + 0).tolist() for each in outs] == [_rows(each) for each in range(size)]
    out = forms.empty((3, 2))
    argument = [forms.of(_rows(each)) for each in range(size)] if rank == 0 else None
    forms.call(parallel.scatter, out, argument)
    assert (out + 0).tolist() == _rows(rank)


def _exchanges(forms: _Forms, rank: int, size: int) -> None:
    # Rank r sends rank t a tensor of r + 1 rows.
    argument = [forms.of([[10.0 * rank + to, row] for row in range(rank + 1)]) for to in range(size)]
    outs = [forms.empty((each + 1, 2)) for each in range(size)]
    forms.call(parallel.all_to_all, outs, argument)
    expected = [[[10.0 * each + rank, row] for row in range(each + 1)] for each in range(size)]
    assert [(each + 0).tolist() for each in outs] == expected
    out = forms.empty((sum(range(1, size + 1)), 2))
    together = forms.of([row for each in argument for row in (each + 0).tolist()])
    splits = [[each + 1 for each in range(size)], [rank + 1] * size]
    forms.call(parallel.all_to_all_single, out, together, *splits)
    assert (out + 0).tolist() == [row for each in expected for row in each]
    out = forms.empty((size, 2))
    forms.call(parallel.all_to_all_single, out, forms.of([[rank, to] for to in range(size)]))
    assert (out + 0).tolist() == [[each, rank] for each in range(size)]
    forms.call(parallel.barrier)


def _streams(rank: int, size: int) -> None:
    side = tensor.cuda.Stream()
    with tensor.cuda.stream(side):
        x = tensor.full((1000,), 1.0 + rank, device="cuda")
        x.mul_(2)
        work = parallel.all_reduce(x, async_op=True)
        # The host goes on; what follows on the stream does not touch the tensor.
        y = tensor.full((1000,), 5.0, device="cuda")
        assert work is not None
        work.wait()
        y.add_(x)
    side.synchronize()
    assert y.tolist() == [5.0 + size * (size + 1)] * 1000
    # Memory that is dropped while it is on its way is not handed out.
    works = []
    for count in range(5):
        z = tensor.full((1000,), float(count), device="cuda")
        works.append(parallel.all_reduce(z, async_op=True))
        del z
        tensor.full((1000,), -1.0, device="cuda")
    for count, each in enumerate(works):
        assert each is not None
        assert each.result()[0].tolist() == [float(size * count)] * 1000


@pytest.mark.parametrize("place", NAMES)
def test_every_collective(tmp_path: Path, place: str) -> None:
    run(_every_collective, 3 if place in ("cpu", "lazy") else 2, str(tmp_path / "store"), place)


STORED = [each.name for each in dtypes.STORAGE_ONLY]
REAL = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]


def _every_type(rank: int, size: int, path: str, place: str) -> None:
    device = use(place)
    with joined(rank, size, path):
        for name in [*REAL, "bool", "complex64", *STORED]:
            dtype = getattr(tensor, name)
            x = tensor.tensor([rank + 1, 2, 0], device=device).to(dtype)
            out = tensor.empty(3 * size, dtype=dtype, device=device)
            parallel.all_gather_into_tensor(out, x)
            expected = tensor.tensor([[each + 1, 2, 0] for each in range(size)]).to(dtype).flatten()
            assert tensor.equal(out.cpu(), expected), name
            if dtype.is_storage_only:
                with pytest.raises(NotImplementedError, match="ReduceOp.SUM.*not implemented for"):
                    parallel.all_reduce(x)
                parallel.broadcast(x, 0)
                assert x.tolist() == [1, 2, 0]
            if name in REAL:
                for op, values in ((ReduceOp.SUM, [3, 4, 0]), (ReduceOp.PRODUCT, [2, 4, 0])):
                    y = x.clone()
                    parallel.all_reduce(y, op)
                    assert y.dtype is dtype
                    assert y.tolist() == values, (name, op)
                y = x.clone()
                parallel.all_reduce(y, ReduceOp.MAX)
                assert y.tolist() == [2, 2, 0]
        _bits(rank, device)
        _bools(rank, device)
        z = tensor.tensor([1 + 2j, 3.0], dtype=tensor.complex64, device=device) * (rank + 1)
        parallel.all_reduce(z)
        assert z.tolist() == [3 + 6j, 9]
        parallel.all_reduce(z, ReduceOp.AVG)
        assert z.tolist() == [3 + 6j, 9]
        # Sums of halves are rounded once.
        half = tensor.tensor([1.0 if rank == 0 else 2.0**-12], dtype=tensor.float16, device=device)
        parallel.all_reduce(half)
        assert half.tolist() == [1.0]
        for shape in ((), (0,), (0, 3)):
            empty = tensor.ones(shape, device=device)
            parallel.all_reduce(empty)
            assert empty.tolist() == (tensor.ones(shape) * size).tolist()
        large = tensor.arange(300_001, dtype=tensor.float32, device=device) + rank
        parallel.all_reduce(large)
        assert tensor.equal(large.cpu(), tensor.arange(300_001, dtype=tensor.float32) * 2 + 1)


def _bits(rank: int, device: str) -> None:
    for op, value in ((ReduceOp.BAND, 0b1000), (ReduceOp.BOR, 0b1110), (ReduceOp.BXOR, 0b0110)):
        x = tensor.tensor([(0b1100, 0b1010)[rank]], dtype=tensor.int32, device=device)
        parallel.all_reduce(x, op)
        assert x.item() == value


def _bools(rank: int, device: str) -> None:
    result = {}
    for op in ReduceOp:
        if op is not ReduceOp.AVG:
            x = tensor.tensor([[True, True, False], [True, False, False]][rank], device=device)
            parallel.all_reduce(x, op)
            result[op] = x.tolist()
    either, both = [True, True, False], [True, False, False]
    assert result[ReduceOp.SUM] == result[ReduceOp.MAX] == result[ReduceOp.BOR] == either
    assert result[ReduceOp.PRODUCT] == result[ReduceOp.MIN] == result[ReduceOp.BAND] == both
    assert result[ReduceOp.BXOR] == [False, True, False]


@pytest.mark.parametrize("place", ["cpu", "lazy"])
def test_every_type(tmp_path: Path, place: str) -> None:
    run(_every_type, 2, str(tmp_path / "store"), place)


def _autograd(rank: int, size: int, path: str) -> None:
    with joined(rank, size, path):
        leaf = tensor.ones(3, requires_grad=True)
        parallel.all_reduce(leaf)
        assert leaf.is_leaf
        assert leaf.tolist() == [2.0] * 3
        # Gradients do not flow through.
        y = leaf * 2
        parallel.all_reduce(y)
        y.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.tolist() == [2.0] * 3
        # What is written counts as written.
        x = leaf * 1
        product = x * x
        parallel.broadcast(x.detach()[::2], 0)
        if rank == 1:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                product.sum().backward()
        # Records nothing, whatever was given.
        out = [tensor.empty(3) for _ in range(2)]
        parallel.all_gather(out, leaf)
        assert not any(each.requires_grad for each in out)


def test_autograd(tmp_path: Path) -> None:
    run(_autograd, 2, str(tmp_path / "store"))


def _refusals(rank: int, size: int, path: str, place: str) -> None:
    """What does not fit is an error before anything is sent: the group goes on."""
    device = use(place)
    one = tensor.ones(2, device=device)

    def refused(kind: type[Exception], match: str, function: Any, *arguments: Any, **options: Any) -> None:
        with pytest.raises(kind, match=match):
            function(*arguments, **options)

    refused(ValueError, "has not been initialized", parallel.all_reduce, one)
    with joined(rank, size, path):
        refused(TypeError, "`tensor` of all_reduce", parallel.all_reduce, [1.0])
        refused(TypeError, "parallel.ReduceOp", parallel.all_reduce, one, "sum")
        refused(ValueError, "non-integral dtype", parallel.all_reduce, one, ReduceOp.BAND)
        refused(ValueError, "AVG", parallel.all_reduce, one.int(), ReduceOp.AVG)
        refused(ValueError, "on complex", parallel.all_reduce, one.to(tensor.complex64), ReduceOp.MAX)
        refused(RuntimeError, "single memory", parallel.all_reduce, tensor.ones(1, device=device).expand(3))
        refused(ValueError, "Global rank 7 is not part", parallel.broadcast, one, 7)
        refused(ValueError, "Group rank 7", parallel.broadcast, one, group_src=7)
        refused(ValueError, "Can't specify both", parallel.broadcast, one, 0, group_src=0)
        refused(ValueError, "Must specify group_dst or dst", parallel.reduce, one)
        refused(TypeError, r"list\[Tensor\]", parallel.all_gather, one, one)
        refused(ValueError, "has 1 tensors, and the group 2", parallel.all_gather, [one], one)
        refused(ValueError, "index 1 of tensor_list", parallel.all_gather, [one.clone(), one[:1]], one)
        refused(ValueError, "different dtypes", parallel.all_gather, [one.int(), one.int()], one)
        refused(
            ValueError,
            "world_size times",
            parallel.all_gather_into_tensor,
            tensor.empty(5, device=device),
            one,
        )
        refused(
            ValueError, "world_size times", parallel.reduce_scatter_tensor, one, tensor.ones(5, device=device)
        )
        refused(ValueError, "index 0 of input_list", parallel.reduce_scatter, one, [one[:1], one])
        if rank == 0:
            refused(ValueError, "must be specified on dest", parallel.gather, one)
            refused(ValueError, "must be specified on source", parallel.scatter, one)
        else:
            refused(ValueError, "must NOT be specified on non-dest", parallel.gather, one, [one, one])
            refused(ValueError, "must NOT be specified on non-source", parallel.scatter, one, [one, one])
        refused(ValueError, "divide equally", parallel.all_to_all_single, one, tensor.ones(3, device=device))
        refused(ValueError, "Split sizes", parallel.all_to_all_single, one, one, [1, 1], [2, 1])
        refused(ValueError, "Number of tensor splits", parallel.all_to_all_single, one, one, [2], [1, 1])
        refused(TypeError, "group is a ProcessGroup", parallel.all_reduce, one, group="all")
        if device == "cuda":
            there = [tensor.empty(2, device="cuda:0"), tensor.empty(2, device="cuda:1")]
            refused(ValueError, "on one device.*cuda:0.*cuda:1", parallel.all_gather, there, one)
        parallel.all_reduce(one)
        assert one.tolist() == [2.0, 2.0]
        apart = parallel.new_group([1])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            parallel.all_reduce(one, group=apart)
        assert len(caught) == (rank == 0)
        assert parallel.get_rank(apart) == (-1 if rank == 0 else 0)
        assert one.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("place", ["cpu", "eager"])
def test_refusals(tmp_path: Path, place: str) -> None:
    run(_refusals, 2, str(tmp_path / "store"), place)


def _exercise(rank: int, size: int, path: str, library: str) -> dict[str, Any]:
    """The same program with this package and with PyTorch."""
    if library == "torch":
        import torch as lib
        import torch.distributed as dist
    else:
        lib, dist = tensor, parallel  # type: ignore[misc, assignment]
    result: dict[str, Any] = {}
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        for dtype in ("float32", "float64", "int64", "uint8"):
            x = (lib.arange(6).to(getattr(lib, dtype)) + 1 + rank).view(2, 3)
            dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
            result[f"all_reduce {op} {dtype}"] = x.tolist()
    x = lib.arange(6.0).view(2, 3).t() * (rank + 1)
    dist.all_reduce(x)
    result["transposed"] = x.tolist()
    work = dist.all_reduce(x, async_op=True)
    result["wait"] = (
        work.wait(),
        work.is_completed(),
        work.is_success(),
        [each.tolist() for each in work.result()],
    )
    x = lib.full((2,), float(rank))
    dist.reduce(x, dst=1)
    result["reduce"] = x.tolist() if rank == 1 else None
    outs = [lib.empty(2) for _ in range(size)]
    dist.all_gather(outs, lib.full((2,), float(rank)))
    result["all_gather"] = [each.tolist() for each in outs]
    flat = lib.empty(2 * size)
    dist.all_gather_into_tensor(flat, lib.full((2,), float(rank)))
    result["all_gather_into_tensor"] = flat.tolist()
    out = lib.empty(2)
    dist.scatter(out, [lib.full((2,), 10.0 * each) for each in range(size)] if rank == 2 else None, src=2)
    result["scatter"] = out.tolist()
    dist.gather(out, outs if rank == 1 else None, dst=1)
    result["gather"] = [each.tolist() for each in outs]
    flat = lib.empty(size + 3)
    splits = [[1, 1, 4], [1, 2, 3], [4, 3, 2]]
    takes = [each[rank] for each in splits]
    out = lib.empty(sum(takes))
    dist.all_to_all_single(out, lib.arange(float(sum(splits[rank]))), takes, splits[rank])
    result["all_to_all_single"] = out.tolist()
    group = dist.new_group([2, 0])
    result["group"] = dist.get_rank(group), dist.get_world_size(group)
    if rank != 1:
        result["ranks"] = (
            dist.get_process_group_ranks(group),
            dist.get_global_rank(group, 1),
            dist.get_group_rank(group, 2),
        )
        x = lib.full((2,), float(rank))
        dist.broadcast(x, src=2, group=group)
        dist.all_reduce(x, group=group)
        result["in a group"] = x.tolist()
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "x": [rank] * rank})
    result["objects"] = objects
    pair: list[Any] = [None, "here"] if rank else ["there", (1, 2)]
    dist.broadcast_object_list(pair, src=0)
    result["broadcast objects"] = pair
    one: list[Any] = [None]
    dist.scatter_object_list(one, ["a", ["b"], 3] if rank == 0 else None, src=0)
    result["scatter objects"] = one
    if rank == 0:
        dist.send(lib.full((3,), 7.0), 1, tag=3)
    elif rank == 1:
        x = lib.empty(3)
        result["recv"] = dist.recv(x, tag=3), x.tolist()
    result["backend"] = dist.get_backend(), dist.is_initialized()
    dist.monitored_barrier()
    dist.barrier()
    dist.destroy_process_group()
    return result


def _with_pytorch(_: int, __: int, path: str) -> list[Any]:
    """Three ranks forked from this one, so that PyTorch, which takes seconds, is imported once."""
    import torch.distributed  # noqa: F401

    children = []
    for rank in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                result = _exercise(rank, 3, path, "torch")
                Path(f"{path}.{rank}").write_bytes(pickle.dumps(result))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    return [pickle.loads(Path(f"{path}.{rank}").read_bytes()) for rank in range(3)]


@pytest.mark.parity
def test_as_pytorch(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    ours = run(_exercise, 3, str(tmp_path / "ours"), "parallel")
    (theirs,) = run(_with_pytorch, 1, str(tmp_path / "theirs"))
    assert ours == theirs
