from __future__ import annotations

import pytest

from drv.documentation import driver_function_link

BASE = "https://docs.nvidia.com/cuda/cuda-driver-api/"


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("cuMemAlloc", "group__CUDA__MEM.html"),
        ("cuMemAlloc_v2", "group__CUDA__MEM.html"),
        ("cuMemAllocAsync", "group__CUDA__MALLOC__ASYNC.html"),
        ("cuGraphLaunch", "group__CUDA__GRAPH.html"),
        ("cuGraphicsGLRegisterImage", "group__CUDA__GL.html"),
        ("cuNothingLikeIt", "modules.html"),
    ],
)
def test_pages_of_functions(name: str, page: str) -> None:
    assert driver_function_link(name) == BASE + page
