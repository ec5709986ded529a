"""What the interpreter's end finds left on devices."""

import os
import subprocess
import sys

PROGRAM = """
import os, sys, tensor
# Of a module that is cleared after the others, all of which are cleared as something holds them.
os.modules = [module for name, module in sys.modules.items() if name == "os" or name.startswith(("drv", "tensor"))]
os.held = [tensor.ones(1000, device="cuda") for _ in range(4)]
del os.held[1]
os.held += [tensor.ones(3).pin_memory(), tensor.ones(3), tensor.cuda.Stream(), tensor.cuda.Event()]
os.held += [tensor.cuda.RawKernel('extern "C" __global__ void nothing() {}', "nothing")]
os.held[-1]((1,), (1,), ())
os.held[-2].record(os.held[-3])
"""


def test_memory_that_outlives_the_modules_is_left_silently() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "GRAPHROOT_DRIVER": "simulator"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
