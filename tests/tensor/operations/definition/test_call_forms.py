"""How functions and methods may be called: by name, with NumPy's names, and what they say of themselves."""

from __future__ import annotations

import inspect
import pickle

import pytest

import tensor
from tests.tensor.expressions import assert_expression

NUMPY_NAMES: list[str] = [
    "x.sum(axis=1)",
    "x.sum(axis=(0, 1))",
    "x.sum(axis=None)",
    "x.sum(axis=1, keepdims=True)",
    "x.sum(1, keepdims=True)",
    "x.sum(1, True)",
    "x.mean(axis=0)",
    "x.std(axis=1)",
    "x.var(axis=-1, keepdims=True)",
    "x.prod(axis=1)",
    "x.any(axis=1)",
    "x.all(axis=1)",
    "x.argmax(axis=1)",
    "x.argmin(axis=1, keepdims=True)",
    "x.amax(axis=1)",
    "x.max(axis=1)[0]",
    "x.min(axis=1, keepdims=True)[1]",
    "x.sort(axis=0)[0].tolist()",
    "x.argsort(axis=1)",
    "x.topk(2, axis=1)[0]",
    "x.median(axis=1)[0]",
    "x.logsumexp(axis=1).shape",
    "x.softmax(axis=1).shape",
    "x.log_softmax(axis=1).shape",
    "x.cumsum(axis=1)",
    "x.cumprod(axis=0)",
    "x.squeeze(axis=0)",
    "x.unsqueeze(axis=1)",
    "x.select(axis=1, index=0)",
    "x.select(1, index=0)",
    "x.narrow(axis=1, start=0, length=1)",
    "x.index_select(axis=0, index=m.tensor([1], **on))",
    "x.gather(axis=0, index=m.tensor([[1]], **on))",
    "x.unbind(axis=1)",
    "x.chunk(2, axis=1)",
    "m.sum(x, axis=1)",
    "m.sum(input=x, axis=1)",
    "m.cat([x, x], axis=1)",
    "m.stack([x, x], axis=2)",
    "m.softmax(x, axis=1).shape",
    "m.unsqueeze(x, axis=0)",
    "m.argmax(x, axis=1)",
    "m.mean(x, axis=1, keepdims=True)",
    "m.squeeze(x, axis=0)",
    "m.concatenate([x, x], axis=0)",
]

BY_NAME: list[str] = [
    "m.add(input=x, other=x, alpha=2)",
    "m.mul(input=x, other=2)",
    "m.matmul(input=x, other=x.t())",
    "m.transpose(input=x, dim0=0, dim1=1)",
    "m.permute(x, dims=(1, 0))",
    "m.permute(x, (1, 0))",
    "x.permute(1, 0)",
    "m.permute(input=x, dims=(1, 0))",
    "m.reshape(input=x, shape=(3, 2))",
    "x.reshape(shape=(3, 2))",
    "m.tile(input=x, dims=(2,))",
    "m.flip(input=x, dims=(0,))",
    "m.roll(input=x, shifts=1, dims=0)",
    "m.movedim(input=x, source=0, destination=1)",
    "m.flatten(input=x, start_dim=0, end_dim=1)",
    "m.squeeze(input=x, dim=0)",
    "m.cat(tensors=[x, x], dim=1)",
    "m.stack(tensors=[x, x], dim=1)",
    "m.split(tensor=x, split_size_or_sections=1, dim=0)",
    "m.chunk(input=x, chunks=2, dim=1)",
    "m.unbind(input=x, dim=1)",
    "m.gather(input=x, dim=0, index=m.tensor([[0]], **on))",
    "m.index_select(input=x, dim=0, index=m.tensor([0], **on))",
    "m.where(condition=x > 1, input=x, other=x)",
    "m.clamp(input=x, min=1, max=2)",
    "m.sum(input=x, dim=1, keepdim=True)",
    "m.std(input=x, dim=1, correction=0)",
    "m.var(input=x, dim=1, unbiased=False)",
    "m.norm(input=x, p=2, dim=1)",
    "m.topk(input=x, k=1, dim=1, largest=False)[0]",
    "m.sort(input=x, dim=1, descending=True)[0]",
    "m.einsum('ij->ji', x)",
    "m.tensordot(a=x, b=x.t(), dims=1)",
    "m.pow(input=x, exponent=2)",
    "m.full(size=(2,), fill_value=1, **on)",
    "m.arange(start=0, end=4, step=2, **on)",
    "m.masked_fill(input=x, mask=x > 1, value=0)",
    "m.lerp(input=x, end=x, weight=0.5)",
    "m.addmm(input=x[:, :2], mat1=x, mat2=x.t()[:, :2])",
    "m.cumsum(input=x, dim=1)",
    "m.diff(input=x, n=1, dim=1)",
    "x.new_zeros(size=(2,))",
    "x.clone().copy_(x, non_blocking=True)",
    "x.clone().fill_(value=3)",
    "x.size(dim=1)",
    "x.stride(dim=0)",
    "x.new_tensor(data=[1])",
    "x.type(dtype=m.int32)",
    "x.unflatten(dim=1, sizes=(3, 1))",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", NUMPY_NAMES + BY_NAME)
@pytest.mark.sampled(3)
def test_arguments_by_name(text: str, device_name: str) -> None:
    result, _ = assert_expression(_with_x(text), device_name)
    assert not isinstance(result, Exception), result


def _with_x(text: str) -> str:
    return f"(lambda x: {text})(m.tensor([[3.0, 1.0, 2.0], [0.5, 4.0, 1.5]], **on))"


ERRORS: list[str] = [
    "x.sum(1, axis=1)",
    "x.sum(dim=1, axis=1)",
    "x.sum(1, True, keepdims=True)",
    "x.select(axis=1)",
    "x.select(0)",
    "x.unsqueeze()",
    "x.sum(axes=1)",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", ERRORS)
def test_errors(text: str, device_name: str) -> None:
    result, _ = assert_expression(_with_x(text), device_name)
    assert isinstance(result, TypeError)


def test_errors_say_which_arguments() -> None:
    x = tensor.ones(2, 3)
    with pytest.raises(TypeError, match="got arguments 'dim' and 'axis', which mean the same"):
        x.sum(1, axis=1)
    with pytest.raises(TypeError, match="missing 1 required argument: 'index'"):
        x.select(1)


def test_functions_keep_their_names_and_signatures() -> None:
    assert pickle.loads(pickle.dumps(tensor.flatten)) is tensor.flatten
    assert tensor.flatten.__name__ == "flatten"
    assert tensor.absolute is tensor.abs
    assert tensor.moveaxis is tensor.movedim
    assert list(inspect.signature(tensor.flatten).parameters) == ["input", "start_dim", "end_dim"]
    assert inspect.signature(tensor.flatten).parameters["end_dim"].default == -1
    assert tensor.flatten.__doc__ == tensor.Tensor.flatten.__doc__


def test_an_attribute_error_of_the_users_stays() -> None:
    class Index:
        def __index__(self) -> int:
            raise AttributeError("mine")

    with pytest.raises(AttributeError, match="mine"):
        tensor.select(tensor.ones(2), 0, Index())


def test_methods_keep_their_names_and_signatures() -> None:
    assert tensor.Tensor.sum.__qualname__ == "Tensor.sum"
    assert pickle.loads(pickle.dumps(tensor.Tensor.sum)) is tensor.Tensor.sum
    assert "axis" not in inspect.signature(tensor.Tensor.sum).parameters
    assert inspect.signature(tensor.Tensor.sum).parameters["keepdim"].default is False


#: Forms of PyTorch's operators that Python does not reach, or that are of no use here.
_UNREACHED = {
    ("copy_", "other"), ("cholesky_solve", "input2"), ("orgqr", "input2"), ("ormqr", "input2"), ("ormqr", "input3"),
    ("record_stream", "s"), ("sort", "reverse"), ("split", "separator"), ("split", "max"), ("split", "split_sizes"),
    ("tensor_split", "tensor_indices_or_sections"), ("to", "other"), ("to", "layout"), ("to", "pin_memory"), ("is_pinned", "device"),
    ("pin_memory", "device"), ("addmm", "out_dtype"), ("baddbmm", "out_dtype"), ("bmm", "out_dtype"), ("mm", "out_dtype"), ("add_", "b"),
}  # fmt: skip


@pytest.mark.parity
def test_methods_take_pytorchs_names_of_arguments() -> None:
    """Every argument of every overload of a method can be given by the name that PyTorch has for it."""
    torch = pytest.importorskip("torch")
    missing = set()
    for name in dir(tensor.Tensor):
        method = getattr(tensor.Tensor, name)
        if name.startswith("_") or not hasattr(torch.Tensor, name) or not inspect.isfunction(method):
            continue
        parameters = inspect.signature(method).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            continue
        known = {each.name for each in parameters.values() if each.kind is not each.VAR_POSITIONAL}
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
            argument = schema.arguments
            if (
                not argument
                or argument[0].name != "self"
                or any(x.is_out or "Dimname" in str(x.type) for x in argument)
            ):
                continue
            missing |= {(name, x.name) for x in argument[1:] if x.name not in known and x.name != "names"}
    assert not missing - _UNREACHED


def test_sequences_by_name() -> None:
    x = tensor.arange(6).view(size=(2, 3))
    assert x.permute(dims=(1, 0)).equal(x.t())
    assert tensor.permute(x, dims=(1, 0)).equal(x.t())
    assert x.repeat(repeats=(2, 1)).equal(x.repeat(2, 1))
    assert x.tile(dims=(2,)).equal(x.tile(2))
    assert x.flip(dims=(0,)).equal(x.flip(0))
    assert x.expand(size=(4, 2, 3)).equal(x.broadcast_to(4, 2, 3))
    assert x.sum_to_size(size=(1, 3)).equal(x.sum(0, True))
    assert x.view(dtype=tensor.int32).shape == (2, 6)
    assert x.clone().resize_(size=(3, 2)).shape == (3, 2)
    assert x.max(other=x + 1).equal(x + 1)
    assert x.tensor_split(sections=2)[1].equal(x[1:])
    assert x.hsplit(indices=(1,))[0].equal(x[:, :1])
    with pytest.raises(TypeError, match="sizes twice"):
        x.permute(1, 0, dims=(1, 0))
    with pytest.raises(TypeError, match="by one name"):
        x.tensor_split(2, sections=2)
    with pytest.raises(ValueError, match="64 bits"):
        x.tensor_split(2**63)
