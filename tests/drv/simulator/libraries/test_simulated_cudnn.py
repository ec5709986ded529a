"""The simulated cuDNN: its signatures, refusals, algorithms, streams, workspaces and devices."""

from __future__ import annotations

import inspect

import pytest

import drv
from drv import simulator
from drv.bindings.cudnn import Cudnn
from drv.bindings.prototypes import prototypes
from drv.simulator.libraries.cudnn import SimulatedCudnn


@pytest.mark.parametrize("name", list(prototypes(Cudnn)))
def test_signatures_are_the_declared_ones(name: str) -> None:
    parameters = inspect.signature(getattr(SimulatedCudnn, name)).parameters.values()
    assert [parameter.name for parameter in parameters][1:] == list(prototypes(Cudnn)[name].parameters)
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.POSITIONAL_ONLY}


def test_devices_have_it_where_the_option_says_so() -> None:
    with pytest.raises(drv.LibraryNotInstalledError, match="GRAPHROOT_SIMULATOR=cudnn=on"):
        simulator.install().library("cudnn")
    drv.reset()
    runtime = simulator.install(cudnn="on")
    library = runtime.library("cudnn")
    assert isinstance(library, SimulatedCudnn)
    assert runtime.library("cudnn") is library
