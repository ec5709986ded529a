"""Imports that import-linter does not see as users of the packages do: those inside functions, and those of types."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: From the top: a package imports those behind it.
PACKAGES = ("tools", "parallel", "nn", "tensor", "nvrtc_kernels", "drv")

_CHOSEN = "only the chosen driver is loaded, and of the simulator only what its options turn on"
_OPTIONAL = "an optional package, or a library that is loaded when it is first used"
_DEVICES = "thirty modules, of use only to programs that use a device"
_FIRST = "a dozen modules with all ways to compute it, of use only to programs that convolve"
#: Imports of our own packages inside functions, by the package they stand in and the name they import, and why.
INSIDE_FUNCTIONS = {
    "drv": {
        "cublas": _OPTIONAL,
        "cublaslt": _OPTIONAL,
        "cudnn": _OPTIONAL,
        "cufft": _OPTIONAL,
        "nccl": _OPTIONAL,
        "cupti": _OPTIONAL,
        "SimulatedCublas": _CHOSEN,
        "SimulatedCublasLt": _CHOSEN,
        "SimulatedCudnn": _CHOSEN,
        "SimulatedCufft": _CHOSEN,
        "from_environment": _CHOSEN,
        "SimulatedDriver": _CHOSEN,
        "OptionError": _CHOSEN,
        "parse_options": _CHOSEN,
        "RaceChecker": _CHOSEN,
        "run": _CHOSEN,
        "recording": _CHOSEN,
        "stand_in": _CHOSEN,
        "child": _CHOSEN,
        "NativeKernel": "above the plans that it reads, and of no use with native=off",
        "require": _CHOSEN,
    },
    "nvrtc_kernels": {"text": _CHOSEN, "forward": _CHOSEN, "backward": _CHOSEN, "RowWriter": _CHOSEN},
    "tensor": {
        "Recorder": _CHOSEN,
        "works": _OPTIONAL,
        "device_allocator": _DEVICES,
        "pinned_allocator": _DEVICES,
        "memory_summary": _DEVICES,
        "Stat": _DEVICES,
        "Statistics": _DEVICES,
        "FORMULAS": _FIRST,
        "directions_of": _FIRST,
    },
    "nn": {"vmap": "its rules, for every operation, are of use only to masks that are functions"},
    "parallel": {
        "MpiTransport": _OPTIONAL,
        "subgroup": _OPTIONAL,
        "world": _OPTIONAL,
        "drv": "the launcher starts without a driver unless it is to count devices",
    },
    "tools": {},
}


@functools.cache
def _imports(package: str) -> tuple[tuple[Path, ast.stmt, int, bool, str, str], ...]:
    """Imports of our packages: file, statement, line of the function around it or 0, whether for types, module, and name."""
    return tuple(each for path in sorted((ROOT / package).rglob("*.py")) for each in _imports_of(path))


def _imports_of(path: Path) -> Iterator[tuple[Path, ast.stmt, int, bool, str, str]]:
    folder = path.relative_to(ROOT).parent.parts
    waiting: list[tuple[ast.AST, int, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), 0, False)]
    while waiting:
        node, function, typing = waiting.pop()
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.split(".")[0] in PACKAGES:
                    yield path, node, function, typing, each.name, each.name.split(".")[-1]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(folder[: len(folder) + 1 - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            if module.split(".")[0] in PACKAGES:
                for each in node.names:
                    yield path, node, function, typing, module, each.name
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.lineno
        only_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        behind = node.orelse if isinstance(node, ast.If) and only_types else []
        waiting += [
            (child, function, typing or (only_types and child not in behind))
            for child in ast.iter_child_nodes(node)
        ]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_inside_functions_are_the_known_ones(package: str) -> None:
    unknown = [
        f"{path.relative_to(ROOT)}:{statement.lineno}: {module} {name}"
        for path, statement, function, _, module, name in _imports(package)
        if function and name not in INSIDE_FUNCTIONS[package]
    ]
    assert not unknown, "move to the top of the file, or to the layer where it belongs:\n" + "\n".join(
        unknown
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_the_known_imports_inside_functions_are_there(package: str) -> None:
    gone = set(INSIDE_FUNCTIONS[package]) - {
        name for _, _, function, _, _, name in _imports(package) if function
    }
    assert not gone, "take them off the list"


# Those of ``drv`` are many and have few reasons, which stand in the table above.
@pytest.mark.parametrize("package", ("tools", "parallel", "nn", "tensor", "nvrtc_kernels", "graphroot"))
def test_imports_inside_functions_say_why(package: str) -> None:
    silent = []
    for path, statement, function, _, module, name in _imports(package):
        if function:
            lines = path.read_text(encoding="utf-8").splitlines()
            if not any(line.lstrip().startswith("#") for line in lines[function : statement.lineno]):
                silent.append(f"{path.relative_to(ROOT)}:{statement.lineno}: {module} {name}")
    assert not silent, "say in a comment why they are not at the top of the file"


@pytest.mark.parametrize("package", PACKAGES)
def test_types_come_from_the_same_package_or_a_lower_one(package: str) -> None:
    higher = PACKAGES[: PACKAGES.index(package)]
    upward = [
        f"{path.relative_to(ROOT)}:{statement.lineno}: {module} {name}"
        for path, statement, _, typing, module, name in _imports(package)
        if typing and module.split(".")[0] in higher
    ]
    assert not upward
