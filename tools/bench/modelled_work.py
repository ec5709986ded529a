"""The work of the suite ``model``: every family of kernels, large enough to leave launch cost behind.

Each piece of work says how many bytes it must move at least (what it reads and writes, each byte once), how many floating
point operations it does where these may bound it, and which share of the limit it is to reach (percent).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nn
import tensor
from nn import functional, optim

if TYPE_CHECKING:
    from collections.abc import Callable

#: Elements of a large tensor, rows and columns of a large matrix.
LARGE, ROWS, COLUMNS = 1 << 26, 1 << 16, 1 << 10
#: Lines and classes of a language model's logits; no rows of theirs but the first are aligned.
LINES, CLASSES = 1 << 11, 50257
#: Shares to reach: contiguous work, strided copies with runs of 32 bytes, transposes, attention.
CONTIGUOUS, STRIDED, TRANSPOSED, ATTENTION = 90.0, 85.0, 80.0, 60.0


def _nothing() -> None:
    """No preparation."""


@dataclass(slots=True)
class Work:
    """A piece of work: ``prepare`` is not looked at, ``run`` is.

    ``numbers``: what is launched depends on what has been computed before, so that all of it must be.
    """

    run: Callable[[], object]
    moved: int
    reach: float | None = None
    prepare: Callable[[], object] = _nothing
    flops: float = 0.0
    tensor_cores: bool = False
    numbers: bool = False


def _empty(*shape: int, dtype: Any, grad: bool = False) -> Any:
    return tensor.empty(*shape, dtype=dtype, device="cuda").requires_grad_(grad)


def _size(dtype: Any) -> int:
    return int(dtype.itemsize)


def _flat(
    function: Callable[..., Any],
    operands: int,
    *,
    results: float = 1,
    result_bytes: int = 0,
    reach: float = CONTIGUOUS,
) -> Any:
    """Work on flat tensors: ``results`` is the size of what is written in operands, or ``result_bytes`` an element."""

    def make(dtype: Any) -> Work:
        inputs = [_empty(LARGE, dtype=dtype) for _ in range(operands)]
        written = result_bytes or _size(dtype) * results
        return Work(lambda: function(*inputs), round(LARGE * (_size(dtype) * operands + written)), reach)

    return make


def _masked(function: Callable[..., Any], operands: int) -> Any:
    """Work on flat tensors and a mask of bytes, which comes first."""

    def make(dtype: Any) -> Work:
        mask = _empty(LARGE, dtype=tensor.bool)
        inputs = [_empty(LARGE, dtype=dtype) for _ in range(operands)]
        return Work(lambda: function(mask, *inputs), LARGE * (1 + _size(dtype) * (operands + 1)), CONTIGUOUS)

    return make


def _rows(
    function: Callable[..., Any],
    *,
    results: float = 1,
    reach: float | None = CONTIGUOUS,
    shape: tuple[int, int] = (ROWS, COLUMNS),
) -> Any:
    """Work on the rows of a matrix."""

    def make(dtype: Any) -> Work:
        x = _empty(*shape, dtype=dtype)
        return Work(lambda: function(x), round(x.numel() * _size(dtype) * (1 + results)), reach)

    return make


def _backward(
    function: Callable[..., Any], shape: tuple[int, ...], *, tensors: float, reach: float | None = CONTIGUOUS
) -> Any:
    """The gradient of ``function`` by its input; ``tensors`` is how many tensors of its size must be moved."""

    def make(dtype: Any) -> Work:
        x = _empty(*shape, dtype=dtype, grad=True)
        state: dict[str, Any] = {}

        def prepare() -> None:
            x.grad = None
            state["y"] = function(x)
            state["grad"] = tensor.empty_like(state["y"])

        return Work(
            lambda: state["y"].backward(state["grad"]),
            round(x.numel() * _size(dtype) * tensors),
            reach,
            prepare,
        )

    return make


def _norm_backward(dtype: Any) -> Work:
    x = _empty(ROWS, COLUMNS, dtype=dtype, grad=True)
    weight, bias = (_empty(COLUMNS, dtype=dtype, grad=True) for _ in range(2))
    state: dict[str, Any] = {}

    def prepare() -> None:
        x.grad = weight.grad = bias.grad = None
        state["y"] = functional.layer_norm(x, (COLUMNS,), weight, bias)
        state["grad"] = tensor.empty_like(state["y"])

    return Work(lambda: state["y"].backward(state["grad"]), 3 * x.numel() * _size(dtype), CONTIGUOUS, prepare)


def _layer_norm(dtype: Any) -> Work:
    x = _empty(ROWS, COLUMNS, dtype=dtype)
    weight, bias = (_empty(COLUMNS, dtype=dtype) for _ in range(2))
    return Work(
        lambda: functional.layer_norm(x, (COLUMNS,), weight, bias), 2 * x.numel() * _size(dtype), CONTIGUOUS
    )


def _cross_entropy(backward: bool, shape: tuple[int, int] = (ROWS, COLUMNS)) -> Any:
    def make(dtype: Any) -> Work:
        x = _empty(*shape, dtype=dtype, grad=backward)
        target = tensor.zeros(shape[0], dtype=tensor.int64, device="cuda")
        size = x.numel() * _size(dtype)
        if not backward:
            return Work(lambda: functional.cross_entropy(x, target), size, CONTIGUOUS)
        state: dict[str, Any] = {}

        def prepare() -> None:
            x.grad = None
            state["loss"] = functional.cross_entropy(x, target)

        return Work(lambda: state["loss"].backward(), 2 * size, CONTIGUOUS, prepare)

    return make


def _optimizer(make_optimizer: Callable[[Any], Any], tensors: int) -> Any:
    def make(dtype: Any) -> Work:
        parameters = [_empty(LARGE // 8, dtype=dtype, grad=True) for _ in range(8)]
        for each in parameters:
            each.grad = tensor.empty_like(each)
        optimizer = make_optimizer(parameters)
        return Work(optimizer.step, LARGE * _size(dtype) * tensors, CONTIGUOUS)

    return make


def _strided(view: Callable[[Any], Any], shape: tuple[int, ...], reach: float, used: float = 1.0) -> Any:
    """A view made contiguous; ``used`` is how many elements it has, of those of the tensor."""

    def make(dtype: Any) -> Work:
        x = _empty(*shape, dtype=dtype)
        moved = round(2 * x.numel() * _size(dtype) * used)
        return Work(lambda: view(x).contiguous(), moved, reach)

    return make


def _cat(dtype: Any) -> Work:
    inputs = [_empty(ROWS, COLUMNS // 4, dtype=dtype) for _ in range(4)]
    return Work(lambda: tensor.cat(inputs, 1), 2 * ROWS * COLUMNS * _size(dtype), STRIDED)


def _broadcast(dtype: Any) -> Work:
    column, out = _empty(ROWS, 1, dtype=dtype), _empty(ROWS, COLUMNS, dtype=dtype)
    return Work(lambda: out.add_(column), 2 * ROWS * COLUMNS * _size(dtype), CONTIGUOUS)


def _indices(count: int, below: int) -> Any:
    """Indices without an order; made on the host, as simulated memory of this size holds nothing of meaning."""
    generator = tensor.Generator().manual_seed(1)
    return tensor.randint(0, below, (count,), generator=generator).cuda()


def _gathered(function: Callable[[Any, Any], Any], tensors: float = 2) -> Any:
    def make(dtype: Any) -> Work:
        table, index = _empty(ROWS, COLUMNS, dtype=dtype), _indices(ROWS // 2, ROWS)
        return Work(
            lambda: function(table, index), round(ROWS // 2 * COLUMNS * _size(dtype) * tensors), STRIDED
        )

    return make


def _embedding_backward(dtype: Any) -> Work:
    table, index = _empty(ROWS, COLUMNS // 4, dtype=dtype, grad=True), _indices(ROWS // 2, ROWS)
    state: dict[str, Any] = {}

    def prepare() -> None:
        table.grad = None
        state["y"] = functional.embedding(index, table)
        state["grad"] = tensor.empty_like(state["y"])

    moved = (ROWS + ROWS // 2) * (COLUMNS // 4) * _size(dtype)
    return Work(lambda: state["y"].backward(state["grad"]), moved, STRIDED, prepare)


def _of_numbers(
    function: Callable[[Any], Any],
    shape: tuple[int, ...],
    *,
    bytes_an_element: int = 0,
    reach: float = CONTIGUOUS,
) -> Any:
    """Work whose way depends on the numbers: random ones of the host. ``bytes_an_element`` are moved but for reading them."""

    def make(dtype: Any) -> Work:
        generator = tensor.Generator().manual_seed(1)
        some = tensor.randn(min(shape[0], COLUMNS), *shape[1:], generator=generator).to(dtype)
        x = tensor.cat([some] * -(-shape[0] // len(some)))[: shape[0]].cuda()
        return Work(lambda: function(x), x.numel() * (_size(dtype) + bytes_an_element), reach)

    return make


def _sort(elements: int, reach: float | None) -> Any:
    """A radix sort by 8 bits, whose digits are counted first, and which then reads and writes everything once for each."""

    def make(dtype: Any) -> Work:
        size = _size(dtype)
        # A position has 4 bytes on the way, is counted by the first pass and has 8 in the end.
        moved = size + size * 2 * size + 4 * 2 * (size - 1) + 8
        x = tensor.randn(elements, generator=tensor.Generator().manual_seed(1)).to(dtype).cuda()
        return Work(lambda: x.sort(), elements * moved, reach, numbers=True)

    return make


def _bincount(dtype: Any) -> Work | None:
    if dtype is not tensor.float32:
        return None
    x = _indices(LARGE // 8, COLUMNS)
    return Work(lambda: x.bincount(minlength=COLUMNS), 8 * x.numel(), CONTIGUOUS)


def _scan(function: Callable[[Any], Any], *, results: float = 1, elements: int = 1 << 22) -> Any:
    def make(dtype: Any) -> Work:
        x = _empty(elements, dtype=dtype)
        return Work(lambda: function(x), round(elements * _size(dtype) * (1 + results)))

    return make


def _attention(head: int, length: int, backward: bool) -> Any:
    def make(dtype: Any) -> Work | None:
        # In single precision one length will do.
        if dtype == tensor.float32 and length != 2048:
            return None
        # As many rows of queries for each length.
        heads = 32768 // length
        q, k, v = (_empty(1, heads, length, head, dtype=dtype, grad=backward) for _ in range(3))
        products = 2 * heads * length * length * head * 2
        moved = 4 * q.numel() * _size(dtype)
        if not backward:
            return Work(
                lambda: functional.scaled_dot_product_attention(q, k, v),
                moved,
                ATTENTION,
                flops=products,
                tensor_cores=True,
            )
        state: dict[str, Any] = {}

        def prepare() -> None:
            q.grad = k.grad = v.grad = None
            state["y"] = functional.scaled_dot_product_attention(q, k, v)
            state["grad"] = tensor.empty_like(state["y"])

        # Five products where the forward pass has two.
        return Work(
            lambda: state["y"].backward(state["grad"]),
            2 * moved,
            ATTENTION,
            prepare,
            flops=2.5 * products,
            tensor_cores=True,
        )

    return make


def _recurrent(layer: Any, units: int, steps: int, rows: int, *, backward: bool = False) -> Any:
    def make(dtype: Any) -> Work:
        module = layer(units, units).to("cuda", dtype)
        x = _empty(steps, rows, units, dtype=dtype, grad=backward)
        weights = sum(each.numel() for each in module.parameters())
        flops = 2.0 * steps * rows * weights
        moved = (2 * x.numel() + weights) * _size(dtype)
        if not backward:
            module.requires_grad_(False)
            return Work(lambda: module(x), moved, flops=flops)
        state: dict[str, Any] = {}

        def prepare() -> None:
            x.grad = None
            module.zero_grad()
            state["y"] = module(x)[0]
            state["grad"] = tensor.empty_like(state["y"])

        return Work(lambda: state["y"].backward(state["grad"]), 2 * moved, None, prepare, flops=2 * flops)

    return make


def _convolution(
    channels: int, kernel: int, *, groups: int = 1, stride: int = 1, backward: bool = False
) -> Any:
    def make(dtype: Any) -> Work:
        n, size = 32, 56
        x = _empty(n, channels, size, size, dtype=dtype, grad=backward)
        weight = _empty(channels, channels // groups, kernel, kernel, dtype=dtype, grad=backward)
        out = size // stride
        flops = 2.0 * n * out * out * channels * (channels // groups) * kernel**2
        moved = (x.numel() + n * channels * out * out) * _size(dtype)

        def forward() -> Any:
            return functional.conv2d(x, weight, stride=stride, padding=kernel // 2, groups=groups)

        cores = groups == 1
        if not backward:
            return Work(forward, moved, 100 / 1.5 if cores else None, flops=flops, tensor_cores=cores)
        state: dict[str, Any] = {}

        def prepare() -> None:
            x.grad = weight.grad = None
            state["y"] = forward()
            state["grad"] = tensor.empty_like(state["y"])

        return Work(
            lambda: state["y"].backward(state["grad"]),
            2 * moved,
            100 / 1.5 if cores else None,
            prepare,
            flops=2 * flops,
            tensor_cores=cores,
        )

    return make


def _pooling(function: Callable[[Any], Any], results: float, *, indices: float = 0) -> Any:
    """``results`` and ``indices`` (of 8 bytes) are how many there are, in elements of the input."""

    def make(dtype: Any) -> Work:
        x = _empty(64, 64, 112, 112, dtype=dtype)
        moved = round(x.numel() * (_size(dtype) * (1 + results) + 8 * indices))
        return Work(lambda: function(x), moved, STRIDED)

    return make


def _product(m: int, n: int, k: int) -> Any:
    def make(dtype: Any) -> Work:
        a, b = _empty(m, k, dtype=dtype), _empty(k, n, dtype=dtype)
        moved = (m * k + k * n + m * n) * _size(dtype)
        return Work(lambda: a @ b, moved, flops=2.0 * m * n * k, tensor_cores=True)

    return make


def _batch_norm(backward: bool) -> Any:
    shape = (64, 64, 112, 112)

    def make(dtype: Any) -> Work:
        x = _empty(*shape, dtype=dtype, grad=backward)
        weight, bias = (_empty(64, dtype=dtype, grad=backward) for _ in range(2))
        size = x.numel() * _size(dtype)

        def forward() -> Any:
            return functional.batch_norm(x, None, None, weight, bias, training=True)

        if not backward:
            # Read twice: for the statistics, and for the result.
            return Work(forward, 3 * size, CONTIGUOUS)
        state: dict[str, Any] = {}

        def prepare() -> None:
            x.grad = None
            state["y"] = forward()
            state["grad"] = tensor.empty_like(state["y"])

        return Work(lambda: state["y"].backward(state["grad"]), 5 * size, CONTIGUOUS, prepare)

    return make


def _transform(dtype: Any) -> Work | None:
    if dtype is not tensor.float32:
        return None
    x = tensor.empty(4096, 4096, dtype=tensor.complex64, device="cuda")
    return Work(lambda: tensor.fft.fft(x), 2 * 8 * x.numel())


_MATRIX = (ROWS, COLUMNS)
_IMAGES = (64, 64, 112, 112)
#: Families, and in each the pieces of work by name. A function takes the dtype; what it has no form for is ``None``.
FAMILIES: dict[str, dict[str, Any]] = {
    "pointwise": {
        "add": _flat(lambda a, b: a + b, 2),
        "add in place": _flat(lambda a: a.add_(1), 1),
        "a * b + c": _flat(lambda a, b, c: tensor.addcmul(c, a, b), 3),
        "compare": _flat(lambda a, b: a < b, 2, result_bytes=1),
        "where": _masked(lambda mask, a, b: tensor.where(mask, a, b), 2),
        "cast": _flat(lambda a: a.to(tensor.float16), 1, result_bytes=2),
        "exp": _flat(lambda a: a.exp(), 1),
        "gelu": _flat(functional.gelu, 1),
        "gelu backward": _backward(functional.gelu, (LARGE,), tensors=3),
        "relu backward": _backward(functional.relu, (LARGE,), tensors=3),
        "sigmoid backward": _backward(tensor.sigmoid, (LARGE,), tensors=3),
        "broadcast add": _broadcast,
    },
    "random": {
        "normal": _flat(lambda a: a.normal_(), 1, results=0),
        "dropout": _flat(lambda a: functional.dropout(a, 0.5), 1),
    },
    "reduction": {
        "sum": _flat(lambda a: a.sum(), 1, results=0),
        "mean": _flat(lambda a: a.mean(), 1, results=0),
        "max": _flat(lambda a: a.max(), 1, results=0),
        "norm": _flat(lambda a: a.norm(), 1, results=0),
        "rows' sum": _rows(lambda a: a.sum(1), results=0),
        "columns' sum": _rows(lambda a: a.sum(0), results=0),
        "rows' variance": _rows(lambda a: a.var(1), results=0),
        "rows' argmax": _rows(lambda a: a.argmax(1), results=0),
        "rows' logsumexp": _rows(lambda a: a.logsumexp(1), results=0),
    },
    "softmax": {
        "softmax": _rows(lambda a: a.softmax(1)),
        "softmax backward": _backward(lambda a: a.softmax(1), _MATRIX, tensors=3),
        "log_softmax": _rows(lambda a: a.log_softmax(1)),
        "cross entropy": _cross_entropy(False),
        "cross entropy backward": _cross_entropy(True),
        "softmax of 50,257": _rows(lambda a: a.softmax(1), shape=(LINES, CLASSES)),
        "softmax of 50,257, backward": _backward(lambda a: a.softmax(1), (LINES, CLASSES), tensors=3),
        "log_softmax of 50,000": _rows(lambda a: a.log_softmax(1), shape=(LINES, 50000)),
        "cross entropy of 50,000": _cross_entropy(False, (LINES, 50000)),
        "cross entropy of 50,257": _cross_entropy(False, (LINES, CLASSES)),
        "cross entropy of 50,257, backward": _cross_entropy(True, (LINES, CLASSES)),
        "mse loss": _flat(functional.mse_loss, 2, results=0),
    },
    "normalization": {
        "layer norm": _layer_norm,
        "layer norm backward": _norm_backward,
        "rms norm": _rows(lambda a: functional.rms_norm(a, (COLUMNS,))),
        "batch norm": _batch_norm(False),
        "batch norm backward": _batch_norm(True),
        "group norm": _strided(lambda a: functional.group_norm(a, 8), _IMAGES, CONTIGUOUS),
    },
    "optimizer": {
        "SGD with momentum": _optimizer(lambda p: optim.SGD(p, 0.1, momentum=0.9), 5),
        "Adam": _optimizer(lambda p: optim.Adam(p, 0.1), 7),
        "AdamW": _optimizer(lambda p: optim.AdamW(p, 0.1), 7),
    },
    "strided copy": {
        "transpose": _strided(lambda x: x.t(), (8192, 8192), TRANSPOSED),
        "NCHW to NHWC": _strided(lambda x: x.permute(0, 2, 3, 1), _IMAGES, TRANSPOSED),
        "heads": _strided(lambda x: x.view(64, 1024, 16, 64).transpose(1, 2), _MATRIX, STRIDED),
        "every second": _strided(lambda x: x[::2], (LARGE,), 0.0, 0.5),
        "columns' slice": _strided(lambda x: x[:, : COLUMNS // 2], _MATRIX, STRIDED, 0.5),
        "expand": _strided(
            lambda x: x.expand(64, ROWS, COLUMNS // 64), (1, ROWS, COLUMNS // 64), STRIDED, 32.5
        ),
        "cat": _cat,
        "flip": _rows(lambda x: x.flip(1), reach=STRIDED),
    },
    "indexing": {
        "rows by index": _gathered(lambda table, index: table.index_select(0, index)),
        "embedding": _gathered(lambda table, index: functional.embedding(index, table)),
        "embedding backward": _embedding_backward,
        "masked fill": _masked(lambda mask, a: a.masked_fill(mask, 0), 1),
    },
    "scan and sort": {
        "cumsum of rows": _rows(lambda x: x.cumsum(1), reach=None),
        "cumsum": _scan(lambda x: x.cumsum(0)),
        "cumsum of 2^26": _scan(lambda x: x.cumsum(0), elements=LARGE),
        "histogram of 64 bins": _of_numbers(lambda x: x.histc(64, -4, 4), (LARGE // COLUMNS, COLUMNS)),
        "histogram, all equal": _rows(lambda x: x.histc(64, -4, 4), results=0),
        "bincount of 2^10": _bincount,
        "sort of 2^15": _sort(1 << 15, None),
        "sort of 2^20": _sort(1 << 20, None),
        "sort of 2^23": _sort(1 << 23, CONTIGUOUS),
        "topk of rows": _of_numbers(lambda x: x.topk(8, 1), _MATRIX),
        "topk of rows, all equal": _rows(lambda x: x.topk(8, 1), results=0),
    },
    "attention": {
        f"head {head}, length {length}{', backward' if backward else ''}": _attention(head, length, backward)
        for backward in (False, True)
        for head in (64, 128)
        for length in (1024, 2048, 4096, 8192, 32768)
    },
    "recurrent": {
        "LSTM of 256, 32 steps of 32": _recurrent(nn.LSTM, 256, 32, 32),
        "LSTM of 256, 32 steps of 32, backward": _recurrent(nn.LSTM, 256, 32, 32, backward=True),
        "GRU of 128, 32 steps of 8": _recurrent(nn.GRU, 128, 32, 8),
        "GRU of 128, 32 steps of 8, backward": _recurrent(nn.GRU, 128, 32, 8, backward=True),
    },
    "convolution": {
        "3x3": _convolution(128, 3),
        "1x1": _convolution(256, 1),
        "3x3 stride 2": _convolution(128, 3, stride=2),
        "depthwise 3x3": _convolution(128, 3, groups=128),
        "3x3 backward": _convolution(128, 3, backward=True),
    },
    "pooling": {
        "max 2x2": _pooling(lambda x: functional.max_pool2d(x, 2), 0.25),
        "max 2x2 with indices": _pooling(
            lambda x: functional.max_pool2d(x, 2, return_indices=True), 0.25, indices=0.25
        ),
        "average 2x2": _pooling(lambda x: functional.avg_pool2d(x, 2), 0.25),
        "bilinear to twice": _pooling(
            lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), 4
        ),
    },
    "product (cuBLAS)": {
        "4096 square": _product(4096, 4096, 4096),
        "skinny": _product(64, 4096, 4096),
    },
    "transform (cuFFT)": {"4096 x 4096 complex": _transform},
}
