"""``Module``: attributes, members, modes, conversions, text, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import drv
import nn
import tensor
from tests.nn.parity import assert_like_pytorch


class Leaf(nn.Module):
    """A parameter, a buffer, and one that is not kept."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensor.arange(size, dtype=tensor.float32))
        self.register_buffer("count", tensor.zeros((), dtype=tensor.int64))
        self.register_buffer("cache", tensor.ones(2), persistent=False)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return x * self.weight


class Tree(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = Leaf()
        self.right = Leaf()
        self.same = self.left
        self.scale = nn.Parameter(tensor.ones(1))

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return self.right(self.left(x)) * self.scale


def tree_of(lib: Any, nn: Any) -> Any:
    """The tree above for either library."""

    class Leaf(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(lib.arange(3, dtype=lib.float32))
            self.register_buffer("count", lib.zeros((), dtype=lib.int64))
            self.register_buffer("cache", lib.ones(2), persistent=False)
            self.register_parameter("bias", None)

        def extra_repr(self) -> str:
            return "size=3"

        def forward(self, x: Any) -> Any:
            return x * self.weight

    class Tree(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.left = Leaf()
            self.right = Leaf()
            self.same = self.left
            self.scale = nn.Parameter(lib.ones(1))
            self.add_module("nothing", None)

        def forward(self, x: Any) -> Any:
            return self.right(self.left(x)) * self.scale

    return Tree()


PROGRAMS = {
    "named_parameters": lambda lib, nn: [name for name, _ in tree_of(lib, nn).named_parameters()],
    "named_parameters prefix": lambda lib, nn: [
        name for name, _ in tree_of(lib, nn).named_parameters("model")
    ],
    "named_parameters own": lambda lib, nn: [
        name for name, _ in tree_of(lib, nn).named_parameters(recurse=False)
    ],
    "named_parameters twice": lambda lib, nn: [
        name for name, _ in tree_of(lib, nn).named_parameters(remove_duplicate=False)
    ],
    "named_buffers": lambda lib, nn: list(tree_of(lib, nn).named_buffers()),
    "named_modules": lambda lib, nn: [
        (name, type(module).__name__) for name, module in tree_of(lib, nn).named_modules()
    ],
    "named_modules twice": lambda lib, nn: [
        name for name, _ in tree_of(lib, nn).named_modules(remove_duplicate=False)
    ],
    "named_children": lambda lib, nn: [name for name, _ in tree_of(lib, nn).named_children()],
    "counts": lambda lib, nn: [
        len(list(getattr(tree_of(lib, nn), each)()))
        for each in ("parameters", "buffers", "modules", "children")
    ],
    "repr": lambda lib, nn: repr(tree_of(lib, nn)),
    "state_dict": lambda lib, nn: tree_of(lib, nn).state_dict(),
    "state_dict prefix": lambda lib, nn: list(tree_of(lib, nn).state_dict(prefix="x.")),
    "metadata": lambda lib, nn: tree_of(lib, nn).state_dict()._metadata,
    "get_submodule": lambda lib, nn: repr(tree_of(lib, nn).get_submodule("left")),
    "get_submodule self": lambda lib, nn: repr(tree_of(lib, nn).get_submodule("")),
    "get_submodule missing": lambda lib, nn: tree_of(lib, nn).get_submodule("left.x"),
    "get_submodule parameter": lambda lib, nn: tree_of(lib, nn).get_submodule("scale"),
    "get_parameter": lambda lib, nn: tree_of(lib, nn).get_parameter("right.weight"),
    "get_parameter buffer": lambda lib, nn: tree_of(lib, nn).get_parameter("right.count"),
    "get_buffer": lambda lib, nn: tree_of(lib, nn).get_buffer("right.count"),
    "get_buffer parameter": lambda lib, nn: tree_of(lib, nn).get_buffer("right.weight"),
    "no attribute": lambda lib, nn: tree_of(lib, nn).nothing_there,
    "None child": lambda lib, nn: tree_of(lib, nn).nothing,
    "None parameter": lambda lib, nn: tree_of(lib, nn).left.bias,
    "train": lambda lib, nn: [each.training for each in tree_of(lib, nn).eval().modules()],
    "train number": lambda lib, nn: tree_of(lib, nn).train(1),
    "requires_grad_": lambda lib, nn: [
        each.requires_grad for each in tree_of(lib, nn).requires_grad_(False).parameters()
    ],
    "arguments": lambda lib, nn: nn.Module(1),
    "keyword": lambda lib, nn: nn.Module(x=1),
    "no forward": lambda lib, nn: nn.Module()(1),
    "parameter text": lambda lib, nn: repr(nn.Parameter(lib.ones(2))),
    "frozen parameter text": lambda lib, nn: str(nn.Parameter(lib.ones(2), requires_grad=False)),
    "parameter of nothing": lambda lib, nn: tuple(nn.Parameter().shape),
    "parameter of integers": lambda lib, nn: nn.Parameter(lib.zeros(2, dtype=lib.int64)),
    "dir": lambda lib, nn: [
        each
        for each in dir(tree_of(lib, nn))
        if each in ("left", "right", "scale", "training", "forward", "nothing", "missing")
    ],
    "to ints": lambda lib, nn: tree_of(lib, nn).to(lib.int64),
    "to double": lambda lib, nn: [
        str(each.dtype) for each in tree_of(lib, nn).to(lib.float64).state_dict().values()
    ],
    "half": lambda lib, nn: [str(each.dtype) for each in tree_of(lib, nn).half().state_dict().values()],
    "bfloat16": lambda lib, nn: [
        str(each.dtype) for each in tree_of(lib, nn).bfloat16().state_dict().values()
    ],
    "type": lambda lib, nn: [
        str(each.dtype) for each in tree_of(lib, nn).type(lib.float64).state_dict().values()
    ],
    "to nothing": lambda lib, nn: tree_of(lib, nn).to("nowhere"),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_pytorch(name: str) -> None:
    assert_like_pytorch(PROGRAMS[name])


@pytest.mark.parametrize("cls", [nn.Parameter, nn.Buffer])
def test_only_tensors_are_parameters(cls: Any) -> None:
    with pytest.raises(TypeError, match="wants a Tensor, got list"):
        cls([1.0])


def assigned(name: str, make: Any) -> Any:
    """A program that assigns an attribute of a leaf, and tells what the leaf then has."""

    def program(lib: Any, nn: Any) -> Any:
        module = tree_of(lib, nn)
        setattr(module, name, make(lib, nn))
        value = getattr(module, name)
        return (
            type(value).__name__,
            [each for each, _ in module.named_parameters(recurse=False)],
            [each for each, _ in module.named_buffers(recurse=False)],
            [each for each, _ in module.named_children()],
            sorted(each for each in module.__dict__ if not each.startswith("_")),
        )

    return program


ASSIGNED = {
    "number": lambda lib, nn: 5,
    "none": lambda lib, nn: None,
    "tensor": lambda lib, nn: lib.ones(2),
    "parameter": lambda lib, nn: nn.Parameter(lib.ones(2)),
    "buffer": lambda lib, nn: nn.Buffer(lib.ones(2)),
    "module": lambda lib, nn: nn.Module(),
}


@pytest.mark.parity
@pytest.mark.parametrize("value", ASSIGNED)
@pytest.mark.parametrize("name", ["left", "scale", "fresh", "nothing", "training"])
def test_assignment(name: str, value: str) -> None:
    def program(lib: Any, nn: Any) -> Any:
        result = assigned(name, ASSIGNED[value])(lib, nn)
        # A buffer has a class of its own here.
        return ["Tensor" if each == "Buffer" else each for each in result]

    assert_like_pytorch(program)


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["parameter", "buffer", "module"])
@pytest.mark.parametrize("name", ["a.b", "", 3, "scale", "left", "fresh", "forward"])
@pytest.mark.parametrize("value", ASSIGNED)
def test_registration(kind: str, name: Any, value: str) -> None:
    def program(lib: Any, nn: Any) -> Any:
        module = tree_of(lib, nn)
        getattr(module, f"register_{kind}")(name, ASSIGNED[value](lib, nn))
        return list(module.state_dict()), [each for each, _ in module.named_children()]

    assert_like_pytorch(program)


@pytest.mark.parity
def test_assignment_before_init() -> None:
    def program(make: Any) -> Any:
        def run(lib: Any, nn: Any) -> Any:
            class Hasty(nn.Module):  # type: ignore[name-defined,misc]
                def __init__(self) -> None:
                    self.x = make(lib, nn)
                    super().__init__()

            return vars(Hasty()).get("x")

        return run

    for make in ASSIGNED.values():
        if make is not ASSIGNED["tensor"]:
            assert_like_pytorch(program(make))


@pytest.mark.parity
def test_computed_parameter_is_refused() -> None:
    def program(lib: Any, nn: Any) -> Any:
        module = nn.Module()
        module.register_parameter("x", nn.Parameter(lib.ones(2)) * 2)

    assert_like_pytorch(program)


def test_deletion() -> None:
    tree = Tree()
    del tree.scale, tree.left, tree.same, tree.right.cache
    assert [name for name, _ in tree.named_parameters()] == ["right.weight"]
    assert [name for name, _ in tree.named_buffers()] == ["right.count"]
    assert tree.right._non_persistent_buffers_set == set()
    with pytest.raises(AttributeError):
        del tree.scale


@pytest.mark.parity
def test_set_submodule() -> None:
    def program(target: Any, strict: bool = False, module: Any = None) -> Any:
        def run(lib: Any, nn: Any) -> Any:
            tree = tree_of(lib, nn)
            tree.set_submodule(target, nn.Module() if module is None else module, strict)
            return [name for name, _ in tree.named_modules()]

        return run

    for target in ("left", "right", "fresh", "left.fresh", "scale", "missing.x", ""):
        for strict in (False, True):
            assert_like_pytorch(program(target, strict))
    assert_like_pytorch(program("left", module=3))


@pytest.mark.parity
def test_apply_goes_from_the_leaves_up() -> None:
    def program(lib: Any, nn: Any) -> Any:
        seen: list[str] = []
        tree = tree_of(lib, nn)
        assert tree.apply(lambda module: seen.append(type(module).__name__)) is tree
        return seen

    assert_like_pytorch(program)


def test_parameters_stay_the_same_objects(device_name: str) -> None:
    tree = Tree()
    before = list(tree.parameters())
    tree(tensor.ones(3)).sum().backward()
    if device_name == "cpu":
        tree.to(tensor.float64)
    else:
        tree.to(device_name)
    assert [id(each) for each in tree.parameters()] == [id(each) for each in before]
    for each in tree.parameters():
        assert isinstance(each, nn.Parameter)
        assert each.device.type == device_name
        assert each.is_leaf
        assert each.requires_grad
        assert each.grad is not None
        assert (each.grad.device, each.grad.dtype) == (each.device, each.dtype)
    # And go on being trained.
    x = tensor.ones(3, device=device_name, dtype=before[0].dtype)
    grads = [each.grad.tolist() for each in before]
    tree(x).sum().backward()
    assert [each.grad.tolist() for each in before] == [[2 * x for x in grad] for grad in grads]


def test_moving_between_devices() -> None:
    drv.simulator.install(devices=2, check="race")
    tree = Tree().cuda(1)
    assert {str(each.device) for each in (*tree.parameters(), *tree.buffers())} == {"cuda:1"}
    assert {str(each.device) for each in tree.to("cuda").state_dict().values()} == {"cuda:0"}
    assert tree.left.count.dtype is tensor.int64
    with pytest.raises(RuntimeError):
        tree.to("cuda:2")
    assert {str(each.device) for each in tree.state_dict().values()} == {"cuda:0"}
    result = tree.to(tensor.ones(1, dtype=tensor.float64))(tensor.ones(3, dtype=tensor.float64))
    assert result.tolist() == [0.0, 1.0, 4.0]
    assert tree.cpu().left.weight.dtype is tensor.float64
    tree.to("cuda", tensor.float16)
    assert tree.left.weight.is_cuda
    assert tree.left.weight.dtype is tensor.float16


def test_to_without_arguments_changes_nothing() -> None:
    tree = Tree()
    memory = [each.data_ptr() for each in tree.parameters()]
    assert tree.to() is tree
    assert tree.to(None) is tree
    assert tree.to("cpu", None, True) is tree
    assert [each.data_ptr() for each in tree.parameters()] == memory


def test_memory_format() -> None:
    module = nn.Module()
    module.kernel = nn.Parameter(tensor.ones(2, 3, 4, 5))
    module.weight = nn.Parameter(tensor.ones(2, 3))
    module.to(memory_format=tensor.channels_last)
    assert module.kernel.is_contiguous(memory_format=tensor.channels_last)
    assert module.weight.is_contiguous()


def test_to_empty(device_name: str) -> None:
    tree = Tree().to_empty(device=device_name)
    assert {each.device.type for each in tree.state_dict().values()} == {device_name}
    assert tuple(tree.left.weight.shape) == (3,)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none: bool) -> None:
    tree = Tree()
    tree(tensor.ones(3)).sum().backward()
    tree.zero_grad(set_to_none)
    for each in tree.parameters():
        if set_to_none:
            assert each.grad is None
        else:
            assert each.grad is not None
            assert not each.grad.any()


def test_copies() -> None:
    tree = Tree()
    tree.left.weight.tag = "old"
    tree(tensor.ones(3)).sum().backward()
    tree.register_forward_hook(_double)
    for result in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert result.left is result.same
        assert result.left.weight is not tree.left.weight
        assert isinstance(result.left.weight, nn.Parameter)
        assert result.left.weight.requires_grad
        assert result.left.weight.grad is None
        assert result(tensor.ones(3)).tolist() == tree(tensor.ones(3)).tolist()
        assert result.left._non_persistent_buffers_set == {"cache"}
    shallow = copy.copy(tree)
    assert shallow.left is tree.left
    assert repr(shallow) == repr(tree)


def _double(_module: Any, _args: Any, output: Any) -> Any:
    return output * 2


@pytest.mark.parity
def test_copy_of_a_parameter() -> None:
    def program(lib: Any, nn: Any) -> Any:
        old = nn.Parameter(lib.ones(2, 3).t(), requires_grad=False)
        result, shallow = copy.deepcopy(old), copy.copy(old)
        return [
            type(result).__name__,
            result.requires_grad,
            result.stride(),
            type(shallow).__name__,
            shallow.data_ptr() == old.data_ptr(),
            type(old + 1).__name__,
            type(old.detach()).__name__,
            type(pickle.loads(pickle.dumps(old))).__name__,
        ]

    assert_like_pytorch(program)


def test_call_super_init() -> None:
    class Mixin:
        def __init__(self, x: int) -> None:
            self.x = x

    class Both(nn.Module, Mixin):
        call_super_init = True

    assert Both(3).x == 3


def test_replicas_have_tables_of_their_own() -> None:
    tree = Tree()
    result = tree._replicate_for_data_parallel()
    result.fresh = Leaf()
    assert "fresh" not in tree._modules
    assert not result._parameters
    assert isinstance(result, Tree)
