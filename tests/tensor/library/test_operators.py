"""Operators that programs register, and those of ATen, behave as PyTorch's do at its Python level."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING, Any

import pytest

import drv
import tensor
import tensor.library
import tensor.library.custom_operators
import tensor.library.registration
import tensor.library.schemas
import tensor.ops
from tensor.overrides import TorchFunctionMode
from tests.tensor.torch_names.programs import run, run_on_pytorch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def library() -> Iterator[tensor.library.Library]:
    made = tensor.library.Library("operators_of_a_test", "DEF")
    yield made
    made._destroy()


def test_kernels_are_chosen_by_device(library: tensor.library.Library) -> None:
    drv.simulator.install(check="race")
    library.define("where(Tensor x) -> Tensor")
    library.impl("where", lambda x: x + 1, "CPU")
    library.impl("where", lambda x: x + 2, "CUDA")
    operator = tensor.ops.operators_of_a_test.where
    assert operator(tensor.zeros(1)).item() == 1
    assert operator(tensor.zeros(1, device="cuda")).item() == 2
    assert operator.default.has_kernel_for_dispatch_key("CPU")
    assert not operator.default.has_kernel_for_dispatch_key("Autograd")


def test_overloads_are_chosen_by_arguments(library: tensor.library.Library) -> None:
    library.define("kind.Tensor(Tensor x) -> str")
    library.define("kind.int(int x) -> str")
    library.impl("kind.Tensor", lambda x: "tensor", "CompositeExplicitAutograd")
    library.impl("kind.int", lambda x: "int", "CompositeExplicitAutograd")
    kind = tensor.ops.operators_of_a_test.kind
    assert (kind(tensor.ones(1)), kind(3), kind.int(3), kind.overloads()) == (
        "tensor",
        "int",
        "int",
        ["Tensor", "int"],
    )
    with pytest.raises(RuntimeError, match="no overload of operators_of_a_test.kind takes"):
        kind("text")


def test_autograd_kernels_call_what_is_below(library: tensor.library.Library) -> None:
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")

    class Double(tensor.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return tensor.ops.operators_of_a_test.double(x)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 7

    library.impl("double", Double.apply, "Autograd")
    x = tensor.ones(2, requires_grad=True)
    y = tensor.ops.operators_of_a_test.double(x)
    y.sum().backward()
    assert y.tolist() == [2, 2] and x.grad.tolist() == [7, 7]


def test_backward_without_a_formula_warns(library: tensor.library.Library) -> None:
    library.define("plain(Tensor x) -> Tensor")
    library.impl("plain", lambda x: x * 2, "CPU")
    y = tensor.ops.operators_of_a_test.plain(tensor.ones(2, requires_grad=True))
    with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
        y.sum().backward()


def test_libraries_that_nobody_holds_are_forgotten() -> None:
    tensor.library.define("held_by_nobody::stays", "(Tensor x) -> Tensor")
    library = tensor.library.Library("held_by_nobody", "FRAGMENT")
    library.define("goes(Tensor x) -> Tensor")
    library.impl("goes", lambda x: x + 1, "CPU")
    library.impl("stays", lambda x: x + 2, "CPU")
    assert tensor.ops.held_by_nobody.goes(tensor.zeros(1)).item() == 1
    stays = tensor.ops.held_by_nobody.stays
    assert stays(tensor.zeros(1)).item() == 2
    del library
    assert not hasattr(tensor.ops.held_by_nobody, "goes")
    with pytest.raises(NotImplementedError, match="kernels are registered for nothing"):
        stays(tensor.zeros(1))


def test_destroyed_libraries_are_forgotten() -> None:
    library = tensor.library.Library("for_a_moment", "DEF")
    library.define("nothing() -> ()")
    library._destroy()
    assert not hasattr(tensor.ops.for_a_moment, "nothing")
    tensor.library.Library("for_a_moment", "DEF")._destroy()


def test_operators_that_write() -> None:
    @tensor.library.custom_op("operators_of_a_test::through_numpy", mutates_args=("x",))
    def through_numpy(x: tensor.Tensor) -> None:
        x.numpy()[...] = 3

    x = tensor.ones(2)
    before = x._version
    assert through_numpy(x) is None
    assert x.tolist() == [3, 3] and x._version > before
    with pytest.raises(RuntimeError, match="non-functional operator"):
        through_numpy.register_autograd(lambda ctx, gradient: None)


def test_compiled_libraries_are_refused_with_the_reason() -> None:
    with pytest.raises(OSError, match=r"libany.so: compiled operators need PyTorch's C\+\+ libraries"):
        tensor.ops.load_library("libany.so")
    assert not tensor.ops.loaded_libraries
    with pytest.raises(AttributeError, match="no operator torchvision::nms was registered"):
        _ = tensor.ops.torchvision.nms


def test_atens_operators_are_the_functions() -> None:
    x = tensor.rand(3, 4, requires_grad=True)
    assert tensor.equal(tensor.ops.aten.relu.default(x), x.relu())
    assert tensor.equal(tensor.ops.aten.linalg_norm(x), tensor.linalg.norm(x))
    tensor.ops.aten.mul.Tensor(x, x).sum().backward()
    assert tensor.allclose(x.grad, 2 * x)
    assert "addmm" in dir(tensor.ops.aten)
    with pytest.raises(AttributeError, match="did you mean 'relu'"):
        _ = tensor.ops.aten.rellu
    with pytest.raises(AttributeError, match="has no overload name 'Nothing'"):
        _ = tensor.ops.aten.add.Nothing


def test_autocast() -> None:
    @tensor.library.custom_op("operators_of_a_test::same_type", mutates_args=())
    def same_type(x: tensor.Tensor) -> tensor.Tensor:
        return x.clone()

    same_type.register_autocast("cpu", tensor.bfloat16)
    assert same_type(tensor.ones(1)).dtype is tensor.float32
    with tensor.autocast("cpu"):
        assert same_type(tensor.ones(1)).dtype is tensor.bfloat16
    with pytest.raises(ValueError, match="Unknown device type: mps"):
        same_type.register_autocast("mps", tensor.float16)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("nothing", "is no schema"),
        ("f(Tensor) -> Tensor", "'Tensor' is no parameter"),
    ],
)
def test_texts_that_are_no_schemas(library: tensor.library.Library, schema: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        library.define(schema)


@pytest.mark.parametrize(
    "module",
    [tensor.library.custom_operators, tensor.library.registration, tensor.library.schemas, tensor.ops],
)
def test_examples(module: Any) -> None:
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testmod(module, globs={"tensor": tensor}, optionflags=options)
    assert results.failed == 0 and results.attempted > 0


_PROGRAM = '''
from typing import List, Optional, Sequence, Tuple, Union
import torch
import torch.library as L

def show(function):
    """What is returned, or the error up to where PyTorch's words end and further ones of ours begin."""
    try:
        print(function())
    except Exception as error:
        print(type(error).__name__, str(error)[:55])

aten = torch.ops.aten
print(aten.add, aten.add.Tensor, repr(aten.relu.default), aten.add.Tensor.name())
x = torch.linspace(-1, 1, 6).reshape(2, 3)
print(aten.add(x, 2), aten.add.Tensor(x, x, alpha=2), aten._softmax(x, -1, False), aten.mm(x, x.t()))
print(aten.slice.Tensor(x, 1, 0, 2), aten.sum.dim_IntList(x, [1], True), aten.view(x, [3, 2]), aten.t(x))
image = x[None, None]
print(aten.convolution(image, torch.ones(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1))
print(aten.max_pool2d(x[None], [2, 2]), aten.embedding(x, torch.tensor([1])), aten.linalg_norm(x))
print(aten._to_copy(x, dtype=torch.float64), aten.index.Tensor(x, [None, torch.tensor([0])]))
show(lambda: torch.ops.nothing.at_all)
show(lambda: aten.add.Nothing)

@L.custom_op("mine::mul", mutates_args=())
def mul(x: torch.Tensor, k: float, flag: bool = False) -> torch.Tensor:
    return x * k

print(mul, torch.ops.mine.mul, torch.ops.mine.mul.default._schema, mul._opoverload)
x = torch.ones(2, requires_grad=True)
show(lambda: mul(x, 2.0).sum().backward())
mul.register_autograd(
    lambda ctx, g: (g * ctx.k, None, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1])
)
y = mul(x, 2.0)
y.sum().backward()
print(y.tolist(), x.grad, type(y.grad_fn).__name__)

def several(x: torch.Tensor, y: Optional[torch.Tensor] = None, z: Sequence[int] = None, w: List[torch.Tensor] = None,
            s: str = "a", *, n: int = 3, number: Union[int, float, bool] = 1, rates: Optional[List[float]] = None,
            dtype: torch.dtype = torch.float32, v: torch.device = torch.device("cpu"),
            ) -> Tuple[torch.Tensor, torch.Tensor]: ...
def writes(x: torch.Tensor) -> None: ...
show(lambda: L.infer_schema(several, mutates_args=()))
show(lambda: L.infer_schema(lambda x: x, mutates_args=()))
show(lambda: L.infer_schema(writes, mutates_args=("x",)))
show(lambda: L.infer_schema(writes, mutates_args="unknown"))

library = L.Library("ours", "DEF")
library.define("twice(Tensor x, int n=2) -> Tensor")
show(lambda: torch.ops.ours.twice(torch.ones(1)))
library.impl("twice", lambda x, n=2: x * n, "CPU")
print(torch.ops.ours.twice(torch.ones(1)), torch.ops.ours.twice(torch.ones(1), n=3))
show(lambda: torch.ops.ours.twice(3))
show(lambda: torch.ops.ours.twice(torch.ones(1), k=3))
show(lambda: torch.ops.ours.twice())
show(lambda: library.define("twice(Tensor x) -> Tensor"))
show(lambda: L.Library("ours", "DEF"))
show(lambda: L.Library("ours", "OTHER"))
show(lambda: L.Library("aten", "DEF"))
show(lambda: library.impl("twice", 3, "CPU"))

L.define("others::neg", "(Tensor x) -> Tensor")
@L.impl("others::neg", "default")
def _(x): return -x
@L.register_fake("others::neg")
def _(x): return torch.empty_like(x)
print(torch.ops.others.neg(torch.ones(1)))

library.define("both(Tensor a, Tensor[] b) -> (Tensor, Tensor)")
library.impl("both", lambda a, b: (a * b[0], sum(b)), "CompositeImplicitAutograd")
x.grad = None
first, second = torch.ops.ours.both(x, [x, x * 2])
(first + second).sum().backward()
print(x.grad)

@L.custom_op("mine::weighted", mutates_args=())
def weighted(xs: List[torch.Tensor], scale: float) -> torch.Tensor:
    return sum(xs) * scale
def keep(ctx, inputs, output):
    ctx.count, ctx.scale = len(inputs[0]), inputs[1]
weighted.register_autograd(lambda ctx, g: ([g * ctx.scale] * ctx.count, None), setup_context=keep)
x.grad = None
weighted([x, x, x * 2], 3.0).sum().backward()
print(x.grad)
'''


@pytest.mark.parity
def test_programs_print_what_they_print_on_pytorch(tmp_path: Path) -> None:
    assert run(tmp_path, f"import tensor.as_torch\n{_PROGRAM}") == run_on_pytorch(tmp_path, _PROGRAM)


def test_operators_ask_for_overrides(library: tensor.library.Library) -> None:
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    twice = tensor.ops.operators_of_a_test.twice
    asked = []

    class Marked(tensor.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(str(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    class Stand:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return str(func)

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(f"mode of {func}")
            return func(*args, **(kwargs or {}))

    marked, plain = tensor.ones(1).as_subclass(Marked), tensor.ones(1)
    assert type(twice(marked)) is type(twice.default(marked)) is Marked
    assert (twice(Stand()), twice.default(Stand())) == (
        "operators_of_a_test.twice", "operators_of_a_test.twice.default",
    )  # fmt: skip
    with Mode():
        assert tensor.Tensor.item(twice(plain)) == 2
    assert [each for each in asked if "operators_of_a_test" in each] == [
        "operators_of_a_test.twice", "operators_of_a_test.twice.default", "mode of operators_of_a_test.twice",
    ]  # fmt: skip


def test_kernels_for_autocast_take_the_call(library: tensor.library.Library) -> None:
    library.define("kind(Tensor x) -> str")
    library.impl("kind", lambda x: str(x.dtype), "CompositeExplicitAutograd")
    kind = tensor.ops.operators_of_a_test.kind

    def casting(x: tensor.Tensor) -> Any:
        with tensor.autocast("cpu", enabled=False):
            return kind(x.double())

    library.impl("kind", casting, "AutocastCPU")
    library.impl("kind", casting, "AutocastXPU")
    x = tensor.ones(1)
    assert kind(x) == str(tensor.float32)
    with tensor.autocast("cpu"):
        assert kind(x) == str(tensor.float64)
    with tensor.autocast("cuda", enabled=False):
        assert kind(x) == str(tensor.float32)


def test_compiled_libraries_but_torchvisions_are_refused() -> None:
    with pytest.raises(OSError, match="compiled operators need PyTorch's C"):
        tensor.ops.load_library("/somewhere/torchvision/image_stable.so")
    tensor.ops.load_library("/somewhere/torchvision/_C_stable.so")
    boxes, scores = (
        tensor.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1], [5, 5, 6, 6]]),
        tensor.tensor([0.5, 0.9, 0.1]),
    )
    assert tensor.ops.torchvision.nms(boxes, scores, 0.4).tolist() == [1, 2]
    with pytest.raises(NotImplementedError, match="torchvision::qnms"):
        tensor.ops.torchvision.qnms(boxes, scores, 0.4)
