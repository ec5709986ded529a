from __future__ import annotations

import inspect
import re

from cuda.bindings import driver as cuda

from drv.simulator.driver import SimulatedDriver
from drv.simulator.options import parse_options

#: Every function of the driver API that the bindings have.
FUNCTIONS = sorted(
    name
    for name, value in vars(cuda).items()
    if re.match("cu[A-Z]", name) and callable(value) and not isinstance(value, type)
)


def test_there_are_functions() -> None:
    assert len(FUNCTIONS) > 400
    assert {"cuInit", "cuGraphLaunch", "cuEGLStreamConsumerConnect", "cuLogsDumpToMemory"} <= set(FUNCTIONS)


def test_every_function_of_the_bindings_is_there() -> None:
    missing = [name for name in FUNCTIONS if not hasattr(SimulatedDriver, name)]
    assert not missing, f"the simulated driver has no {', '.join(missing)}"


def test_parameters_are_those_of_the_bindings() -> None:
    for name in FUNCTIONS:
        parameters = list(inspect.signature(getattr(SimulatedDriver, name)).parameters)[1:]
        assert parameters == list(inspect.signature(getattr(cuda, name)).parameters), name


def results_of(name: str) -> int:
    """How many results a function of the bindings has beside its status, as its documentation says."""
    lines = inspect.cleandoc(getattr(cuda, name).__doc__ or "").splitlines()
    titles = [line.strip() for line in lines]
    if "Returns" not in titles:
        return 0
    first = titles.index("Returns") + 2
    indent = len(lines[first]) - len(lines[first].lstrip())
    names = []
    for line in lines[first:]:
        if line.strip() in ("See Also", "Notes"):
            break
        if line.strip() and len(line) - len(line.lstrip()) == indent:
            names.append(line.strip())
    # The sizes of these are told, and not returned.
    sized = name.startswith("cuCoredump") and "Attribute" in name
    return max(len(names) - 1 - sized, 0)


def test_a_refused_call_has_as_many_results_as_the_bindings() -> None:
    driver = SimulatedDriver(parse_options(""), {})
    for name in FUNCTIONS:
        function = getattr(driver, name)
        try:
            status, *results = function(*[0] * len(inspect.signature(function).parameters))
        except TypeError as error:
            # Of those few that have to look before the driver knows whether it was initialised.
            assert re.match("expected (CU|bytes)", str(error))
            continue
        assert isinstance(status, cuda.CUresult), name
        if status != cuda.CUresult.CUDA_SUCCESS:
            assert results == [None] * results_of(name), name
