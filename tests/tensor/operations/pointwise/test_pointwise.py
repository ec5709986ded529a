"""Every pointwise operation on the CPU and on a device: numbers, types, layouts, results given."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category
from tensor.core.devices import state as places
from tensor.operations import pointwise, special
from tensor.operations.pointwise.glu import glu
from tensor.operations.pointwise_operation import Pointwise
from tests.tensor.operations.operands import KINDS, assert_close, call, on, operands, reference
from tests.tensor.operations.samples import APART, SAMPLES, Sample

#: Modules whose public functions are pointwise operations.
_FAMILIES = [
    each.name
    for package in (pointwise, special)
    for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]
_FLOATS = [sample for sample in SAMPLES if "f" in sample.kinds]
#: Whose kernels on a device are tried with all layouts; those of the others differ by the expression alone.
_LAYOUTS = {"exp", "round-decimals", "add", "lerp-tensors", "where", "eq", "clamp-tensors", "sgn"}
#: Whose kernels on a device are tried with all types.
_TYPES = {"exp", "add", "eq", "sign", "neg", "where", "div", "floor_divide", "clamp", "isnan", "bitwise_not"}


# Whether all are here


def test_every_public_function_has_a_sample() -> None:
    public = {
        name
        for family in _FAMILIES
        for name, found in vars(importlib.import_module(family)).items()
        if inspect.isfunction(found)
        and found.__module__ == family
        and name in tensor.__all__
        # In-place forms are compared with these in test_in_place_forms.py and tests/nn/layers/test_activations.py.
        and not name.endswith("_")
    }
    assert len(public) > 100
    assert public <= {sample.name for sample in SAMPLES} | APART


def test_every_operation_is_reached_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the families, also those of first and second derivatives, is planned by a sample or its gradients."""
    rows: set[Pointwise] = set()
    for family in _FAMILIES:
        rows |= {
            found for found in vars(importlib.import_module(family)).values() if isinstance(found, Pointwise)
        }
    assert len(rows) > 120
    planned: set[Pointwise] = set()
    plan = Pointwise.plan
    monkeypatch.setattr(Pointwise, "plan", lambda self, *kinds: planned.add(self) or plan(self, *kinds))
    places.cpu.plans.clear()
    for sample in SAMPLES:
        for letter in sample.kinds:
            given = [on("cpu", x) for x in operands(sample, KINDS[letter][0], (2, 1))]
            if letter in "fc" and sample.differentiable:
                given = [x.requires_grad_() if x.dtype is not dtypes.bool_ else x for x in given]
            _differentiate_twice(call(sample, given), given)
    x = tensor.tensor([[-1.5, 2.0]], requires_grad=True)
    _differentiate_twice(tensor.prelu(x, tensor.tensor([0.1, 0.2], requires_grad=True)), [x])
    _differentiate_twice(tensor.polar(x, x), [x])
    glu(x).sum().backward()
    tensor.polygamma(2, x)
    for letter in "vw":
        for shifted in ("", "shifted_"):
            getattr(tensor.special, f"{shifted}chebyshev_polynomial_{letter}")(x.detach(), 3)
    tensor.frexp(x)
    tensor.conj_physical(x.detach(), out=tensor.empty(1, 2))
    tensor.nextafter(x.half().detach(), x.half().detach())
    tensor.isclose(x, x, equal_nan=True)
    missing = {row.name for row in rows - planned}
    assert not missing, f"no sample reaches {sorted(missing)}"


def _differentiate_twice(result: Any, given: list[Any]) -> None:
    if not result.requires_grad:
        return
    wanted = [x for x in given if x.requires_grad]
    ones = tensor.ones_like(result).requires_grad_()
    grads = tensor.autograd.grad(result, wanted, ones, create_graph=True, allow_unused=True)
    again = [g for g in grads if g is not None and g.requires_grad]
    if again:
        tensor.autograd.grad(again, [*wanted, ones], [tensor.ones_like(g) for g in again], allow_unused=True)


# Numbers


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
@pytest.mark.sampled(4)
def test_numbers_of_every_type(sample: Sample, device_name: str) -> None:
    for letter in sample.kinds:
        kinds = KINDS[letter]
        if device_name == "cuda" and str(sample) not in _TYPES:
            result = call(sample, [on("cpu", x) for x in operands(sample, kinds[0], (1,))])
            if letter in "bi" and result.dtype.category > Category.INTEGER:
                continue  # the same kernel as for floats, with operands converted
            kinds = kinds[:1]
        for kind in kinds:
            arrays = operands(sample, kind, (23,))
            found = call(sample, [on(device_name, x) for x in arrays])
            assert found.device.type == device_name
            assert_close(found, reference(sample, found.dtype, arrays), sample, f"{sample} of {kind!r}")


@pytest.mark.parametrize("sample", _FLOATS, ids=str)
@pytest.mark.sampled(4)
def test_layouts(sample: Sample, device_name: str) -> None:
    """Strided, broadcast, empty and 0-dim operands give what contiguous copies give."""
    if device_name == "cuda" and str(sample) not in _LAYOUTS:
        pytest.skip("the kernels of others differ by the expression alone")
    kind = dtypes.float32
    for shapes in (((), (), ()), ((0, 3), (0, 3), (0, 3)), ((2, 3), (3,), (2, 1))):
        arrays = operands(sample, kind, *(shapes if sample.operands > 1 else shapes[:1]))
        found = call(sample, [on(device_name, x) for x in arrays])
        assert tuple(found.shape) == np.broadcast_shapes(*[x.shape for x in arrays])
        assert_close(found, reference(sample, found.dtype, arrays), sample, f"{sample} of {shapes}")
    arrays = operands(sample, kind, (6, 8))
    found = call(sample, [on(device_name, x).t()[::2] for x in arrays])
    arrays = [x.T[::2] for x in arrays]
    assert_close(found, reference(sample, found.dtype, arrays), sample, f"{sample} of strided operands")
    # The first stretched, the others in another order.
    arrays = operands(sample, kind, (3, 4, 2))
    first = on(device_name, arrays[0][:, :1])
    others = [on(device_name, x.transpose(2, 0, 1)).permute(1, 2, 0) for x in arrays[1:]]
    found = call(sample, [first.expand(3, 4, 2), *others])
    arrays[0] = np.broadcast_to(arrays[0][:, :1], (3, 4, 2))
    assert_close(found, reference(sample, found.dtype, arrays), sample, f"{sample} of stretched operands")


# Results given


@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.out or each.in_place], ids=str)
@pytest.mark.sampled(4)
def test_results_written_to_given_tensors(sample: Sample, device_name: str) -> None:
    if device_name == "cuda" and not (_LAYOUTS | _TYPES) & {str(sample)}:
        pytest.skip("what writes results is the same for all")
    kind = KINDS["f" if "f" in sample.kinds else sample.kinds[0]][0]
    given = [on(device_name, x) for x in operands(sample, kind, (2, 5))]
    expected = call(sample, given)
    parameters = inspect.signature(sample.function).parameters
    if "out" in parameters and sample.out:
        _check_out(sample, given, expected)
    if not sample.in_place:
        return
    target = given[0].clone()
    method = getattr(target, f"{sample.name}_", None)
    before = target._version
    if "inplace" in parameters:
        found = call(sample, [target, *given[1:]], inplace=True)
    else:
        assert method is not None, f"there is no {sample.name}_"
        found = method(*given[1:], **sample.arguments)
    assert found is target
    assert target._version > before
    _assert_equal(target, expected.to(target.dtype))
    # A strided target, and one that the result would have to stretch.
    base = tensor.zeros(5, 4, dtype=kind, device=device_name)
    view = base[:, ::2].t()
    view.copy_(given[0])
    _in_place(sample, view, given[1:])
    _assert_equal(view, expected.to(kind))
    assert not base[:, 1::2].any()
    if sample.operands > 1:
        with pytest.raises(RuntimeError, match="broadcast"):
            _in_place(sample, given[0][:1].clone(), given[1:])


def _in_place(sample: Sample, target: Any, others: list[Any]) -> None:
    if "inplace" in inspect.signature(sample.function).parameters:
        call(sample, [target, *others], inplace=True)
    else:
        getattr(target, f"{sample.name}_")(*others, **sample.arguments)


#: As in PyTorch, whose other pointwise functions convert.
_OUT_OF_THE_SAME_DTYPE = {"softplus", "logsigmoid", "gelu"}


def _check_out(sample: Sample, given: list[Any], expected: Any) -> None:
    device = given[0].device
    out = tensor.empty(0, dtype=expected.dtype, device=device)
    assert call(sample, given, out=out) is out
    _assert_equal(out, expected)
    # A strided one keeps its strides, and the type is converted.
    wider = {dtypes.float32: dtypes.float64, dtypes.int64: dtypes.float32, dtypes.bool_: dtypes.uint8}
    kind = (
        expected.dtype if sample.name in _OUT_OF_THE_SAME_DTYPE else wider.get(expected.dtype, expected.dtype)
    )
    base = tensor.zeros(5, 4, dtype=kind, device=device)
    view = base[:, 1::2].t()
    strides, address = view.stride(), view.data_ptr()
    assert call(sample, given, out=view) is view
    assert (view.stride(), view.data_ptr()) == (strides, address)
    _assert_equal(view, expected.to(kind))
    assert not base[:, ::2].any()
    if expected.dtype.category > Category.BOOL:
        with pytest.raises(RuntimeError, match="can't be cast|to have dtype"):
            call(sample, given, out=tensor.empty(2, 5, dtype=tensor.bool, device=device))


def test_views_of_one_storage(device_name: str) -> None:
    """Operands may share memory with what is written where no element is read after it has been written."""
    base = tensor.arange(8.0, device=device_name)
    base[::2].add_(base[1::2])
    assert base.tolist() == [1, 1, 5, 3, 9, 5, 13, 7]
    base.mul_(base)
    assert base.tolist() == [1, 1, 25, 9, 81, 25, 169, 49]
    base[:4].copy_(tensor.add(base[4:], 1, out=base[:4]))
    assert base.tolist() == [82, 26, 170, 50, 81, 25, 169, 49]
    matrix = tensor.arange(4.0, device=device_name).view(2, 2)
    tensor.exp(matrix, out=matrix)
    before = matrix.tolist()
    for write in (
        lambda: matrix.add_(matrix.t()),
        lambda: tensor.neg(base[:-1], out=base[1:]),
        lambda: matrix[0].add_(matrix),
    ):
        with pytest.raises(RuntimeError, match="single memory location|broadcast"):
            write()
    assert matrix.tolist() == before


def test_stretched_tensors_are_not_written(device_name: str) -> None:
    x = tensor.zeros(1, device=device_name).expand(3)
    for write in (lambda: x.add_(1), lambda: tensor.exp(tensor.ones(3, device=device_name), out=x)):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert x.tolist() == [0, 0, 0]


def test_devices(device_name: str) -> None:
    """0-dim CPU tensors are numbers to a device; other tensors must be where the first is."""
    x = tensor.ones(2, device=device_name)
    for found in (
        x + tensor.tensor(2.0),
        tensor.tensor(2.0) + x,
        tensor.where(x > 0, x * 3, tensor.tensor(1.0)),
    ):
        assert found.device == x.device
        assert found.tolist() == [3, 3]
    if device_name == "cuda":
        with pytest.raises(RuntimeError, match="same device.*cuda:0.*cpu|same device.*cpu.*cuda:0"):
            x + tensor.ones(2)
        with pytest.raises(RuntimeError, match="same device"):
            tensor.exp(x, out=tensor.empty(2))


def _assert_equal(found: Any, expected: Any) -> None:
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(found.cpu().numpy(), expected.cpu().numpy())
