"""The public names of ``parallel`` stay what they are, whichever of its modules is imported and when."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import parallel

_BEFORE = "import parallel.data_parallel.scattering, parallel.data_parallel.data_parallel"
_AFTER = "import parallel; parallel.all_reduce; import parallel.data_parallel.scattering, parallel.data_parallel.replication"


@pytest.mark.parametrize("imports", ["import parallel.data_parallel", _BEFORE, _AFTER])
def test_data_parallel_is_the_function_and_not_its_package(imports: str) -> None:
    code = f"""
{imports}
import inspect, sys
import parallel
from parallel import data_parallel
from parallel.data_parallel.data_parallel import DataParallel
assert inspect.isfunction(data_parallel) and data_parallel is parallel.data_parallel
assert DataParallel is parallel.DataParallel
assert inspect.ismodule(sys.modules["parallel.data_parallel"])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_names_that_are_loaded_later_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(parallel.__file__).read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    seen = {
        name.name: node.module or name.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert seen == parallel._MODULE_OF
    assert set(parallel.__all__) == {*seen, "comm", "DataParallel", "data_parallel"}
    assert set(parallel.__all__) <= set(dir(parallel))
    for name in parallel.__all__:
        assert getattr(parallel, name) is not None
    with pytest.raises(AttributeError, match="module 'parallel' has no attribute 'all_reduced'"):
        _ = parallel.all_reduced


def test_process_groups_are_loaded_when_they_are_used() -> None:
    code = """
import sys
from pathlib import Path
import parallel
packages = ("parallel.groups", "parallel.backends", "parallel.ddp", "parallel.launch")
assert not [name for name in sys.modules if name.startswith(packages)]
parallel.ddp_comm_hooks.default_hooks.allreduce_hook
from parallel import *
assert TCPStore.__module__ == "parallel.groups.stores.tcp_store" and callable(data_parallel)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
