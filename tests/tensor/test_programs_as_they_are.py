"""``compile``, ``jit`` and ``onnx``: programs run as they are, or are refused."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest

import nn
import tensor
from tensor.jit import _notice
from tests.pytorch import torch


def _double(x: Any) -> Any:
    return 2 * x


def test_a_compiled_module_stays_what_it_is() -> None:
    model = nn.Linear(2, 2)
    assert tensor.compile(model) is model
    assert list(model.state_dict()) == ["weight", "bias"]
    assert tensor.compile(_double, disable=True) is tensor.compile(_double, backend="eager") is _double
    compiled = tensor.compile(_double, mode="max-autotune", fullgraph=True, dynamic=None, backend="inductor")
    assert compiled.__wrapped__ is _double
    assert compiled(3) == 6
    assert tensor.compile(mode="reduce-overhead")(_double)(2) == 4
    assert tensor.compiler.compile is tensor.compile


def test_compile_checks_its_arguments() -> None:
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default, lite"):
        tensor.compile(_double, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        tensor.compile(_double, mode="default", options={})
    with pytest.raises(TypeError, match="int is provided"):
        tensor.compile(3)
    with pytest.raises(TypeError, match="list is provided"):
        tensor.compile()([1])


def test_compiler() -> None:
    compiler = tensor.compiler
    assert compiler.disable(_double)(2) == compiler.disable(recursive=False)(_double)(2) == 4
    assert compiler.allow_in_graph(_double) is compiler.assume_constant_result(_double) is _double
    assert not (compiler.is_compiling() or compiler.is_dynamo_compiling() or compiler.is_exporting())
    assert compiler.list_backends() == ["fused"]
    compiler.reset()
    compiler.cudagraph_mark_step_begin()


@pytest.mark.parity
def test_signatures_are_pytorchs() -> None:
    for ours, theirs in (
        (tensor.compile, torch.compile),
        (tensor.compiler.disable, torch.compiler.disable),
        (tensor.jit.script, torch.jit.script),
        (tensor.jit.trace, torch.jit.trace),
        (tensor.hub.load_state_dict_from_url, torch.hub.load_state_dict_from_url),
        (tensor.hub.load, torch.hub.load),
        (tensor.hub.list, torch.hub.list),
        (tensor.hub.help, torch.hub.help),
    ):
        parameters = [
            [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]
            for function in (ours, theirs)
        ]
        assert parameters[0] == parameters[1]
    for message, options in (
        ("Unrecognized mode=fast, should be one of: default, lite", {"mode": "fast"}),
        ("Either mode or options can be specified", {"mode": "default", "options": {}}),
    ):
        for library in (tensor, torch):
            with pytest.raises(RuntimeError, match=message):
                library.compile(_double, **options)


def test_jit_returns_what_it_gets_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_notice, "is_given", False)
    model = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match=r"tensor.jit.script\(\) returns what it is given") as caught:
        assert tensor.jit.script(model) is model
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tensor.jit.script(_double) is _double
        assert tensor.jit.trace(model, tensor.zeros(1, 2), check_trace=False) is model
        assert tensor.jit.trace_module(model, {"forward": tensor.zeros(1, 2)}) is model


def test_jit_decorators() -> None:
    jit = tensor.jit
    assert jit.ignore(_double) is jit.ignore(drop=True)(_double) is _double
    assert jit.unused(_double) is jit.export(_double) is jit.script_if_tracing(_double) is _double
    assert jit.freeze(jit.optimize_for_inference(_double)) is _double
    assert jit.annotate(list[int], [1]) == [1]
    assert jit.isinstance(3, int)
    assert not (jit.is_scripting() or jit.is_tracing())


def test_nothing_is_a_scripted_module() -> None:
    assert not isinstance(nn.Linear(1, 1), tensor.jit.ScriptModule)
    with pytest.raises(RuntimeError, match=r"nn\.Module"):
        tensor.jit.ScriptModule()
    with pytest.raises(RuntimeError, match="call the function itself"):
        tensor.jit.ScriptFunction()
    with pytest.raises(RuntimeError, match="not run from a file"):
        tensor.jit.load("model.pt")
    with pytest.raises(RuntimeError, match="state_dict"):
        tensor.jit.save(nn.Linear(1, 1), "model.pt")


def test_onnx_refuses_before_it_writes(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(RuntimeError, match="cannot be exported to ONNX"):
        tensor.onnx.export(nn.Linear(1, 1), (tensor.zeros(1, 1),), path, opset_version=17)
    assert not path.exists()
    assert not tensor.onnx.is_in_onnx_export()


def test_onnx_helpers_are_there_and_refuse() -> None:
    from tensor.onnx import symbolic_helper, utils

    @symbolic_helper.parse_args("v", "i")
    def symbolic(g: Any, x: Any, dim: int) -> Any:
        return g.op("Softmax", x, axis_i=dim)

    assert symbolic.__name__ == "symbolic"
    with pytest.raises(RuntimeError, match="cannot be exported to ONNX"):
        symbolic(None, None, 1)
    assert symbolic_helper.quantized_args(True)(symbolic).__name__ == "symbolic"
    # As packages do when they are imported.
    utils.register_custom_op_symbolic("mine::op", symbolic, 17)
    utils.unregister_custom_op_symbolic("mine::op", 17)
    assert [*utils.model_signature(nn.Linear(1, 1)).parameters] == ["input"]
    assert [*utils.model_signature(symbolic).parameters] == ["g", "x", "dim"]
    with pytest.raises(AttributeError, match="cannot be exported to ONNX"):
        _ = utils.unconvertible_ops
    from tensor.onnx import symbolic_opset11

    with pytest.raises(AttributeError, match="cannot be exported to ONNX"):
        _ = symbolic_opset11.unsqueeze


def test_onnx_shapes_are_tensors(device_name: str) -> None:
    operators = tensor.onnx.operators
    x = tensor.arange(6.0, device=device_name).reshape(2, 3)
    shape = operators.shape_as_tensor(x)
    assert (shape.dtype, shape.tolist(), shape.device.type) == (tensor.int64, [2, 3], "cpu")
    assert operators.reshape_from_tensor_shape(x, tensor.tensor([3, -1])).tolist() == x.reshape(3, 2).tolist()


@pytest.mark.parity
def test_onnx_shapes_are_pytorchs() -> None:
    from torch.onnx import operators as theirs

    ours = tensor.onnx.operators
    for m, operators in ((tensor, ours), (torch, theirs)):
        shape = operators.shape_as_tensor(m.zeros(2, 0, 3))
        assert (shape.tolist(), str(shape.dtype).split(".")[1]) == ([2, 0, 3], "int64")
        assert operators.reshape_from_tensor_shape(m.zeros(2, 3), m.tensor([-1])).tolist() == [0.0] * 6


def test_settings_of_compilers_are_taken() -> None:
    dynamo, inductor = tensor._dynamo, tensor._inductor
    assert dynamo.config.suppress_errors is False
    dynamo.config.suppress_errors = True
    with dynamo.config.patch(suppress_errors=False, cache_size_limit=64):
        assert (dynamo.config.suppress_errors, dynamo.config.cache_size_limit) == (False, 64)
    assert (dynamo.config.suppress_errors, dynamo.config.cache_size_limit) == (True, 8)
    dynamo.config.suppress_errors = False
    with inductor.config.patch("max_autotune", True), inductor.config.patch({"new": 1}):
        assert (inductor.config.max_autotune, inductor.config.new) == (True, 1)
    assert not inductor.config.max_autotune
    assert not hasattr(inductor.config, "new")
    inductor.config.triton.unique_kernel_names = True


def test_calls_of_the_compiler() -> None:
    dynamo = tensor._dynamo
    x = tensor.ones(2)
    dynamo.mark_dynamic(x, 0, min=2)
    dynamo.maybe_mark_dynamic(x, 0)
    dynamo.mark_static(x)
    dynamo.mark_static_address(x)
    dynamo.graph_break()
    dynamo.reset()
    assert dynamo.disable(_double)(2) == dynamo.disallow_in_graph(_double)(2) == 4
    assert not dynamo.is_compiling()
    assert not dynamo.utils.is_compile_supported("cuda")
    assert tensor.jit._overload_method(_double) is _double


@pytest.mark.parity
def test_settings_are_pytorchs() -> None:
    import torch._dynamo.config
    import torch._inductor.config

    for ours, theirs in (
        (tensor._dynamo.config, torch._dynamo.config),
        (tensor._inductor.config, torch._inductor.config),
    ):
        for name, value in vars(ours).items():
            if type(value) in (bool, int):
                assert getattr(theirs, name) == value, name


def test_marks_of_quantization_change_nothing() -> None:
    marks = tensor.ao.quantization
    x = tensor.ones(2)
    model = nn.Sequential(marks.QuantStub(), nn.Identity(), marks.DeQuantStub("how"))
    assert model(x) is x
    assert model[2].qconfig == "how"
    assert not [*model.parameters()]
    with pytest.raises(AttributeError, match="no quantized dtypes"):
        _ = marks.prepare
    with pytest.raises(AttributeError, match="no quantized dtypes"):
        _ = tensor.ao.nn


def test_progress_bars_of_the_hub() -> None:
    tqdm = pytest.importorskip("tqdm.auto").tqdm
    assert tensor.hub.tqdm is tqdm
    assert tensor.utils.model_zoo.tqdm is tqdm
    with pytest.raises(AttributeError, match="load_state_dict_from_url"):
        _ = tensor.hub.load_state_dict_fromurl
