"""The modules ``torch.onnx.symbolic_opset7`` and so on, whose functions would write ONNX: none of them is here."""

from tensor.core.names.absent import hints as _hints

__getattr__ = _hints(__name__)
