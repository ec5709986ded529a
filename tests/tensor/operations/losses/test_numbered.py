"""Losses at the top level against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import array_of

_RNG = np.random.default_rng(0)
_X, _Y, _Z = (_RNG.standard_normal((4, 5)).astype(np.float32) for _ in range(3))
_CHANCES = (_RNG.random((4, 5)) + 0.1).astype(np.float32)
_SIGNS = np.where(_X > 0, 1, -1).astype(np.float32)
CASES: dict[str, tuple[Any, ...]] = {
    "binary_cross_entropy_with_logits": (_X, _CHANCES, None, None),
    "cosine_embedding_loss": (_X, _Y, _SIGNS[:, 0], 0.1),
    "ctc_loss": (_X[:, None] - 3, np.array([[1, 2]]), (4,), (2,), 0),
    "hinge_embedding_loss": (_X, _SIGNS, 0.5),
    "kl_div": (_X, _CHANCES),
    "margin_ranking_loss": (_X, _Y, _SIGNS, 0.2),
    "poisson_nll_loss": (_X, _CHANCES, True, False, 1e-8),
    "triplet_margin_loss": (_X, _Y, _Z, 1.0, 2, 1e-6, True),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_like_pytorch(name: str, reduction: int) -> None:
    torch = pytest.importorskip("torch")

    def call(library: Any) -> Any:
        argument = [library.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in CASES[name]]
        return array_of(getattr(library, name)(*argument, reduction))

    np.testing.assert_allclose(call(tensor), call(torch), rtol=2e-5, atol=1e-5)


def test_reductions_there_are_not() -> None:
    for reduction in (3, -1, "mean"):
        with pytest.raises(ValueError, match="not a valid value"):
            tensor.hinge_embedding_loss(tensor.zeros(2), tensor.ones(2), 1.0, reduction)
