"""The way of CUDA tensors over the host: what waits for what, and what memory it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from tensor.linalg import host

if TYPE_CHECKING:
    from collections.abc import Callable

linalg = tensor.linalg
pytestmark = pytest.mark.simulator_only


def _step(place: str) -> list[Any]:
    """Functions that go over the host between ones that do not, and gradients."""
    rng = np.random.default_rng(0)
    a = tensor.from_numpy(rng.standard_normal((2, 4, 4))).to(place).requires_grad_()
    b = tensor.from_numpy(rng.standard_normal((4, 2))).to(place).requires_grad_()
    x = linalg.solve(a * 2 + 1, b @ b.mT)
    q, r = linalg.qr(x + a)
    values, vectors = linalg.eigh(q @ q.mT + a @ a.mT)
    u, s, vh = linalg.svd(r, full_matrices=False)
    loss = (vectors.abs() * values.unsqueeze(-2)).sum() + linalg.det(a).prod() + (u @ vh).sum() + s.sum()
    loss = loss + linalg.lstsq(a, x).solution.sum() + linalg.matrix_exp(a / 4).sum()
    loss.backward()
    return [loss, x, values, s, a.grad, b.grad]


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_any_schedule_on_a_side_stream(schedule: str) -> None:
    expected = [each.detach().numpy() for each in _step("cpu")]
    drv.simulator.install(check="full", schedule=schedule)
    side = tensor.cuda.Stream()
    with tensor.cuda.stream(side):
        result = [each.detach().cpu().numpy() for each in _step("cuda")]
    for left, right in zip(result, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-10)
    assert not drv.simulator.findings()


def test_results_are_ordered_as_those_of_any_operation() -> None:
    drv.simulator.install(check="race", schedule="lazy")
    a = tensor.eye(3, device="cuda", dtype=tensor.float64) * 2
    tensor.cuda.synchronize()
    side = tensor.cuda.Stream()
    inverse = linalg.inv(a)
    side.wait_stream(tensor.cuda.current_stream())
    with tensor.cuda.stream(side):
        result = inverse * 2
    inverse.record_stream(side)
    tensor.cuda.current_stream().wait_stream(side)
    np.testing.assert_array_equal(result.cpu().numpy(), np.eye(3))
    assert not drv.simulator.findings()
    # Without the wait it is a race, as with any other operation.
    inverse = linalg.inv(a)
    with pytest.raises(drv.DataRaceError), tensor.cuda.stream(side):
        inverse.sum()
        tensor.cuda.synchronize()


def _waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes every wait of the host for a stream."""
    result: list[str] = []
    before = drv.Stream.synchronize

    def synchronize(self: Any) -> None:
        result.append("wait")
        before(self)

    monkeypatch.setattr(drv.Stream, "synchronize", synchronize)
    return result


#: Calls, and how often each waits for the device.
WAITS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "inv": (linalg.inv, 1),
    "solve": (lambda a: linalg.solve(a, a), 1),
    "det": (linalg.det, 1),
    "qr": (linalg.qr, 1),
    "svd": (linalg.svd, 1),
    "eigh": (linalg.eigh, 1),
    "lu": (linalg.lu, 1),
    "matrix_exp": (linalg.matrix_exp, 1),
    "pinv": (linalg.pinv, 1),
    "matrix_rank": (linalg.matrix_rank, 1),
    "cond": (linalg.cond, 1),
    "cond fro": (lambda a: linalg.cond(a, "fro"), 1),
    "lstsq": (lambda a: linalg.lstsq(a, a), 1),
    # On the device.
    "solve_triangular": (lambda a: linalg.solve_triangular(a, a, upper=True), 0),
    "solve_triangular, batches": (lambda a: linalg.solve_triangular(a, a.expand(3, 3, 3), upper=True), 0),
    "solve_triangular, strides": (lambda a: linalg.solve_triangular(a[::2, ::2], a[:2], upper=True), 0),
    "cholesky_solve": (lambda a: tensor.cholesky_solve(a, a), 0),
    "cholesky_inverse": (tensor.cholesky_inverse, 0),
    "matrix_norm": (linalg.matrix_norm, 0),
    "matrix_norm 1": (lambda a: linalg.matrix_norm(a, 1), 0),
    "norm": (lambda a: linalg.norm(a, np.inf), 0),
    "vector_norm": (linalg.vector_norm, 0),
    "matrix_power": (lambda a: linalg.matrix_power(a, 5), 0),
    "multi_dot": (lambda a: linalg.multi_dot([a, a, a]), 0),
    "vecdot": (lambda a: linalg.vecdot(a, a), 0),
    "cross": (lambda a: linalg.cross(a, a), 0),
    "vander": (linalg.vander, 0),
    "householder_product": (lambda a: linalg.householder_product(a, a[0]), 0),
}


@pytest.mark.parametrize("name", WAITS)
def test_waits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drv.simulator.install()
    call, expected = WAITS[name]
    a = tensor.tensor([[2.0, 0.5, 0.0], [0.5, 3.0, 1.0], [0.0, 1.0, 4.0]], dtype=tensor.float64).cuda()
    call(a)  # Kernels are loaded, and small constants copied, once.
    waits = _waits(monkeypatch)
    call(a)
    assert len(waits) == expected


def test_pinned_memory_is_not_used_again_before_it_was_copied() -> None:
    drv.simulator.install(check="race", schedule="lazy")
    a = tensor.eye(64, device="cuda", dtype=tensor.float64)
    result = [linalg.inv(a * k) for k in range(1, 9)]
    for k, each in enumerate(result, 1):
        np.testing.assert_allclose(each.cpu().numpy(), np.eye(64) / k)
    assert not drv.simulator.findings()


def test_nothing_stays_allocated() -> None:
    drv.simulator.install()
    a = tensor.eye(8, device="cuda")
    before = tensor.cuda.memory_allocated()
    result = linalg.inv(a)
    assert tensor.cuda.memory_allocated() - before == 512
    del result
    linalg.qr(a)
    assert tensor.cuda.memory_allocated() == before


def test_another_device_and_its_stream() -> None:
    drv.simulator.install(devices=2, check="race", schedule="random")
    a = tensor.eye(3, device="cuda:1") * 4
    result = linalg.cholesky(a)
    assert result.device == tensor.device("cuda:1")
    np.testing.assert_array_equal(result.cpu().numpy(), 2 * np.eye(3))
    assert not drv.simulator.findings()


def test_reading() -> None:
    drv.simulator.install()
    a = tensor.arange(6.0, device="cuda").view(2, 3)
    first, second = host.read(a.mT, a[:, 1:])
    np.testing.assert_array_equal(first, np.arange(6.0).reshape(2, 3).T)
    np.testing.assert_array_equal(second, np.arange(6.0).reshape(2, 3)[:, 1:])
