"""Paths and small names by which PyTorch's programs find what is here."""

from __future__ import annotations

import importlib
import math
import multiprocessing.pool
import pickle
import subprocess
import sys
import typing

import numpy as np
import pytest

import nn
import parallel
import tensor
from tests.pytorch import torch

if typing.TYPE_CHECKING:
    from pathlib import Path

    import drv


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("tensor.utils.data.dataloader", "DataLoader", tensor.utils.data.DataLoader),
        ("tensor.utils.data.dataloader", "default_collate", tensor.utils.data.default_collate),
        ("tensor.utils.data.dataset", "random_split", tensor.utils.data.random_split),
        ("tensor.utils.data.sampler", "Sampler", tensor.utils.data.Sampler),
        ("tensor.utils.data.distributed", "DistributedSampler", tensor.utils.data.DistributedSampler),
        ("tensor.utils.data._utils.collate", "default_collate", tensor.utils.data.default_collate),
        ("tensor.autograd.grad_mode", "no_grad", tensor.no_grad),
        ("tensor.cuda.streams", "Stream", tensor.cuda.Stream),
        ("tensor.utils.model_zoo", "load_url", tensor.hub.load_state_dict_from_url),
        ("nn.parallel", "DistributedDataParallel", parallel.DistributedDataParallel),
        ("nn.parallel", "comm", parallel.comm),
        ("nn.parallel.distributed", "DistributedDataParallel", parallel.DistributedDataParallel),
        ("nn.parallel.scatter_gather", "scatter_kwargs", None),
        ("tensor.accelerator.memory", "empty_cache", tensor.accelerator.empty_cache),
        ("tensor.distributions.relaxed", "LogitRelaxedBernoulli", None),
        ("parallel.multiprocessing.pool", "Pool", multiprocessing.pool.Pool),
        ("parallel.multiprocessing.reductions", "reduce_tensor", None),
        ("parallel.launch.spawning", "SpawnContext", parallel.ProcessContext),
        ("nn.utils.clip_grad", "clip_grad_norm_", nn.utils.clip_grad_norm_),
        ("nn.utils.convert_parameters", "parameters_to_vector", nn.utils.parameters_to_vector),
        ("nn.utils.memory_format", "convert_conv2d_weight_memory_format", None),
        ("parallel.algorithms.ddp_comm_hooks.default_hooks", "allreduce_hook", None),
        ("parallel.algorithms.ddp_comm_hooks", "powerSGD_hook", parallel.ddp_comm_hooks.powerSGD_hook),
        ("parallel.algorithms.join", "Join", parallel.Join),
    ],
)
def test_paths(path: str, name: str, value: object) -> None:
    found = getattr(importlib.import_module(path), name)
    assert found is value or value is None


def test_a_module_by_another_path_is_the_same_module() -> None:
    from parallel.algorithms.ddp_comm_hooks import default_hooks

    from parallel.ddp_comm_hooks import default_hooks as hooks

    assert default_hooks is hooks
    assert parallel.algorithms.ddp_comm_hooks is parallel.ddp_comm_hooks


def test_the_layer_above_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, nn.parallel.distributed, nn.parallel.scatter_gather; assert 'parallel' not in sys.modules; "
        "from nn.parallel import *; import parallel; assert scatter is parallel.modules.scatter"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_communication_is_found_under_cuda() -> None:
    assert tensor.cuda.comm is parallel.comm
    assert "comm" in dir(tensor.cuda)


@pytest.mark.parity
def test_types_of_annotations_are_pytorchs() -> None:
    import torch.nn.common_types as theirs
    import torch.types

    from nn import common_types as ours

    for name in dir(theirs):
        if name.startswith(("_size", "_ratio")):
            text = str(getattr(theirs, name)).replace("typing.Union", "")
            options = typing.get_args(getattr(ours, name))
            assert set(map(str, options)) == set(map(str, typing.get_args(getattr(theirs, name)))), text
    assert set(typing.get_args(tensor.types.Number)) == set(typing.get_args(torch.types.Number))
    assert {str(each) for each in typing.get_args(tensor.types.Device)} - {str(tensor.device)} == {
        str(each) for each in typing.get_args(torch.types.Device)
    } - {str(torch.device)}


def test_symbolic_numbers_are_pythons() -> None:
    assert not isinstance(3, tensor.SymInt | tensor.SymFloat | tensor.SymBool)
    with pytest.raises(RuntimeError, match="no symbolic numbers"):
        tensor.SymInt(3)
    with pytest.raises(TypeError, match="expected int or float, got str"):
        tensor.sym_max(1, "2")
    with pytest.raises(TypeError, match="expected a bool"):
        tensor.sym_ite(1, 2, 3)


@pytest.mark.parity
def test_results_of_symbolic_functions_are_pytorchs() -> None:
    calls = (
        lambda m: m.sym_int(2.7),
        lambda m: m.sym_float(2),
        lambda m: m.sym_max(1, 2.0),
        lambda m: m.sym_max(3, 2.0),
        lambda m: m.sym_min(1, 2),
        lambda m: m.sym_not(True),
        lambda m: m.sym_sqrt(2),
        lambda m: m.sym_sum([1, 2, 3.5]),
        lambda m: m.sym_sum(1, 2),
        lambda m: m.sym_ite(True, 1, 2),
    )
    for call in calls:
        ours, theirs = call(tensor), call(torch)
        assert (ours, type(ours)) == (theirs, type(theirs))


def test_the_cpu_as_a_device() -> None:
    cpu = tensor.get_device_module("cpu")
    assert cpu is tensor.cpu
    assert (cpu.is_available(), cpu.is_initialized(), cpu.device_count(), cpu.current_device()) == (
        True,
        True,
        1,
        "cpu",
    )
    cpu.set_device(0)
    cpu.synchronize()
    other = cpu.Stream()
    before = cpu.current_stream()
    with cpu.stream(other):
        assert cpu.current_stream() is other
        with cpu.stream(None):
            assert cpu.current_stream() is other
    assert cpu.current_stream() is before
    event = cpu.Event()
    event.record(other)
    other.wait_event(event)
    other.wait_stream(before)
    event.wait()
    event.synchronize()
    assert event.query()


def test_autocast_of_the_cpu() -> None:
    x = tensor.ones(2, 2)
    with tensor.cpu.amp.autocast():
        assert (x @ x).dtype is tensor.bfloat16
    with tensor.cpu.amp.autocast(dtype=tensor.float16):
        assert (x @ x).dtype is tensor.float16
    assert tensor.cpu.amp.GradScaler(enabled=False).get_scale() == 1.0


def test_modules_of_devices(device: drv.Device) -> None:
    assert tensor.get_device_module("cuda:0") is tensor.cuda
    assert tensor.get_device_module(tensor.device("cuda")) is tensor.cuda
    assert tensor.get_device_module() is tensor.cuda
    with pytest.raises(RuntimeError, match="Invalid value of device '3'"):
        tensor.get_device_module(3)


def test_dtypes_of_a_device(device: drv.Device) -> None:
    supported = tensor.accelerator.get_device_capability()["supported_dtypes"]
    assert {tensor.float32, tensor.bfloat16, tensor.complex128, tensor.bool} <= supported
    for dtype in supported:
        assert tensor.zeros(2, device="cuda").to(dtype).dtype is dtype


def test_cached_pinned_memory_is_given_back(device: drv.Device) -> None:
    tensor.zeros(1000).pin_memory()
    assert tensor.cuda.host_memory_stats()["reserved_bytes.current"] > 0
    tensor.accelerator.empty_host_cache()
    assert tensor.cuda.host_memory_stats()["reserved_bytes.current"] == 0


def test_memory_in_use_and_peaks(device: drv.Device) -> None:
    x = tensor.zeros(1 << 20, device="cuda")
    assert tensor.cuda.device_memory_used() >= x.nbytes
    del x
    with pytest.warns(FutureWarning, match="resets /all/ peak memory stats"):
        tensor.cuda.reset_max_memory_allocated()
    assert tensor.cuda.max_memory_allocated() == tensor.cuda.memory_allocated()


def test_tf32_from_capability_8_on(device: drv.Device) -> None:
    assert tensor.cuda.is_tf32_supported() == (tensor.cuda.get_device_capability() >= (8, 0))


def test_errors_of_a_device_have_one_class(device: drv.Device) -> None:
    with pytest.raises(tensor.AcceleratorError):
        tensor.empty(1 << 50, device="cuda")


def test_anomalies_by_a_function() -> None:
    tensor.set_anomaly_enabled(True, False)
    try:
        assert tensor.is_anomaly_enabled()
        assert not tensor.is_anomaly_check_nan_enabled()
    finally:
        tensor.set_anomaly_enabled(False)
    for wrong in ((3,), (True, "x")):
        with pytest.raises(TypeError, match=r"set_anomaly_enabled\(\): .* must be bool"):
            tensor.set_anomaly_enabled(*wrong)
    assert not tensor.is_anomaly_enabled()
    assert tensor.is_anomaly_check_nan_enabled()


def test_what_is_taken_without_effect() -> None:
    with pytest.raises(RuntimeError, match="must be a bool, got str"):
        tensor.set_flush_denormal("x")
    assert tensor.set_flush_denormal(True) is False
    assert isinstance(tensor.strided, tensor.layout)
    with tensor.autograd.set_multithreading_enabled(False):
        x = tensor.ones(2, requires_grad=True)
        x.sum().backward()
    x = tensor.ones(2)
    assert not (x.is_mkldnn or x.is_vulkan or x.is_mtia or x.is_ipu or x.is_maia or x.is_distributed())
    with tensor.compiler.set_stance("force_eager"):
        assert tensor.compiler.set_stance("default")(len) is len
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'fast'"):
        tensor.compiler.set_stance("fast")
    assert tensor.compiler.nested_compile_region(len) is len
    assert tensor.compiler.nested_compile_region(max_reuse_entries=2)(len) is len
    with tensor.backends.mkl.verbose(tensor.backends.mkl.VERBOSE_ON):
        assert not parallel.is_ucc_available()
        assert not parallel.is_xccl_available()
    with tensor.backends.mkldnn.verbose(1), tensor.backends.mkldnn.flags(allow_tf32=False):
        assert tensor.backends.mkldnn.allow_tf32 is False
    assert tensor.backends.mkldnn.allow_tf32 is True


def test_choices_of_libraries_and_of_attention() -> None:
    backends = tensor.backends.cuda
    assert backends.preferred_blas_library("cublaslt") == "cublas"
    assert backends.preferred_linalg_library() == "default"
    with pytest.raises(RuntimeError, match="Choose from: default, cublas, cublaslt"):
        backends.preferred_blas_library("mkl")
    assert backends.is_flash_attention_available()
    backends.allow_fp16_bf16_reduction_math_sdp(True)
    assert not backends.fp16_bf16_reduction_math_sdp_allowed()
    with (
        pytest.warns(FutureWarning, match="nn.attention.sdpa_kernel"),
        backends.sdp_kernel(enable_flash=False, enable_cudnn=False),
    ):
        assert not backends.flash_sdp_enabled()
        assert backends.math_sdp_enabled()
    assert backends.flash_sdp_enabled()


def test_the_older_comparison() -> None:
    x = tensor.tensor([1.0, math.nan])
    with pytest.warns(FutureWarning, match="assert_close"):
        tensor.testing.assert_allclose(x, np.array([1.00005, math.nan]))
    with (
        pytest.warns(FutureWarning, match="assert_close"),
        pytest.raises(AssertionError, match="not the same"),
    ):
        tensor.testing.assert_allclose(x, [1.01, math.nan], msg="not the same")


@pytest.mark.parity
def test_functions_of_distributions_are_pytorchs() -> None:
    import torch.distributions.utils as theirs

    ours = tensor.distributions.utils
    rng = np.random.default_rng(0)
    matrix, vector = rng.random((2, 4, 4)), rng.random((3, 6))
    for name, array, arguments in (
        ("tril_matrix_to_vec", matrix, ()),
        ("tril_matrix_to_vec", matrix, (-2,)),
        ("tril_matrix_to_vec", matrix, (1,)),
        ("vec_to_tril_matrix", vector, ()),
        ("vec_to_tril_matrix", vector, (-1,)),
        ("logits_to_probs", matrix, ()),
        ("logits_to_probs", matrix, (True,)),
        ("probs_to_logits", matrix, ()),
        ("probs_to_logits", matrix, (True,)),
        ("clamp_probs", np.array([0.0, 0.5, 1.0]), ()),
    ):
        expected = getattr(theirs, name)(torch.from_numpy(array), *arguments)
        result = getattr(ours, name)(tensor.from_numpy(array), *arguments)
        assert result.numpy() == pytest.approx(expected.numpy(), rel=1e-12), name
    expected = theirs.broadcast_all(torch.ones(2, 1, dtype=torch.float64), torch.ones(3), 2)
    result = ours.broadcast_all(tensor.ones(2, 1, dtype=tensor.float64), tensor.ones(3), 2)
    assert [(tuple(each.shape), str(each.dtype).split(".")[1]) for each in result] == [
        (tuple(each.shape), str(each.dtype).split(".")[1]) for each in expected
    ]


def test_arguments_of_triangles() -> None:
    utils = tensor.distributions.utils
    with pytest.raises(ValueError, match=r"diag \(4\) provided is outside \[-4, 3\]"):
        utils.tril_matrix_to_vec(tensor.zeros(4, 4), 4)
    with pytest.raises(ValueError, match="last dimension is 5"):
        utils.vec_to_tril_matrix(tensor.zeros(5))
    assert tensor.distributions.transforms.CorrCholeskyTransform().forward_shape((6,)) == (4, 4)


def test_lazy_properties_are_computed_once_with_gradients() -> None:
    class Scaled:
        count = 0

        def __init__(self, x: tensor.Tensor) -> None:
            self.x = x

        @tensor.distributions.utils.lazy_property
        def twice(self) -> tensor.Tensor:
            """Two times."""
            self.count += 1
            return self.x * 2

    scaled = Scaled(tensor.ones(2, requires_grad=True))
    with tensor.no_grad():
        assert scaled.twice.requires_grad
    assert scaled.twice is scaled.twice
    assert scaled.count == 1
    assert Scaled.twice.__doc__ == "Two times."


def test_keywords_of_files(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    tensor.save({"x": tensor.ones(2)}, path, pickle, 4, _use_new_zipfile_serialization=False)
    for options in ({"pickle_module": pickle}, {"encoding": "latin1"}, {"weights_only": None}):
        assert tensor.load(path, "cpu", **options)["x"].tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match=r"load\(\) got an unexpected keyword argument 'maplocation'"):
        tensor.load(path, maplocation="cpu")


def test_pinned_memory_for_a_device(device: drv.Device) -> None:
    assert tensor.zeros(2).pin_memory("cuda").is_pinned("cuda:0")


@pytest.mark.parity
@pytest.mark.parametrize("concentration", [0.5, 0.0, -0.3])
def test_logarithms_of_generalized_pareto_are_pytorchs(concentration: float) -> None:
    values = [0.2, 0.7, 1.5]
    results = []
    for m in (tensor, torch):
        pareto = m.distributions.GeneralizedPareto(
            m.tensor(0.1), m.tensor(0.9), m.tensor(concentration), validate_args=True
        )
        x = m.tensor(values)
        results.append([pareto.log_cdf(x).numpy(), pareto.log_survival_function(x).numpy()])
        with pytest.raises(ValueError, match=r"within the support|support"):
            pareto.log_cdf(m.tensor(-1.0))
    assert np.array(results[0]) == pytest.approx(np.array(results[1]), rel=1e-5)
