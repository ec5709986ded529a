"""``tensor.cuda.FloatTensor`` and its like; see :mod:`tensor.operations.creation.typed_tensors`."""

from __future__ import annotations

from nvrtc_kernels import dtypes
from tensor.operations.creation.typed_tensors import typed

BFloat16Tensor = typed("BFloat16Tensor", dtypes.bfloat16, is_cuda=True)
BoolTensor = typed("BoolTensor", dtypes.bool_, is_cuda=True)
ByteTensor = typed("ByteTensor", dtypes.uint8, is_cuda=True)
CharTensor = typed("CharTensor", dtypes.int8, is_cuda=True)
DoubleTensor = typed("DoubleTensor", dtypes.float64, is_cuda=True)
FloatTensor = typed("FloatTensor", dtypes.float32, is_cuda=True)
HalfTensor = typed("HalfTensor", dtypes.float16, is_cuda=True)
IntTensor = typed("IntTensor", dtypes.int32, is_cuda=True)
LongTensor = typed("LongTensor", dtypes.int64, is_cuda=True)
ShortTensor = typed("ShortTensor", dtypes.int16, is_cuda=True)
