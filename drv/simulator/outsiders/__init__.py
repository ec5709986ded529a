"""Ways into the simulator for code that knows nothing of this project.

===============  =======================================================================
``running``      one kernel on NumPy arrays: :func:`drv.simulator.run`
``stand_in``     programs on ``cuda.bindings.driver``: :func:`drv.simulator.stand_in`
``libcuda``      programs that reach the driver from C: a ``libcuda.so.1`` that Python writes
``libnvrtc``     NVRTC with PTX for cubins, for programs that compile to these
``prototypes``   what that library exports, from CUDA's headers
``c_functions``  C functions that end in calls of the simulated driver
``c_types``      C values of these calls, read and written
``child``        the processes of a command that runs on a simulated GPU
``elf``          shared libraries, written without a compiler
``stubs``        the machine code in them
``values``       what a NumPy array, a number or a structure is as a kernel's parameter
===============  =======================================================================
"""

from pathlib import Path

__all__ = ["start_folder"]


def start_folder() -> Path:
    """The folder whose ``sitecustomize`` a process that runs on a simulated GPU is to have on its ``PYTHONPATH``."""
    return Path(__file__).parent / "start"
