"""L-BFGS against PyTorch's, and on functions whose minimum is known."""

from __future__ import annotations

from typing import Any

import pytest

import nn.optim
import tensor
from tests.nn.optim.twins import assert_close

_OPTIONS: list[dict[str, Any]] = [
    {"lr": 0.5},
    {"lr": 0.1, "max_iter": 5, "history_size": 2},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 8, "max_eval": 12},
    {"line_search_fn": "strong_wolfe", "lr": 20.0},
    {"line_search_fn": "strong_wolfe", "lr": 1e-3, "max_iter": 4},
]


def _losses(library: Any, optim: Any, device: str, options: dict[str, Any], steps: int = 4) -> Any:
    """Losses of Rosenbrock's function, and what remains."""
    x = library.tensor([-1.2, 1.0, 0.5], dtype=library.float64, device=device).requires_grad_()
    y = library.tensor([[0.3, -0.7]], dtype=library.float64, device=device).requires_grad_()
    optimizer = optim.LBFGS([x, y], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + ((y - 2) ** 4).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(steps)]
    return losses, x, y, optimizer


@pytest.mark.parity
@pytest.mark.parametrize("options", _OPTIONS, ids=str)
@pytest.mark.sampled(3)
def test_like_pytorch(device_name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    steps = 3 if device_name == "cpu" else 1
    losses, x, y, ours = _losses(tensor, nn.optim, device_name, options, steps)
    expected, a, b, theirs = _losses(torch, torch.optim, "cpu", options, steps)
    assert losses == pytest.approx(expected, rel=1e-6)
    assert_close(x, a, 1e-6, 1e-8)
    assert_close(y, b, 1e-6, 1e-8)
    state, reference = ours.state[x], theirs.state[a]
    assert set(reference) - {"al"} == set(state)
    for name in ("n_iter", "func_evals"):
        assert state[name] == reference[name]
    for name in ("old_dirs", "old_stps"):
        assert len(state[name]) == len(reference[name])


def test_finds_the_minimum() -> None:
    _, x, y, _ = _losses(tensor, nn.optim, "cpu", {"line_search_fn": "strong_wolfe"}, 5)
    assert x.tolist() == pytest.approx([1, 1, 1], abs=1e-4)
    assert y.tolist()[0] == pytest.approx([2, 2], abs=0.05)


def test_goes_on_from_a_state_dict() -> None:
    losses, *_ = _losses(tensor, nn.optim, "cpu", _OPTIONS[2], 4)
    _, x, y, first = _losses(tensor, nn.optim, "cpu", _OPTIONS[2], 2)
    second = nn.optim.LBFGS([x, y], **_OPTIONS[2])
    second.load_state_dict(first.state_dict())

    def closure() -> Any:
        second.zero_grad()
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + ((y - 2) ** 4).sum()
        loss.backward()
        return loss

    assert [float(second.step(closure)) for _ in range(2)] == losses[2:]


def test_mistakes() -> None:
    x = tensor.zeros(2, requires_grad=True)
    with pytest.raises(ValueError, match="parameter groups"):
        nn.optim.LBFGS([{"params": [x]}, {"params": [tensor.zeros(1, requires_grad=True)]}])
    with pytest.raises(TypeError, match="closure"):
        nn.optim.LBFGS([x]).step()
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        nn.optim.LBFGS([x], line_search_fn="armijo").step(lambda: 0.0)
