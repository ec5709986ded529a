"""An operation that a contributor adds to its family's file, in one piece of code, has everything that the others have.

The packages are copied, the pieces are appended to the copies of the families' files, and a program uses them there. (An
optimizer is added in ``tests/nn/optim/test_definition.py``.)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PACKAGES = ("drv", "nvrtc_kernels", "tensor", "nn", "tools")

PIECES = {
    "tensor/operations/pointwise/arithmetic.py": '''

HALF_SQUARE = Pointwise(
    "half_square",
    "a * a / 2",
    lambda a: a * a / 2,
    rule=rules.floating,
    derivatives=(lambda grad, a: MUL.binary(grad, a),),
)


@operation(in_place=True, also="squared_half tensor.half_square_", autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def half_square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Half of the square of each element: the contributor's words."""
    return HALF_SQUARE.out(out, input)
''',
    "tensor/operations/reductions/sums.py": '''

MEAN_SQUARE = Reduction(
    "mean_square",
    reducers.MEAN._replace(name="mean_square", code="a * a"),
    lambda a, axes: mean_form(a * a, axes),
    _floating_only("mean_square"),
)
_MEAN_SQUARE_BACKWARD = BackwardFormula(
    "MeanSquareBackward0",
    "a",
    [
        Derivative(
            lambda grad, a, shape, axes, keepdim, count: stretched(grad, shape, axes, keepdim) * a * (2 / count),
            needs="a",
        )
    ],
)


@operation(autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def mean_square(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Mean of squares over the dimensions ``dim``: the contributor's words."""
    axes = axes_of("mean_square", input, dim)
    results = MEAN_SQUARE(input, axes, keepdim)
    shape = input._layout.shape
    count = product_of(shape[axis] for axis in axes)
    _MEAN_SQUARE_BACKWARD.record(results, (input,), context=(shape, axes, keepdim, count))
    return into_out(results[0], out, "mean_square")
''',
    "tensor/operations/losses/elementwise.py": '''

FOURTH = difference_loss(
    "fourth_power_loss",
    value=("{d} * {d} * {d} * {d}", lambda d: d**4),
    slope=("{T}(4) * {d} * {d} * {d}", lambda d: 4 * d**3),
    curvature=("{T}(12) * {d} * {d}", lambda d: 12 * d**2, lambda d: 12 * d * d),
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def fourth_power_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Fourth power of the difference: the contributor's words."""
    return compared(FOURTH, input, target, None, reduction)
''',
}
#: What a piece needs beside what its file has imported already.
IMPORTS = {"tensor/operations/reductions/sums.py": "from dataclasses import replace\n"}

PROGRAM = """
import inspect, pydoc, sys
import drv, nn, tensor
from nn.functional import fourth_power_loss
from tensor.autograd import gradcheck, gradgradcheck

drv.simulator.install(check="full")


def close(left, right):
    assert left.dtype is right.dtype and left.shape == right.shape, (left, right)
    assert tensor.allclose(left.cpu(), right.cpu(), rtol=1e-5), (left, right)


for device in ("cpu", "cuda"):
    x = tensor.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]], device=device)
    y = x * 0.5 + 1
    # function, method, alias, out=, in place
    close(tensor.half_square(x), x * x / 2)
    close(x.half_square(), x * x / 2)
    close(tensor.squared_half(x), x * x / 2)
    close(tensor.half_square(x, out=tensor.empty(0, device=device)), x * x / 2)
    close(x.clone().half_square_(), x * x / 2)
    close(x.clone().squared_half_(), x * x / 2)
    close(tensor.half_square_(x.clone()), x * x / 2)
    close(tensor.mean_square(x), (x * x).mean())
    close(x.mean_square(1, keepdim=True), (x * x).mean(1, keepdim=True))
    close(x.mean_square(axis=0), (x * x).mean(0))
    close(tensor.mean_square(x, 0, out=tensor.empty(0, device=device)), (x * x).mean(0))
    for reduction in ("none", "mean", "sum"):
        expected = (x - y) ** 4
        expected = expected if reduction == "none" else getattr(expected, reduction)()
        close(fourth_power_loss(x, y, reduction), expected)
    # autocast: float32 whatever comes in
    with tensor.autocast(device, dtype=tensor.bfloat16):
        half = x.to(tensor.bfloat16)
        assert tensor.half_square(half).dtype is half.half_square().dtype is tensor.float32
        assert half.mean_square().dtype is tensor.float32
        assert fourth_power_loss(half, half).dtype is tensor.float32
    # first and second derivatives
    a = x.double().requires_grad_()
    b = y.double().requires_grad_()
    for function, inputs in (
        (tensor.half_square, (a,)),
        (lambda a: a.mean_square(1), (a,)),
        (lambda a, b: fourth_power_loss(a, b, "sum"), (a, b)),
    ):
        assert gradcheck(function, inputs) and gradgradcheck(function, inputs)
    clone = a.clone()
    assert clone.half_square_().grad_fn.name() == "HalfSquareBackward0"
    assert a.mean_square().grad_fn.name() == "MeanSquareBackward0"

# bad input is explained
try:
    tensor.half_square("text")
except TypeError as error:
    assert "half_square" in str(error)
else:
    raise AssertionError("no error")

# help(), source, public names
for function in (tensor.half_square, tensor.Tensor.half_square, tensor.mean_square, tensor.Tensor.mean_square, fourth_power_loss):
    assert "the contributor's words" in pydoc.render_doc(function)
    assert "the contributor's words" in inspect.getsource(function)
assert {"half_square", "half_square_", "squared_half", "mean_square"} <= set(tensor.__all__)
assert not {"squared_half_", "fourth_power_loss"} & set(tensor.__all__)
assert "fourth_power_loss" in nn.functional.__all__
assert not drv.simulator.findings()
print("all there")
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the packages in which the pieces stand at the end of their families' files."""
    # With their bytecode; what another process is just writing of that has a longer name.
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name, piece in PIECES.items():
        path = tmp_path / name
        text = path.read_text(encoding="utf-8")
        future = "from __future__ import annotations\n"
        text = text.replace(future, future + IMPORTS.get(name, ""), 1)
        path.write_text(text + piece, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_one_piece_of_code_is_enough(copied: Path) -> None:
    (copied / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = run(copied, "program.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "all there"


def test_the_stubs_have_it_too(copied: Path) -> None:
    done = run(copied, "-m", "tools.stubs")
    assert done.returncode == 0, done.stdout + done.stderr
    functions = (copied / "tensor/__init__.pyi").read_text(encoding="utf-8")
    assert "from tensor.operations.pointwise.arithmetic import half_square\n" in functions
    assert "import half_square as squared_half\n" in functions
    assert "half_square_ = OperationMethods.half_square_\n" in functions
    assert "from tensor.operations.reductions.sums import mean_square\n" in functions
    methods = (copied / "tensor/methods/operation_methods.pyi").read_text(encoding="utf-8")
    assert "def half_square_(self) -> Tensor: ..." in methods
    assert (
        "def mean_square(self, dim: Any=..., keepdim: builtins.bool=..., *, out: Tensor | None=...)"
        in methods.replace("keepdim: bool", "keepdim: builtins.bool")
    )
    losses = (copied / "nn/functional/__init__.pyi").read_text(encoding="utf-8")
    assert "from tensor.operations.losses.elementwise import fourth_power_loss\n" in losses
    # Once written, they are current.
    assert run(copied, "-m", "tools.stubs", "--check").returncode == 0
