"""The simulated cuDNN: its signatures, refusals, algorithms, streams, workspaces and devices."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import numpy as np
import pytest

import drv
from drv import simulator
from drv.bindings import cudnn, libraries
from drv.bindings.cudnn import Cudnn
from drv.bindings.cudnn import cudnnMathType_t as Math
from drv.bindings.prototypes import prototypes
from drv.simulator.libraries import cudnn_convolutions
from drv.simulator.libraries.cudnn import SimulatedCudnn
from tests.drv.bindings.cudnn_convolutions import (
    BFLOAT,
    DATA,
    DEFAULT,
    DOUBLE,
    FILTER,
    FLOAT,
    FMA,
    FORWARD,
    HALF,
    Convolution,
    Sizes,
    simulated_cudnn,
    strides,
)
from tests.drv.bindings.library_arrays import DeviceArray

DIRECTIONS = (FORWARD, DATA, FILTER)
BAD_PARAM, NOT_SUPPORTED = "CUDNN_STATUS_BAD_PARAM", "CUDNN_STATUS_NOT_SUPPORTED"
#: Of each direction, algorithms that are deterministic, and those that add up in any order.
DETERMINISTIC = {FORWARD: [1, 0, 2], DATA: [1], FILTER: [1]}
ANY_ORDER: dict[str, list[int]] = {FORWARD: [], DATA: [0], FILTER: [0, 3]}


@pytest.mark.parametrize("name", list(prototypes(Cudnn)))
def test_signatures_are_the_declared_ones(name: str) -> None:
    parameters = inspect.signature(getattr(SimulatedCudnn, name)).parameters.values()
    assert [parameter.name for parameter in parameters][1:] == list(prototypes(Cudnn)[name].parameters)
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.POSITIONAL_ONLY}


def test_devices_have_it_where_the_option_says_so() -> None:
    with pytest.raises(drv.LibraryNotInstalledError, match="GRAPHROOT_SIMULATOR=cudnn=on"):
        simulator.install().library("cudnn")
    drv.reset()
    runtime = simulator.install(cudnn="on")
    library = runtime.library("cudnn")
    assert isinstance(library, SimulatedCudnn)
    assert runtime.library("cudnn") is library


# Descriptors

#: Calls that set a descriptor, without it.
DESCRIPTIONS: dict[str, list[tuple[Any, ...]]] = {
    "cudnnSetTensorNdDescriptor": [
        *[(FLOAT, n, (1,) * n, (1,) * n) for n in (0, 1, 2, 3, 4, 5, 8, 9)],
        *[(data_type, 4, (1,) * 4, (1,) * 4) for data_type in (-1, 1, 2, 3, 4, 5, 8, 9, 10, 77)],
        (FLOAT, -1, (), ()),
        (77, 9, (1,) * 9, (1,) * 9),
        (FLOAT, 9, (0,) * 9, (1,) * 9),
        (FLOAT, 4, (2, 3, 4, 5), (60, 20, 5, 1)),
        (FLOAT, 4, (2, 0, 4, 5), (60, 20, 5, 1)),
        (FLOAT, 4, (2, 3, -4, 5), (60, 20, 5, 1)),
        (FLOAT, 4, (2, 3, 4, 5), (60, 20, 5, 0)),
        (FLOAT, 4, (1, 3, 4, 5), (0, 20, 5, 1)),
        (FLOAT, 4, (2, 3, 4, 5), (60, 20, -5, 1)),
        (FLOAT, 4, (2, 3, 4, 5), (1, 1, 1, 1)),
        (FLOAT, 4, (2, 1, 1, 1), (2**31 - 2, 1, 1, 1)),
        (FLOAT, 4, (2, 1, 1, 1), (2**31 - 1, 1, 1, 1)),
        (FLOAT, 4, (2, 2, 1, 1), (2**31 - 3, 1, 1, 1)),
        (FLOAT, 4, (2, 2, 1, 1), (2**31 - 2, 1, 1, 1)),
        (FLOAT, 4, (3, 1, 1, 1), (-(2**30), 1, 1, 1)),
        (FLOAT, 4, (2**16, 2**16, 1, 1), (1, 1, 1, 1)),
        (FLOAT, 4, (2**15, 2**16, 1, 1), (2**16, 1, 1, 1)),
        (FLOAT, 4, (0, 2**16, 2**16, 1), (1, 1, 1, 1)),
    ],
    "cudnnSetFilterNdDescriptor": [
        *[(FLOAT, 0, n, (1,) * n) for n in (0, 1, 2, 3, 4, 5, 8, 9)],
        *[(data_type, 0, 4, (4,) * 4) for data_type in (-1, 1, 2, 3, 4, 5, 8, 9, 10, 77)],
        *[(FLOAT, layout, 4, (8, 3, 3, 3)) for layout in (-1, 1, 2, 3)],
        (77, 0, 9, (1,) * 9),
        (FLOAT, 0, 9, (0,) * 9),
        (FLOAT, 0, 4, (0, 3, 3, 3)),
        (FLOAT, 0, 4, (8, -3, 3, 3)),
        (FLOAT, 0, 4, (2**16, 2**16, 1, 1)),
        (FLOAT, 1, 5, (8, 3, 3, 3, 3)),
    ],
    "cudnnSetConvolutionNdDescriptor": [
        *[(n, (1,) * n, (1,) * n, (1,) * n, 1, FLOAT) for n in (0, 1, 2, 3, 6, 7)],
        *[(2, (1, 1), (1, 1), (1, 1), 1, compute_type) for compute_type in (-1, 1, 2, 3, 4, 5, 9, 77)],
        *[(2, (1, 1), (1, 1), (1, 1), mode, FLOAT) for mode in (-1, 0, 2)],
        (-1, (), (), (), 1, FLOAT),
        (7, (-1,) * 7, (1,) * 7, (1,) * 7, 1, FLOAT),
        (7, (1,) * 7, (1,) * 7, (1,) * 7, 5, FLOAT),
        (2, (-1, 1), (1, 1), (1, 1), 1, FLOAT),
        (2, (0, 0), (0, 1), (1, 1), 1, FLOAT),
        (2, (0, 0), (1, -1), (1, 1), 1, FLOAT),
        (2, (0, 0), (1, 1), (0, 1), 1, FLOAT),
        (2, (0, 0), (1, 1), (1, -2), 1, FLOAT),
    ],
    "cudnnSetConvolutionMathType": [(value,) for value in (-1, 0, 1, 2, 3, 4, 77)],
    "cudnnSetConvolutionGroupCount": [(value,) for value in (-1, 0, 1, 2, 2**30)],
}


def maker_of(name: str) -> str:
    """The function that makes what ``name`` sets."""
    return next(
        f"cudnnCreate{each}Descriptor" for each in ("Tensor", "Filter", "Convolution") if each in name
    )


def status_of(call: Any, *arguments: Any) -> str:
    try:
        call(*arguments)
    except drv.CudaError as error:
        return str(error.status)
    return "CUDNN_STATUS_SUCCESS"


@pytest.mark.parametrize("name", list(DESCRIPTIONS))
def test_descriptions_are_refused_as_by_nvidia_s_library(name: str) -> None:
    simulated = simulated_cudnn()
    try:
        real = libraries.bind("cudnn")
    except drv.LibraryNotInstalledError:
        pytest.skip("cuDNN is not installed")
    if real.cudnnGetVersion() < 90000:
        pytest.skip("an older cuDNN")
    described = [getattr(library, maker_of(name))() for library in (simulated, real)]
    statuses = set()
    for arguments in DESCRIPTIONS[name]:
        ours, theirs = (
            status_of(getattr(library, name), number, *arguments)
            for library, number in zip((simulated, real), described, strict=True)
        )
        assert ours == theirs, f"{name}{arguments}"
        statuses.add(ours)
    for library in (simulated, real):
        assert status_of(getattr(library, name), 0, *DESCRIPTIONS[name][2]) == BAD_PARAM
    destroy = maker_of(name).replace("Create", "Destroy")
    for library, number in zip((simulated, real), described, strict=True):
        getattr(library, destroy)(number)
        getattr(library, destroy)(0)
    # What is compared covers more than what is accepted.
    assert {"CUDNN_STATUS_SUCCESS", BAD_PARAM} <= statuses


def test_handles_and_texts_are_as_in_nvidia_s_library() -> None:
    simulated = simulated_cudnn()
    try:
        real = libraries.bind("cudnn")
    except drv.LibraryNotInstalledError:
        pytest.skip("cuDNN is not installed")
    for status in (*cudnn.cudnnStatus_t, -1, 77):
        assert simulated.cudnnGetErrorString(status) == real.cudnnGetErrorString(status)
    for library in (simulated, real):
        library.cudnnDestroy(0)
        assert status_of(library.cudnnSetStream, 0, 0) == BAD_PARAM
        assert status_of(library.cudnnGetConvolutionForwardWorkspaceSize, 0, 0, 0, 0, 0, 0) == BAD_PARAM
        assert status_of(library.cudnnConvolutionForward, *[0] * 13) == BAD_PARAM


def test_null_pointers_and_short_arrays_of_descriptors() -> None:
    library = simulated_cudnn()
    tensor, filters = library.cudnnCreateTensorDescriptor(), library.cudnnCreateFilterDescriptor()
    convolution = library.cudnnCreateConvolutionDescriptor()
    for call, arguments, text in (
        (library.cudnnSetTensorNdDescriptor, (tensor, 0, 4, None, (1,) * 4), "dimA is null"),
        (library.cudnnSetTensorNdDescriptor, (tensor, 0, 4, (1,) * 4, None), "strideA is null"),
        (library.cudnnSetTensorNdDescriptor, (tensor, 0, 4, (1,) * 3, (1,) * 4), "dimA has 3 items, and 4 are read"),
        (library.cudnnSetFilterNdDescriptor, (filters, 0, 0, 4, None), "filterDimA is null"),
        (library.cudnnSetConvolutionNdDescriptor, (convolution, 2, None, (1,) * 2, (1,) * 2, 1, 0), "padA is null"),
        (library.cudnnSetConvolutionNdDescriptor, (convolution, 2, (1,) * 2, None, (1,) * 2, 1, 0), "filterStrideA is"),
        (library.cudnnSetConvolutionNdDescriptor, (convolution, 2, (1,) * 2, (1,) * 2, None, 1, 0), "dilationA is null"),
    ):  # fmt: skip
        with pytest.raises(drv.InvalidValueError, match=f"CUDNN_STATUS_BAD_PARAM: {text}"):
            call(*arguments)


def test_what_was_destroyed_is_refused() -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    library = case.library
    with pytest.raises(drv.InvalidValueError, match="tensorDesc .* is no descriptor of a tensor"):
        library.cudnnSetTensorNdDescriptor(case.weights, 0, 4, (1,) * 4, (1,) * 4)
    library.cudnnDestroyFilterDescriptor(case.weights)
    with pytest.raises(
        drv.InvalidValueError, match="wDesc .* is no descriptor of a filter, or was destroyed"
    ):
        case.run(FORWARD, 1)
    with pytest.raises(drv.InvalidValueError, match="or was destroyed"):
        library.cudnnDestroyFilterDescriptor(case.weights)
    library.cudnnDestroy(case.handle)
    for call in (library.cudnnDestroy, lambda handle: library.cudnnSetStream(handle, 0)):
        with pytest.raises(drv.InvalidValueError, match="is no cuDNN handle, or was destroyed"):
            call(case.handle)


def test_a_handle_needs_a_context() -> None:
    library = simulated_cudnn()
    drv.runtime().driver.cuCtxPopCurrent()
    with pytest.raises(drv.InvalidHandleError, match="NOT_INITIALIZED: no context is current"):
        library.cudnnCreate()


# Wrong arguments of a convolution


@pytest.mark.parametrize(
    ("changed", "status", "text"),
    [
        ({"handle": 1}, BAD_PARAM, "0x1 is no cuDNN handle"),
        ({"convDesc": 0}, BAD_PARAM, "convDesc 0x0 is no descriptor of a convolution"),
        ({"firstDesc": 0}, BAD_PARAM, "Desc 0x0 is no descriptor"),
        ({"secondDesc": 0}, BAD_PARAM, "Desc 0x0 is no descriptor"),
        ({"outDesc": 0}, BAD_PARAM, "Desc 0x0 is no descriptor"),
        ({"first": 0}, BAD_PARAM, "one of them is null"),
        ({"second": 0}, BAD_PARAM, "one of them is null"),
        ({"out": 0}, BAD_PARAM, "one of them is null"),
        ({"alpha": 0}, BAD_PARAM, "alpha is null"),
        ({"beta": 0}, BAD_PARAM, "beta is null"),
        ({"beta": 1 << 48}, BAD_PARAM, "device address: it is read on the host"),
        ({"algo": 99}, BAD_PARAM, "99 is no algorithm of cudnnConvolution"),
        ({"algo": 4}, NOT_SUPPORTED, "for n=2 c=4 image=6x7 k=6 filter=3x2 padding=1x1"),
        ({"workSpace": 0}, BAD_PARAM, "workSpace is null, and CUDNN_CONVOLUTION_"),
        ({"size": 255}, f"{BAD_PARAM}_SIZE_INSUFFICIENT", "workSpaceSizeInBytes is 255, and CUDNN_CONVOLUTION_"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_wrong_arguments(direction: str, changed: dict[str, Any], status: str, text: str) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    before = case.output(direction)
    assert case.workspace_size(direction, 1) == 256
    case.workspace = drv.DeviceMemory(256)
    with pytest.raises(drv.CudaError, match=rf"cudnnConvolution{direction}\(handle=") as caught:
        case.run(direction, 1, **{"size": 256, **changed})
    assert caught.value.status == status
    assert text in str(caught.value)
    np.testing.assert_array_equal(case.output(direction), before)
    case.run(direction, 1)
    case.check(direction, 2**-24)


def replaced(case: Convolution, operand: str, shape: tuple[int, ...], data_type: int = FLOAT) -> None:
    """Describe an operand otherwise."""
    library, dims = case.library, len(shape)
    if operand == "weights":
        library.cudnnSetFilterNdDescriptor(case.weights, data_type, 0, dims, shape)
    else:
        library.cudnnSetTensorNdDescriptor(getattr(case, operand), data_type, dims, shape, strides(shape))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("operand", "shape", "data_type", "text"),
    [
        ("image", (2, 3, 6, 7), FLOAT, r"1 groups of 4 channels need an image of 4 channels"),
        ("image", (3, 4, 6, 7), FLOAT, r"is \(3, 6, 6, 8\), not \(2, 6, 6, 8\)"),
        ("image", (2, 4, 6, 7, 1), FLOAT, "have 5, 4 and 4 dimensions, and the convolution has 2 spatial"),
        ("weights", (6, 4, 3, 10), FLOAT, "are larger than the padded image"),
        ("weights", (5, 4, 3, 2), FLOAT, r"is \(2, 5, 6, 8\), not \(2, 6, 6, 8\)"),
        ("weights", (6, 4, 3, 2), HALF, r"are of the types \(.*\): expected the same"),
        ("result", (2, 6, 6, 7), FLOAT, r"is \(2, 6, 6, 8\), not \(2, 6, 6, 7\)"),
        ("result", (2, 6, 6, 8), DOUBLE, r"are of the types \(.*\): expected the same"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit(
    direction: str, operand: str, shape: tuple[int, ...], data_type: int, text: str
) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    replaced(case, operand, shape, data_type)
    for call in (case.run, case.workspace_size, case.algorithms):
        arguments = (direction,) if call == case.algorithms else (direction, 1)
        with pytest.raises(drv.InvalidValueError, match=f"{BAD_PARAM}: .*{text}"):
            call(*arguments)
    replaced(case, operand, case.sizes.shapes[["image", "weights", "result"].index(operand)])
    case.run(direction)
    case.check(direction, 2**-24)


def test_groups_divide_channels_and_filters() -> None:
    case = Convolution(simulated_cudnn(), Sizes(groups=2))
    for groups in (1, 3, 4):
        case.library.cudnnSetConvolutionGroupCount(case.convolution, groups)
        with pytest.raises(drv.InvalidValueError, match=f"{groups} groups of 2 channels need"):
            case.run(FORWARD)


def test_what_is_not_simulated() -> None:
    library = simulated_cudnn()

    def refused(case: Convolution, text: str) -> None:
        for direction in DIRECTIONS:
            with pytest.raises(drv.NotSupportedError, match=text):
                case.run(direction)

    case = Convolution(library, Sizes())
    integers = 3
    for operand, shape in zip(("image", "weights", "result"), case.sizes.shapes, strict=True):
        replaced(case, operand, shape, integers)
    refused(case, "convolutions of the type 3 are not simulated")
    for data_type, compute_type, text in (
        (HALF, HALF, "sums of float16 in the type 2: expected CUDNN_DATA_FLOAT"),
        (BFLOAT, DOUBLE, "sums of bfloat16 in the type 1"),
        (DOUBLE, FLOAT, "sums of float64 in the type 0: expected CUDNN_DATA_DOUBLE"),
    ):
        case = Convolution(library, Sizes(), data_type)
        library.cudnnSetConvolutionNdDescriptor(case.convolution, 2, (1, 1), (1, 1), (1, 1), 1, compute_type)
        refused(case, text)
    image, _, result = Sizes().shapes
    packed = strides(image), strides(result)
    refused(
        Convolution(library, Sizes(), layouts=((1, *packed[0][1:]), packed[1])), "of the image .* overlap"
    )
    refused(
        Convolution(library, Sizes(), layouts=(packed[0], (*packed[1][:2], 7, 1))), "of the result .* overlap"
    )
    case = Convolution(library, Sizes())
    library.cudnnSetTensorNdDescriptor(case.image, FLOAT, 4, image, (168, 42, -7, 1))
    refused(case, "or go backwards")
    case = Convolution(library, Sizes())
    library.cudnnSetFilterNdDescriptor(case.weights, FLOAT, 1, 4, case.sizes.shapes[1])
    refused(case, r"CUDNN_TENSOR_NHWC need its items packed in that order, with strides \(1, 28, 4\)")
    shapes = (2, 3, 8), (5, 3, 3), (2, 5, 6)
    for operand, shape in zip(("image", "weights", "result"), shapes, strict=True):
        replaced(case, operand, shape)
    library.cudnnSetConvolutionNdDescriptor(case.convolution, 1, (0,), (1,), (1,), 1, FLOAT)
    refused(case, "3 dimensions: 4 or 5 are supported")


def test_operands_that_are_not_described() -> None:
    library = simulated_cudnn()
    case = Convolution(library, Sizes())
    described = case.image
    case.image = library.cudnnCreateTensorDescriptor()
    with pytest.raises(drv.InvalidValueError, match="the descriptor of the image is not set"):
        case.run(FORWARD)
    case.image, case.convolution = described, library.cudnnCreateConvolutionDescriptor()
    with pytest.raises(drv.InvalidValueError, match="the convolution has 0 spatial ones"):
        case.run(FORWARD)


# Algorithms


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_algorithms_are_listed_the_quickest_first_and_those_that_are_not_there_last(direction: str) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    numbers = DETERMINISTIC[direction] + ANY_ORDER[direction]
    listed = case.algorithms(direction)
    assert len(listed) == {FORWARD: 8, DATA: 6, FILTER: 7}[direction]
    assert sorted(each.algo for each in listed) == list(range(len(listed)))
    assert [each.algo for each in listed if each.status == 0] == numbers
    for index, each in enumerate(listed):
        assert each.time == -1
        assert list(each.reserved) == [0, 0, 0]
        if index < len(numbers):
            assert each.determinism == (each.algo in DETERMINISTIC[direction])
            assert each.memory == case.workspace_size(direction, each.algo)
            assert each.mathType == Math.CUDNN_FMA_MATH
        else:
            assert each.status == cudnn.cudnnStatus_t.CUDNN_STATUS_NOT_SUPPORTED
            with pytest.raises(drv.NotSupportedError, match=rf"{NOT_SUPPORTED}: .*_ALGO_.* for n=2 c=4"):
                case.workspace_size(direction, each.algo)
    assert [each.algo for each in case.algorithms(direction, 2)] == [each.algo for each in listed[:2]]


def test_listing_writes_no_more_than_is_asked_for() -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    results = (cudnn.AlgorithmPerformance * 3)()
    ctypes.memset(ctypes.addressof(results), 0x5A, ctypes.sizeof(results))
    untouched = bytes(results[2])
    call = case.library.cudnnGetConvolutionForwardAlgorithm_v7
    arguments = case.arguments(FORWARD).values()
    assert call(*arguments, 2, ctypes.addressof(results)) == 2
    assert bytes(results[2]) == untouched
    with pytest.raises(drv.InvalidValueError, match="requestedAlgoCount is 0"):
        call(*arguments, 0, ctypes.addressof(results))
    with pytest.raises(drv.InvalidValueError, match="perfResults is null"):
        call(*arguments, 2, 0)


def test_which_algorithms_there_are_for_what() -> None:
    library = simulated_cudnn()
    volume = Sizes(image=(4, 5, 6), kernel=(2, 2, 2))
    for sizes, channels_last in ((Sizes(), True), (Sizes(dilation=2), False), (volume, False)):
        case = Convolution(library, sizes, channels_last=channels_last)
        assert [case.supported(direction) for direction in DIRECTIONS] == [[1, 0], [1, 0], [1, 0]]
    case = Convolution(library, Sizes(groups=2))
    assert [case.supported(direction) for direction in DIRECTIONS] == [[1, 0, 2], [1, 0], [1, 0, 3]]
    # The columns of one image.
    needed = 2 * 2 * 3 * 2 * 6 * 8 * 4
    assert needed <= case.workspace_size(FORWARD, 2) < needed + 256


@pytest.mark.parametrize(
    ("data_type", "math", "reported"),
    [
        (FLOAT, Math.CUDNN_DEFAULT_MATH, Math.CUDNN_DEFAULT_MATH),
        (FLOAT, Math.CUDNN_FMA_MATH, Math.CUDNN_FMA_MATH),
        (HALF, Math.CUDNN_DEFAULT_MATH, Math.CUDNN_TENSOR_OP_MATH),
        (BFLOAT, Math.CUDNN_FMA_MATH, Math.CUDNN_FMA_MATH),
        (DOUBLE, Math.CUDNN_DEFAULT_MATH, Math.CUDNN_DEFAULT_MATH),
    ],
)
def test_math_types_of_algorithms(data_type: Any, math: int, reported: int) -> None:
    case = Convolution(simulated_cudnn(), Sizes(), data_type, math=math)
    assert {each.mathType for each in case.algorithms(FORWARD, 2)} == {reported}


@pytest.mark.parametrize("direction", [DATA, FILTER])
def test_algorithms_that_add_up_in_any_order_differ_from_run_to_run(direction: str) -> None:
    case = Convolution(simulated_cudnn(schedule="random", seed=3), Sizes(items=8, filters=16, kernel=(3, 3)))
    for number in DETERMINISTIC[direction] + ANY_ORDER[direction]:
        results = []
        for _ in range(6):
            case.run(direction, number)
            results.append(case.output(direction).tobytes())
        assert (len(set(results)) > 1) == (number in ANY_ORDER[direction])


@pytest.mark.parametrize("items", [1, 3])
def test_few_items_are_added_up_in_any_order_too(items: int) -> None:
    sizes = Sizes(items=items, channels=8, image=(9, 9), filters=8, kernel=(1, 1), padding=0)
    case = Convolution(simulated_cudnn(schedule="random"), sizes)
    for direction in (DATA, FILTER):
        results = set()
        for _ in range(8):
            case.run(direction, 0)
            results.add(case.output(direction).tobytes())
        assert len(results) > 1


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_other_schedules_have_one_order(schedule: str) -> None:
    case = Convolution(simulated_cudnn(schedule=schedule), Sizes(items=8, filters=16))
    for direction in (DATA, FILTER):
        results = set()
        for _ in range(3):
            case.run(direction, 0)
            results.add(case.output(direction).tobytes())
        assert len(results) == 1


# How it is computed


@pytest.mark.parametrize("limit", [1, 500, 3000, 20000])
@pytest.mark.parametrize("stride", [1, 2])
def test_large_convolutions_are_computed_in_parts(
    limit: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cudnn_convolutions, "_COLUMN_BYTES", limit)
    library = simulated_cudnn()
    for direction in DIRECTIONS:
        case = Convolution(library, Sizes(items=5, stride=stride, dilation=2, groups=2))
        for number in case.supported(direction):
            for beta in (0.0, 0.5):
                case = Convolution(library, case.sizes)
                case.beta.value = beta
                case.run(direction, number)
                case.check(direction, 2**-24)


def test_columns_do_not_take_more_memory_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1 << 14
    monkeypatch.setattr(cudnn_convolutions, "_COLUMN_BYTES", limit)
    multiply, sizes = cudnn_convolutions.multiply, []

    def measured(a: Any, b: Any) -> Any:
        sizes.append(max(a.nbytes, b.nbytes))
        return multiply(a, b)

    monkeypatch.setattr(cudnn_convolutions, "multiply", measured)
    case = Convolution(simulated_cudnn(), Sizes(items=3, image=(20, 20)))
    for direction in (FORWARD, FILTER):
        case.run(direction)
        drv.Device(0).synchronize()
    assert len(sizes) > 10
    assert max(sizes) <= limit


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_scalars_are_read_during_the_call(direction: str) -> None:
    case = Convolution(simulated_cudnn(schedule="lazy"), Sizes())
    case.alpha.value, case.beta.value = 2.0, 0.5
    case.run(direction)
    case.alpha.value = case.beta.value = float("nan")
    result = case.output(direction)
    case.alpha.value, case.beta.value = 2.0, 0.5
    np.testing.assert_allclose(result, case.expected(direction), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_workspace_is_overwritten_as_far_as_it_is_needed(direction: str) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    for number in case.supported(direction):
        needed = case.workspace_size(direction, number)
        case.workspace = drv.DeviceMemory(needed + 64)
        drv.memset(case.workspace, 0, needed + 64)
        case.run(direction, number, size=needed + 64)
        raw = np.empty(needed + 64, np.uint8)
        drv.copy_to_host(raw, case.workspace)
        np.testing.assert_array_equal(raw, [0xFF] * needed + [0] * 64)


def test_a_descriptor_that_is_set_once_more_describes_what_follows() -> None:
    """What was queued is computed as it was described."""
    case = Convolution(simulated_cudnn(schedule="lazy"), Sizes(image=(6, 6), kernel=(3, 3)))
    case.run(FORWARD)
    case.library.cudnnSetConvolutionNdDescriptor(case.convolution, 2, (1, 1), (1, 1), (1, 1), 0, FLOAT)
    case.check(FORWARD, 2**-24)
    case.run(FORWARD)
    case.sizes = Sizes(image=(6, 6), kernel=(3, 3), flipped=True)
    case.check(FORWARD, 2**-24)


# Streams, devices and faults


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_convolutions_are_asynchronous(schedule: str) -> None:
    case = Convolution(simulated_cudnn(schedule=schedule, check="on"), Sizes())
    before = case.output(FORWARD)
    stream, other = drv.Stream(drv.Device(0)), drv.Stream(drv.Device(0))
    case.library.cudnnSetStream(case.handle, int(stream.handle))
    case.run(FORWARD)
    raw = np.empty(case.arrays[2].memory.nbytes, np.uint8)
    drv.copy_to_host(raw, case.arrays[2].memory, stream=other)
    other.synchronize()
    if schedule == "lazy":
        np.testing.assert_array_equal(raw.view(np.float32).reshape(before.shape), before)
    case.check(FORWARD, 2**-24)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operand", ["first", "second", "out"])
def test_a_missing_wait_is_a_race(direction: str, operand: str) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    case.library.cudnnSetStream(case.handle, int(streams[0].handle))
    drv.Device(0).synchronize()
    case.run(direction)
    index = case.order(direction)[("first", "second", "out").index(operand)]
    drv.memset(case.arrays[index].memory, 0, 16, stream=streams[1])
    with pytest.raises(drv.DataRaceError, match=f"cudnnConvolution{direction} n=2 c=4 image=6x7 k=6"):
        drv.Device(0).synchronize()


def test_what_is_only_read_may_be_read_on_another_stream() -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    other = DeviceArray(np.zeros(case.sizes.shapes[2], np.float32))
    drv.Device(0).synchronize()
    for stream, out in zip(streams, (case.arrays[2], other), strict=True):
        case.library.cudnnSetStream(case.handle, int(stream.handle))
        case.run(FORWARD, 0, out=out.address)
    np.testing.assert_array_equal(other.numpy(), case.output(FORWARD))
    assert not drv.simulator.findings()


@pytest.mark.parametrize("shared", [True, False])
def test_a_workspace_of_two_streams_is_a_race(shared: bool) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    streams = [drv.Stream(drv.Device(0)) for _ in range(2)]
    outputs = [DeviceArray(np.zeros(case.sizes.shapes[2], np.float32)) for _ in range(2)]
    areas = [drv.DeviceMemory(4096) for _ in range(2)]
    drv.Device(0).synchronize()
    for index, stream in enumerate(streams):
        case.library.cudnnSetStream(case.handle, int(stream.handle))
        area = areas[0 if shared else index].address
        case.run(FORWARD, 1, out=outputs[index].address, workSpace=area, size=4096)
    if shared:
        with pytest.raises(drv.DataRaceError, match="4096 bytes"):
            drv.Device(0).synchronize()
    else:
        drv.Device(0).synchronize()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_captured_convolutions_are_done_at_each_launch(direction: str) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    before = case.output(direction)
    case.workspace = drv.DeviceMemory(256)
    stream = drv.Stream(drv.Device(0))
    case.library.cudnnSetStream(case.handle, int(stream.handle))
    case.beta.value = 1.0
    with drv.capture(stream) as capture:
        case.run(direction, 1)
    np.testing.assert_array_equal(case.output(direction), before)
    executable = capture.graph.instantiate()
    case.alpha.value = float("nan")
    for _ in range(2):
        executable.launch(stream)
        stream.synchronize()
    case.alpha.value = 2.0
    np.testing.assert_allclose(case.output(direction), case.expected(direction), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operand", ["first", "second", "out", "workSpace"])
def test_operands_outside_of_memory_are_illegal_addresses(direction: str, operand: str) -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    case.workspace = drv.DeviceMemory(256)
    case.run(direction, 1, **{operand: 1 << 50})
    access = "write" if operand in ("out", "workSpace") else "read"
    with pytest.raises(
        drv.IllegalAddressError, match=f"{access} of .* bytes(.|\n)*cudnnConvolution{direction} n=2"
    ):
        drv.Device(0).synchronize()


def test_memory_that_is_too_small_or_freed_is_named() -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    case.run(FORWARD, 0, first=case.arrays[0].address + 4)
    with pytest.raises(drv.IllegalAddressError, match="read of .* bytes(.|\n)*1344 bytes of device memory"):
        drv.Device(0).synchronize()
    case = Convolution(simulated_cudnn(), Sizes())
    address = case.arrays[1].address
    case.arrays[1].memory.free()
    case.run(FORWARD, 0, second=address)
    with pytest.raises(drv.IllegalAddressError, match="freed"):
        drv.Device(0).synchronize()
    case = Convolution(simulated_cudnn(), Sizes())
    case.run(FORWARD, 0, second=case.arrays[1].address + 2)
    with pytest.raises(drv.MisalignedAddressError, match="float32 elements"):
        drv.Device(0).synchronize()


def test_blocking_launches_say_at_once_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    case = Convolution(simulated_cudnn(), Sizes())
    with pytest.raises(drv.CudaError, match="CUDNN_STATUS_EXECUTION_FAILED(.|\n)*read of .* bytes at 0x"):
        case.run(FORWARD, 0, first=1 << 50)


def test_a_handle_belongs_to_a_device() -> None:
    case = Convolution(simulated_cudnn(devices=2), Sizes())
    stream = drv.Stream(drv.Device(1))
    case.library.cudnnSetStream(case.handle, int(stream.handle))
    with pytest.raises(drv.CudaError, match="CUDNN_STATUS_EXECUTION_FAILED.*made on device 0"):
        case.run(FORWARD)
    case.library.cudnnSetStream(case.handle, 0)
    drv.Device(1).use()
    with pytest.raises(drv.CudaError, match="CUDNN_STATUS_EXECUTION_FAILED.*made on device 0"):
        case.run(FORWARD)


def test_reads_of_memory_never_written() -> None:
    case = Convolution(simulated_cudnn(check="full"), Sizes())
    empty = drv.DeviceMemory(case.arrays[2].memory.nbytes)
    # The result is not read, unless it is added to.
    case.run(FORWARD, 0, out=empty.address)
    drv.Device(0).synchronize()
    fresh = drv.DeviceMemory(empty.nbytes)
    case.beta.value = 1.0
    case.run(FORWARD, 0, out=fresh.address)
    with pytest.raises(drv.UninitializedReadError, match="cudnnConvolutionForward"):
        drv.Device(0).synchronize()


# Other uses of the driver


def test_nothing_runs_with_execute_off() -> None:
    case = Convolution(simulated_cudnn(execute=False), Sizes())
    case.workspace = drv.DeviceMemory(256)
    for _ in range(2):
        for direction in DIRECTIONS:
            case.run(direction, 1)
            with pytest.raises(drv.InvalidValueError, match="alpha is null"):
                case.run(direction, 1, alpha=0)
    # What was accepted says nothing about the descriptor that now has its number.
    replaced(case, "image", (2, 3, 6, 7))
    arguments = case.arguments(FORWARD)
    with pytest.raises(drv.InvalidValueError, match="need an image of 4 channels"):
        case.run(FORWARD, 1, size=256, firstDesc=arguments["firstDesc"])
    replaced(case, "image", case.sizes.shapes[0])
    case.run(FORWARD, 1)
    case.library.cudnnDestroy(case.handle)
    with pytest.raises(drv.InvalidValueError, match="is no cuDNN handle"):
        case.run(FORWARD, 1, size=256)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("data_type", "math", "pipe"),
    [
        (HALF, DEFAULT, "tensor pipe"),
        (BFLOAT, DEFAULT, "tensor pipe"),
        (HALF, FMA, "fma pipe"),
        (FLOAT, DEFAULT, "tensor pipe"),
        (FLOAT, FMA, "fma pipe"),
        (DOUBLE, DEFAULT, "tensor pipe"),
    ],
)
def test_times_are_those_of_the_equal_product(direction: str, data_type: Any, math: int, pipe: str) -> None:
    sizes = Sizes(items=4, channels=256, image=(32, 32), filters=128, kernel=(3, 3), stride=2, groups=2)
    case = Convolution(simulated_cudnn(model="h200", check="off"), sizes, data_type, math=math)
    with simulator.timed(results=False) as timing:
        case.run(direction, 0)
        drv.Device(0).synchronize()
    operation = next(each for each in timing.operations if "cudnn" in each.name)
    sizes_text = "n=4 c=256 image=32x32 k=128 filter=3x3 padding=1x1 stride=2x2 groups=2"
    assert operation.name == f"cudnnConvolution{direction} {sizes_text}"
    assert operation.metrics["flops"] == 2 * 4 * 128 * 16 * 16 * 128 * 9
    assert operation.metrics["bound"] == pipe
    peak = (
        {HALF: 989.4, BFLOAT: 989.4, FLOAT: 494.7, DOUBLE: 66.9}[data_type] if pipe == "tensor pipe" else 66.9
    )
    # Much of it, for a product as small as that.
    rate = operation.metrics["flops"] / (operation.metrics["modelled_us"] * 1e6)
    assert 0.03 * peak < rate < peak


def test_calls_fail_on_demand() -> None:
    case = Convolution(simulated_cudnn(), Sizes())
    before = case.output(FORWARD)
    inject = simulator.inject()
    inject.fail_call(name="cudnnConvolutionForward")
    with pytest.raises(drv.CudaError, match="CUDNN_STATUS_INTERNAL_ERROR"):
        case.run(FORWARD)
    np.testing.assert_array_equal(case.output(FORWARD), before)
    inject.fail_call(status=cudnn.cudnnStatus_t.CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    with pytest.raises(drv.OutOfMemoryError):
        case.library.cudnnCreate()
    # What gives back does so although it fails.
    inject.fail_call()
    with pytest.raises(drv.CudaError, match="CUDNN_STATUS_INTERNAL_ERROR"):
        case.library.cudnnDestroyTensorDescriptor(case.image)
    with pytest.raises(drv.InvalidValueError, match="or was destroyed"):
        case.run(FORWARD)
