"""What Python imports when it starts, in the processes of a command that runs on a simulated GPU.

It connects the library that stands in the place of CUDA's driver, and loads the simulator only if the library is used.
"""

import ctypes
import os
import sys


def _connect(folder):
    library = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)

    @ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)
    def resolve(number):
        from drv.simulator.outsiders import child

        return child.resolve(number)

    ctypes.c_size_t.in_dll(library, "graphroot_slots").value = ctypes.cast(resolve, ctypes.c_void_p).value
    # When Python has ended, the library's functions answer without it.
    ctypes.pythonapi.Py_AtExit(library.graphroot_end)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(resolve))


def _next_sitecustomize():
    """Run the ``sitecustomize`` that this one has hidden."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [each for each in sys.path if os.path.abspath(each) != here]
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


_root = os.path.abspath(__file__)
for _ in range(5):
    _root = os.path.dirname(_root)
if _root not in sys.path:
    sys.path.append(_root)
if os.environ.get("GRAPHROOT_LIBCUDA"):
    _connect(os.environ["GRAPHROOT_LIBCUDA"])
_next_sitecustomize()
