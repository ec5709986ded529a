"""``load_url``, the older name of :func:`tensor.hub.load_state_dict_from_url`."""

from typing import Any

from tensor.core.names.absent import lazily as _lazily

# Found when it is used, as tensor.hub stands above this package.
_LAZY = {"load_url": "tensor.hub:load_state_dict_from_url", "tqdm": "tensor.hub:tqdm"}


def __getattr__(name: str) -> Any:
    return _lazily(__name__, name, _LAZY)
