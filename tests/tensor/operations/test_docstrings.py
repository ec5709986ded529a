"""What ``help()`` shows of operations: more than a line, and examples that print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from tensor.operations import catalogue

if TYPE_CHECKING:
    from types import ModuleType

#: Operations whose docstrings are still a single line, by the package that defines them. None is to be added.
BRIEF = {
    "nn.functional": """
        celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ softmin threshold_ upsample
    """,
    "tensor.fft": """
        fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn
        irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn
    """,
    "tensor.linalg": """
        chain_matmul cholesky det diagonal eigvals eigvalsh inverse ldl_factor_ex logdet lu
        lu_factor_ex lu_solve matrix_exp matrix_power orgqr pinverse qr slogdet solve_ex svdvals
    """,
    "tensor.methods": """
        get_device is_complex is_conj is_floating_point is_inference is_neg is_same_size is_signed
        is_storage is_tensor numel typename
    """,
    "tensor.operations.creation": """
        blackman_window clone cpu_ cuda empty_like fill full_like get_default_device hamming_window
        hann_window is_nonzero is_pinned kaiser_window logspace new_empty new_empty_strided new_full
        new_ones new_zeros ones ones_like range scalar_tensor tolist triu_indices type_ type_as
        zero_ zeros zeros_like
    """,
    "tensor.operations.indexing": """
        argsort argwhere bucketize index_add index_add_ index_copy index_copy_ index_fill
        index_fill_ index_put_ index_reduce_ masked_fill_ masked_scatter_ median msort nanmedian
        nanquantile put put_ scatter_ scatter_add scatter_add_ scatter_reduce_ take
    """,
    "tensor.operations.products": """
        dist inner kron vdot
    """,
    "tensor.operations.random": """
        alpha_dropout alpha_dropout_ dropout_ feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_ rand_like randn randn_like
    """,
    "tensor.operations.recurrent": """
        gru gru_cell lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    """,
}
#: The docstring of an in-place form, which is generated from the operation.
_IN_PLACE = re.compile(r":func:`(\w+)` in place: the result is written to ``input``\.")

NAMESPACES = ("tensor", "Tensor", "linalg", "nn.functional", "special", "fft")
#: Functions as they are defined, by namespace and name.
OPERATIONS: dict[str, Any] = {
    f"{namespace}.{name}": inspect.unwrap(function)
    for namespace in NAMESPACES
    for name, function in catalogue.published(namespace).items()
}


def _is_brief(function: Any) -> bool:
    return len((inspect.getdoc(function) or "").strip().splitlines()) <= 1


def _is_excused(function: Any) -> bool:
    module = f"{function.__module__}."
    return any(
        module.startswith(f"{package}.") and function.__name__ in names.split()
        for package, names in BRIEF.items()
    )


def test_every_namespace_is_known() -> None:
    assert set(NAMESPACES) == set(catalogue._published)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_more_than_one_line(name: str) -> None:
    function = OPERATIONS[name]
    generated = _IN_PLACE.fullmatch((inspect.getdoc(function) or "").strip())
    if generated:
        # It refers the reader to the operation.
        referred = generated[1]
        function = next(
            each
            for key, each in OPERATIONS.items()
            if key.rpartition(".")[2] == referred or each.__name__ == referred
        )
    assert not _is_brief(function) or _is_excused(function)


# Examples


def _modules() -> list[ModuleType]:
    names = [each.name for each in pkgutil.walk_packages(tensor.__path__, "tensor.")]
    return [tensor, *(importlib.import_module(name) for name in names if not name.endswith("__main__"))]


def _examples() -> dict[str, doctest.DocTest]:
    """Of all published operations, and of all modules of ``tensor`` with their functions and classes, by name.

    Those of public names see ``tensor`` and ``nn``; the others see their module's names too.
    """
    public = {"tensor": tensor, "nn": nn}
    finder, parser = doctest.DocTestFinder(), doctest.DocTestParser()
    found: list[doctest.DocTest] = []
    for function in OPERATIONS.values():
        # Without False the finder leaves out what another module has defined.
        found += finder.find(function, f"{function.__module__}.{function.__name__}", False, public)
    published = {id(function) for function in OPERATIONS.values()}
    for module in _modules():
        file = module.__file__ or ""
        found.append(parser.get_doctest(module.__doc__ or "", dict(public), module.__name__, file, 0))
        for name, each in vars(module).items():
            value = inspect.unwrap(each) if callable(each) else each
            if not (inspect.isfunction(value) or inspect.isclass(value)) or id(value) in published:
                continue
            if value.__module__ == module.__name__:
                scope = public if name in tensor.__all__ else vars(module) | public
                found += finder.find(value, f"{module.__name__}.{name}", False, scope)
    return {test.name: test for test in found if test.examples}


EXAMPLES = _examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=report.append)
    assert not outcome.failed, "".join(report)
