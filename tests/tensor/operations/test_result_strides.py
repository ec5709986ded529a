"""Results of operations that change places lie in memory as PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.comparison import outcome
from tests.tensor.expressions import value

pytestmark = pytest.mark.parity

#: Tensors of shape (3, 4, 5), or parts of it, that lie differently.
LAYOUTS = {
    "contiguous": "x",
    "reversed": "x.transpose(0, 2)",
    "permuted": "x.permute(1, 2, 0)",
    "gaps": "x[:, ::2]",
    "stretched": "x[:, :1].expand(3, 4, 5)",
    "channels last": "x[None].contiguous(memory_format=m.channels_last)[0]",
}
#: Expressions of ``t``, a dimension ``D``, an index ``i`` of zeros (2, 2, 2) and a vector ``v`` of indices.
ALONG = """
t.sort(D) t.sort(D,True) t.argsort(D) t.topk(2,D) t.kthvalue(2,D) t.median(D) t.mode(D) t.quantile(0.5,D)
t.max(D) t.argmax(D) t.amax(D) t.aminmax(dim=D) t.sum(D) t.mean(D) t.prod(D) t.std(D) m.var_mean(t,D) t.norm(2,D)
t.logsumexp(D) t.any(D) t.count_nonzero(D) t.cumsum(D) t.cumprod(D) t.cummax(D) t.logcumsumexp(D) t.softmax(D)
t.log_softmax(D) t.diff(dim=D) m.cumulative_trapezoid(t,dim=D) t.flip(D) t.roll(1,D) t.index_select(D,v)
t.gather(D,i) m.cat((t,t),D) m.stack((t,t),D) t.repeat_interleave(2,D) t.scatter(D,i,1.0) t.scatter_add(D,i,t)
t.scatter_reduce(D,i,t,'amax') t.index_add(D,v,t.narrow(D,0,2)) t.index_copy(D,v,t.narrow(D,0,2))
t.index_fill(D,v,1.0) t.index_reduce(D,v,t.narrow(D,0,2),'amin') t.unfold(D,2,1).clone()
"""
OTHERS = """
t.clone() t.contiguous() m.zeros_like(t) t.tril() t+1 t.float() m.where(t>0,t,0.0) t.nan_to_num() t.rot90()
t.repeat(1,2,1) t.bmm(t.mT) t.put(v,m.ones(2,dtype=m.float64)) t.masked_scatter(t>0,t.contiguous())
t.index_put((v,),m.ones((),dtype=m.float64)) t.masked_fill(t>0,2.0) t.masked_fill(t[0]>0,2.0)
t.diag_embed() m.einsum('abc->cab',t) m.tensordot(t,t,([0],[0]))
m.cdist(t,t) t.frexp() t.ldexp(v[:1]) t.round(decimals=1) m.igamma(t.abs(),t.abs()) m.special.ndtr(t)
"""


def _strides(result: Any) -> Any:
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [tuple(part.stride()) for part in parts]


def _operands(library: Any, layout: str) -> dict[str, Any]:
    x = library.from_numpy(np.random.default_rng(0).standard_normal((3, 4, 5)))
    t = value(layout, library, x=x)
    return {"t": t, "i": library.zeros(2, 2, 2, dtype=library.int64), "v": library.tensor([0, 1])}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_are_pytorchs(layout: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (_operands(library, LAYOUTS[layout]) for library in (tensor, torch))
    for text, dim in [
        *itertools.product(ALONG.split(), range(3)),
        *[(text, None) for text in OTHERS.split()],
    ]:
        result = outcome(value, text, tensor, D=dim, **ours)
        expected = outcome(value, text, torch, D=dim, **theirs)
        what = f"{text} along {dim}"
        if isinstance(expected, Exception):
            assert isinstance(result, Exception), what
        elif isinstance(result, Exception):
            raise AssertionError(what) from result
        else:
            assert _strides(result) == _strides(expected), what
