"""What the first training step of a process costs on the simulator, with what earlier processes have left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.simulator_only

#: A training step of a small network, and what was compiled, parsed and translated for it.
STEP = """
import json
import drv
from drv.simulator.api.modules import module_image
from drv.simulator.execution.translation import plan
from nvrtc_kernels import kernel_cache

counts = dict.fromkeys(("compile_program", "parse", "translate"), 0)

def counted(module, name):
    function = getattr(module, name)
    def call(*arguments, **keywords):
        counts[name] += 1
        return function(*arguments, **keywords)
    setattr(module, name, call)

for module, name in ((kernel_cache, "compile_program"), (module_image, "parse"), (plan, "translate")):
    counted(module, name)

import nn
import tensor

drv.simulator.install(check="race")
tensor.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4), nn.GELU()).cuda()
optimizer = nn.optim.AdamW(model.parameters())
loss = model(tensor.randn(3, 8).cuda()).square().mean()
loss.backward()
optimizer.step()
print(json.dumps([counts, loss.item(), [p.sum().item() for p in model.parameters()]]))
"""


def test_known_kernels_are_neither_compiled_nor_parsed_nor_translated(tmp_path: Path) -> None:
    environment = {**os.environ, "GRAPHROOT_CACHE_DIR": str(tmp_path)}

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", STEP], env=environment, stdout=subprocess.PIPE)

    # Two that know nothing of each other fill the cache at the same time.
    together = [started(), started()]
    first, second = (json.loads(process.communicate()[0]) for process in together)
    for counts, *_ in (first, second):
        # What one has kept the other may find.
        assert counts["compile_program"] + counts["parse"] > 0
    counts, *results = json.loads(started().communicate()[0])
    assert counts == {"compile_program": 0, "parse": 0, "translate": 0}
    assert results == first[1:] == second[1:]
