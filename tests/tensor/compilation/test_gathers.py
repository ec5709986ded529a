"""What is read by an index is part of chains, and of normalizations behind them, bit for bit as one by one."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import tensor
from nn import functional
from tests.thinning import thinned

from .test_fusion import _compiled, _randn

pytestmark = pytest.mark.usefixtures("device")


def _indices(*shape: int, most: int, dtype: Any = tensor.int64) -> Any:
    return tensor.randint(0, most, shape, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
@pytest.mark.parametrize("index_dtype", [tensor.int64, tensor.int32])
@pytest.mark.sampled(4)
def test_embeddings_of_tokens_and_of_positions_with_dropout(dtype: Any, index_dtype: Any) -> None:
    def function(tokens: Any, table: Any, positions: Any) -> Any:
        numbers = tensor.arange(6, device="cuda")
        x = functional.embedding(tokens, table) + functional.embedding(numbers, positions)
        return functional.dropout(x, 0.2)

    operands = _randn(11, 16, grad=True, dtype=dtype), _randn(9, 16, grad=True, dtype=dtype)
    text = _compiled(function, _indices(3, 6, most=11, dtype=index_dtype), *operands)
    assert "fused_advanced_indexing_read_add_dropout" in text, text
    # The numbers of positions are made by a kernel of their own.
    assert text.startswith("forward: 5 operations in 2 calls"), text


def test_embeddings_with_a_normalization_behind_them() -> None:
    def function(tokens: Any, table: Any, positions: Any, weight: Any, bias: Any) -> Any:
        x = functional.dropout(functional.embedding(tokens, table) + positions[:5], 0.2)
        return functional.layer_norm(x, (24,), weight, bias), x

    operands = (
        _randn(11, 24, grad=True),
        _randn(7, 24, grad=True),
        _randn(24, grad=True),
        _randn(24, grad=True),
    )
    text = _compiled(function, _indices(4, 5, most=11), *operands)
    assert text.startswith("forward: 4 operations in 1 calls"), text


@pytest.mark.parametrize("columns", [8, 11, 30])
def test_rows_whose_length_is_no_multiple_of_a_pack(columns: int) -> None:
    """Also where a pack of the normalization's row has elements of several rows of the table."""

    def function(table: Any, index: Any, x: Any) -> Any:
        rows = table[index] * 2 + x
        joined = rows.view(-1, 2 * columns)
        return functional.softmax(rows, -1), functional.layer_norm(joined, (2 * columns,))

    _compiled(function, _randn(5, columns), _indices(6, most=5), _randn(6, columns))

    def grouped(table: Any, index: Any) -> Any:
        return functional.rms_norm(functional.embedding(index, table) + 1, (2, columns))

    text = _compiled(grouped, _randn(5, columns), _indices(6, 2, most=5))
    assert text.startswith("forward: 3 operations in 1 calls"), text


def test_many_elements_in_packs() -> None:
    def function(table: Any, index: Any, bias: Any) -> Any:
        return functional.dropout(functional.embedding(index, table) + bias, 0.5) * 2

    for columns in (64, 66):
        operands = _randn(50, columns), _indices(33, 32, most=50), _randn(32, columns)
        text = _compiled(function, *operands)
        assert text.startswith("forward: 4 operations in 1 calls"), text


def test_other_ways_to_index() -> None:
    """Slices along a later dimension, an index for each element, and negative ones."""

    def function(x: Any, row: Any, elements: Any, negative: Any, y: Any) -> Any:
        first = x.index_select(1, row) * y
        second = x.gather(1, elements).sigmoid() + y
        third = (x[negative] * 3).relu()
        fourth = x.mT[row[:3]] - x[0, 0]
        return first, second, third, fourth

    operands = (
        _randn(6, 16),
        _indices(4, most=16),
        _indices(6, 4, most=16),
        _indices(5, most=6) - 6,
        _randn(6, 4),
    )
    text = _compiled(function, *operands)
    assert text.startswith("forward: 10 operations in 4 calls"), text


def test_what_stays_apart_says_why() -> None:
    def computed(table: Any, index: Any) -> Any:
        return table[index + 1] * 2

    text = _compiled(computed, _randn(6, 8), _indices(4, most=5))
    assert "an index and what it reads are there before" in text, text

    def written(table: Any, index: Any) -> Any:
        table += table[index].sin()
        return table * 2

    _compiled(written, _randn(6, 8), _indices(6, most=6))


@pytest.mark.parametrize("index_dtype", [tensor.int64, tensor.int32])
def test_several_indices(index_dtype: Any) -> None:
    """Of elements, with whole dimensions before, between and behind, of other shapes, negative ones, and one twice."""

    def function(x: Any, rows: Any, columns: Any, y: Any) -> Any:
        first = x[rows, columns] * 2 + y
        second = x[rows[:, None], :, columns[:3]].relu()
        third = x.permute(2, 0, 1)[:, rows - 4, columns] - 1
        fourth = x[:, :4][rows, rows, rows].sin()
        fifth = (x[rows, columns] + x[rows, columns] * 3) * x[columns.sub(1), rows]
        return first, second, third, fourth, fifth

    operands = (
        _randn(4, 5, 16),
        _indices(6, most=4, dtype=index_dtype),
        _indices(6, most=4, dtype=index_dtype),
        _randn(16),
    )
    text = _compiled(function, *operands)
    # Indices that are computed are kernels of their own.
    assert text.startswith("forward: 17 operations in 7 calls"), text
    for name in ("mul_add", "relu", "sub", "sin"):
        assert f"fused_advanced_indexing_read_{name} " in text, text


def test_which_of_several_indices_is_outside(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tensor.compile(lambda x, rows, columns: x[rows, columns] * 2, fullgraph=True)
    x, rows, columns = _randn(6, 8), _indices(4, most=6), _indices(4, most=8)
    compiled(x, rows, columns)
    with pytest.raises(drv.DeviceAssertError, match="kernel 'fused_advanced_indexing_read_mul"):
        compiled(x, rows, columns + 8)
        tensor.cuda.synchronize()
    assert "is out of bounds for dimension 1 with size 8" in capfd.readouterr().out
    drv.reset()


def test_rows_of_what_a_norm_or_softmax_gives() -> None:
    """They are there when an index reads them: that is a kernel of its own, with what follows."""
    text = _compiled(lambda x, index: x.softmax(-1)[index] * 2, _randn(6, 8), _indices(6, most=6))
    assert "it reads other elements of what the rows give" in text, text
    _compiled(
        lambda x, index: functional.layer_norm(x, (8,))[index].relu(),
        _randn(6, 8, grad=True),
        _indices(4, most=6),
    )


def test_a_backward_pass_reads_what_forward_has_looked_up() -> None:
    """The table may have changed until then."""

    def function(table: Any, index: Any, x: Any) -> Any:
        return (table[index] * x).sin()

    _, backward = _compiled(function, _randn(6, 8), _indices(4, most=6), _randn(4, 8, grad=True)).split(
        "backward: "
    )
    assert "read" not in backward.split("calls", 1)[1].split("\n", 1)[1], backward


def test_an_index_that_is_no_row_fails_as_it_does_uncompiled() -> None:
    compiled = tensor.compile(lambda table, index: functional.embedding(index, table) * 2, fullgraph=True)
    table, index = _randn(6, 8), _indices(4, most=6)
    compiled(table, index)
    with pytest.raises(Exception, match="embedding"):
        compiled(table, index + 6)
        tensor.cuda.synchronize()
    drv.reset()


def test_what_a_kernel_reads_has_its_line() -> None:
    compiled = tensor.compile(lambda table, index: table[index] * 2, fullgraph=True)
    text = compiled.sources(_randn(6, 8), _indices(4, most=6))
    assert text.count("// advanced_indexing.read, test_gathers.py:") == 1, text
    assert text.count("// mul, test_gathers.py:") == 1, text


@pytest.mark.parametrize(
    ("dtype", "columns"),
    thinned(
        [(tensor.float32, 3), (tensor.bfloat16, 16), (tensor.float64, 6), (tensor.float32, 40)],
        lambda dtype, columns: columns in (3, 16),
    ),
)
def test_reductions_of_what_indices_read(dtype: Any, columns: int) -> None:
    """Of rows, of columns and of all, in packs where the rows of the table are some, with chains before and after."""

    def function(table: Any, index: Any, weight: Any, rows: Any, position: Any, elements: Any) -> Any:
        return (
            table[index].sum(-1),
            (table[index] * weight).mean((0, 1)) + 1,
            functional.embedding(index, table).amax(1),
            (table[rows, position] * weight[:3]).mean().sqrt(),
            (table.mT[position[:, None], rows].relu() * 2).sum(1),
            table.gather(1, elements).var(0),
            functional.mse_loss(table[rows] * weight, weight.expand(3, columns)),
            table[rows].argmax(1),
        )

    operands = (
        _randn(7, columns, dtype=dtype).abs(),
        _indices(4, 5, most=7),
        _randn(columns, dtype=dtype).abs(),
        _indices(3, most=7) - 7,
        _indices(3, most=columns),
        _indices(5, 6, most=columns),
    )
    text = _compiled(function, *operands, exact=False)
    assert text.startswith("forward: 23 operations in 8 calls"), text


def test_reductions_of_many_rows_that_an_index_reads() -> None:
    """Columns and rows that several blocks share."""

    def function(table: Any, index: Any) -> Any:
        return table[index].square().sum(), (table[index] + 1).sum(0), table[index][:, ::2].sum(1)

    _compiled(function, _randn(50, 24), _indices(3000, most=50), exact=False)


def test_a_reduction_of_what_an_index_reads_of_results() -> None:
    def computed(table: Any, index: Any) -> Any:
        return functional.mse_loss((table * 2)[index], table * 2)

    text = _compiled(computed, _randn(6, 8), _indices(6, most=6), exact=False)
    assert "fused_advanced_indexing_read_mul_mse_loss" in text, text


@pytest.mark.parametrize(("dtype", "columns"), [(tensor.float32, 8), (tensor.bfloat16, 11)])
@pytest.mark.parametrize("index_dtype", [tensor.int64, tensor.int32])
@pytest.mark.sampled(4)
def test_one_table_by_several_indices(dtype: Any, columns: int, index_dtype: Any) -> None:
    """In chains, reductions and around rows; by one index twice, and besides as it is."""

    def function(table: Any, one: Any, other: Any, third: Any, weight: Any) -> Any:
        distance = table[one] + weight[third] - table[other]
        return (
            distance,
            functional.mse_loss(table[one], table[other]),
            (table[one] * table[other] * table[one]).sum(-1),
            functional.layer_norm(table[one] + table[other] + table[third], (columns,))
            * table[third, 0, None],
            weight[:1].expand(len(one), columns) * weight[:1][one * 0],
        )

    operands = (
        _randn(7, columns, dtype=dtype),
        *(_indices(6, most=7, dtype=index_dtype) - shift for shift in (0, 7, 0)),
        _randn(7, columns, dtype=dtype),
    )
    text = _compiled(function, *operands, exact=False)
    # The index of the last line is computed.
    assert text.startswith("forward: 25 operations in 6 calls"), text


def test_which_of_one_tables_indices_is_outside(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tensor.compile(lambda table, one, other: table[one] - table[other], fullgraph=True)
    table, one, other = _randn(6, 8), _indices(4, most=6), _indices(4, most=6)
    assert "forward: 3 operations in 1 calls" in compiled.explain(table, one, other)
    with pytest.raises(drv.DeviceAssertError, match="kernel 'fused_advanced_indexing_read_sub"):
        compiled(table, one, other.index_fill(0, one.new_tensor([2]), 9))
        tensor.cuda.synchronize()
    assert "index 9 is out of bounds for dimension 0 with size 6" in capfd.readouterr().out
    drv.reset()


def test_a_reduction_of_an_index_that_is_no_row_fails() -> None:
    compiled = tensor.compile(lambda table, index: table[index].sum(), fullgraph=True)
    table, index = _randn(6, 8), _indices(4, most=6)
    compiled(table, index)
    with pytest.raises(drv.DeviceAssertError, match="kernel 'fused_advanced_indexing_read_sum"):
        compiled(table, index + 6)
        tensor.cuda.synchronize()
    drv.reset()


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
@pytest.mark.parametrize("index_dtype", [tensor.int64, tensor.int32])
@pytest.mark.sampled(4)
def test_what_goes_on_with_reductions_reads_by_indices(dtype: Any, index_dtype: Any) -> None:
    """By one and by several, by what the reduction gives, negative ones, and one table by several chains."""

    def function(x: Any, images: Any, table: Any, bias: Any, rows: Any, columns: Any, negative: Any) -> Any:
        mean = x.mean(1)
        return (
            mean * table[rows, columns],
            mean - table[columns, negative].relu(),
            bias[x.argmax(1)] * 2,
            images.amax((2, 3)) + table[:, :5][rows] * 3,
            (x * 2).sum(1).sqrt() + bias.index_select(0, rows),
        )

    operands = (
        _randn(6, 9, dtype=dtype).abs(),
        _randn(6, 5, 4, 3, dtype=dtype),
        _randn(7, 7, dtype=dtype),
        _randn(9, dtype=dtype),
        *(_indices(6, most=7, dtype=index_dtype) for _ in range(2)),
        _indices(6, most=7, dtype=index_dtype) - 7,
    )
    text = _compiled(function, *operands, exact=False)
    assert text.startswith("forward: 18 operations in 4 calls"), text
    for name in ("mean", "argmax", "amax", "mul_sum_sqrt"):
        assert f"fused_{name}_advanced_indexing_read" in text, text


def test_an_index_that_a_reduction_gives_is_checked(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tensor.compile(lambda x, table: table[x.argmax(1)] * 2, fullgraph=True)
    x = _randn(6, 8)
    x[:, 5:] = -9.0
    assert "forward: 3 operations in 1 calls" in compiled.explain(x, _randn(5))
    x[4, 7] = 9.0
    with pytest.raises(drv.DeviceAssertError, match="kernel 'fused_argmax_advanced_indexing_read_mul"):
        compiled(x, _randn(5))
        tensor.cuda.synchronize()
    assert "index 7 is out of bounds for dimension 0 with size 5" in capfd.readouterr().out
    drv.reset()


def test_a_table_that_is_written_is_read_before() -> None:
    def function(x: Any, table: Any, index: Any) -> Any:
        table += x.sum(1) * table[index]
        return table * 2

    text = _compiled(function, _randn(6, 8), _randn(6), _indices(6, most=6), exact=False)
    assert "of what is written in place" in text, text


@pytest.mark.parametrize("columns", [8, 5, 12])
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16])
@pytest.mark.sampled(4)
def test_several_indices_before_and_after_rows(columns: int, dtype: Any) -> None:
    """Rows of a table that two indices name, with gaps between them, elements, and an index for each sequence."""

    def function(x: Any, table: Any, gaps: Any, rows: Any, others: Any, elements: Any) -> Any:
        return (
            functional.softmax(table[rows, others] * 2 + x, -1),
            functional.layer_norm(x * table[others, rows], (columns,)) - gaps[:, ::2][rows, others],
            functional.softmax(x + 1, -1) * table[rows[:, None], others[:, None], elements],
            functional.rms_norm(table[rows[:, None], elements[:1], 0] + x, (columns,)),
        )

    operands = (
        _randn(6, columns, dtype=dtype),
        _randn(7, 7, columns, dtype=dtype),
        _randn(7, 14, columns, dtype=dtype),
        _indices(6, most=7),
        _indices(6, most=7) - 7,
        _indices(6, columns, most=min(columns, 7)),
    )
    text = _compiled(function, *operands)
    assert "by several indices" not in text, text
    assert text.startswith("forward: 16 operations in 4 calls"), text


def test_which_of_several_indices_of_rows_is_outside(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tensor.compile(lambda x, rows, others: x[rows, others].softmax(-1), fullgraph=True)
    x, rows, others = _randn(6, 5, 8), _indices(4, most=6), _indices(4, most=5)
    assert "forward: 2 operations in 1 calls" in compiled.explain(x, rows, others)
    with pytest.raises(drv.DeviceAssertError, match="kernel 'fused_advanced_indexing_read_softmax"):
        compiled(x, rows, others + 5)
        tensor.cuda.synchronize()
    assert "is out of bounds for dimension 1 with size 5" in capfd.readouterr().out
    drv.reset()
