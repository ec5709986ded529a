"""Several PTX texts as one."""

from __future__ import annotations

import pytest

from drv.simulator.ptx import parse
from drv.simulator.ptx.linking import link
from tests.drv.simulator.compiled import ptx

TWICE = 'extern "C" __device__ float twice(float x) { return 2 * x; } __device__ int shared_number = 3;'
CALLER = """
extern "C" __device__ float twice(float x);
extern __device__ int shared_number;
extern "C" __global__ void scale(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]) + shared_number; }
"""


def text(source: str) -> str:
    return ptx(source, "-rdc=true", "-lineinfo").rstrip(b"\0").decode()


def test_one_text_stays_as_it_is() -> None:
    alone = text('extern "C" __global__ void nothing() {}')
    assert link([alone]) == alone


@pytest.mark.parametrize("turned", [False, True])
def test_functions_and_variables_of_other_texts(turned: bool) -> None:
    texts = [text(CALLER), text(TWICE)]
    linked = link(texts[::-1] if turned else texts)
    assert ".extern .func" not in linked
    assert linked.count(".version") == linked.count(".target") == 1
    module = parse(linked)
    assert list(module.entries) == ["scale"]
    assert "twice" in module.functions


def test_what_is_defined_twice() -> None:
    with pytest.raises(ValueError, match=r"Multiple definition of '\w+' in inputs 1 and 2"):
        link([text(TWICE), text(TWICE)])


def test_what_is_no_ptx() -> None:
    with pytest.raises(ValueError, match="input 2 of the linker is no PTX"):
        link([text(TWICE), "nothing"])
