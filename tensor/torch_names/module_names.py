"""Which module of ours stands for which of PyTorch's."""

from __future__ import annotations

#: Where a module of PyTorch's is: the longest row that the name begins with holds, and what follows is called the same.
_PREFIXES = {
    "torch": "tensor",
    "torch._dynamo": "tensor.compiler.dynamo",
    "torch._inductor": "tensor.compiler.inductor",
    "torch.ao": "nn.ao",
    "torch.autograd.profiler": "tensor.profiler.autograd_profiler",
    "torch.autograd.profiler_util": "tensor.profiler.events",
    "torch.cuda.comm": "parallel.comm",
    "torch.distributed": "parallel",
    "torch.distributed.run": "parallel.launch",
    "torch.fx": "nn.fx",
    "torch.multiprocessing": "parallel.multiprocessing",
    "torch.nn": "nn",
    "torch.nn.parallel.comm": "parallel.comm",
    "torch.optim": "nn.optim",
    "torch.utils.module_tracker": "nn.utils.module_tracker",
}

#: Modules of ours that PyTorch has no counterpart of: no program that runs as PyTorch's imports them as its.
INTERNAL = frozenset(
    (
        "tensor.as_torch",
        "tensor.core",
        "tensor.methods",
        "tensor.operations",
        "tensor.torch_names",
        "nn.layers",
        "nn.module",
    )
)

_DISTRIBUTIONS = (
    "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exp_family exponential "
    "fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal independent inverse_gamma "
    "kumaraswamy laplace lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal mixture_same_family "
    "multinomial multivariate_normal negative_binomial normal one_hot_categorical pareto poisson "
    "studentT transformed_distribution uniform von_mises weibull wishart"
)

#: PyTorch's modules whose names stand in a larger module of ours: which. Programs import from them what the parent has.
PARTS = {
    "torch._C": "tensor.torch_names.dispatch",
    "torch._custom_ops": "tensor.library",
    "torch._prims_common": "tensor.core.modes.determinism",
    "torch._tensor": "tensor",
    "torch.cpu.amp.autocast_mode": "tensor.cpu.amp",
    "torch.cpu.amp.grad_scaler": "tensor.amp",
    "torch.cuda.amp.autocast_mode": "tensor.cuda.amp",
    "torch.cuda.amp.common": "tensor.cuda.amp",
    "torch.cuda.amp.grad_scaler": "tensor.cuda.amp",
    "torch.distributed.constants": "parallel",
    "torch.distributed.distributed_c10d": "parallel",
    **{f"torch.distributions.{name}": "tensor.distributions" for name in _DISTRIBUTIONS.split()},
    "torch.distributions.relaxed_bernoulli": "tensor.distributions.relaxed",
    "torch.distributions.relaxed_categorical": "tensor.distributions.relaxed",
    "torch.functional": "tensor",
    "torch.multiprocessing.queue": "parallel.multiprocessing",
    "torch.multiprocessing.spawn": "parallel.launch.spawning",
    "torch.nn.parallel.data_parallel": "nn.parallel",
    "torch.nn.parallel.parallel_apply": "nn.parallel",
    "torch.nn.parallel.replicate": "nn.parallel",
    "torch.nn.utils.init": "nn.utils",
    "torch.optim.adamw": "nn.optim.adam",
    "torch.profiler.profiler": "tensor.profiler",
    "torch.signal.windows.windows": "tensor.signal.windows",
    "torch.storage": "tensor",
    "torch.torch_version": "tensor.torch_names.versions",
    "torch.version": "tensor.version",
}


def ours(name: str) -> str:
    """The module of ours that stands for ``torch...``, which need not be there."""
    head = name
    while head not in _PREFIXES:
        head = head.rpartition(".")[0]
    return _PREFIXES[head] + name[len(head) :]


def is_internal(module: str) -> bool:
    """Whether a module of ours is nothing that PyTorch has."""
    return any(module == each or module.startswith(f"{each}.") for each in INTERNAL)
