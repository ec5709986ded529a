"""Which of PyTorch's computations of attention a program allows. The one that there is here depends on none of them."""

from __future__ import annotations

#: By the names in ``backends.cuda.enable_flash_sdp`` and its neighbours.
attention_backends = {"cudnn": True, "flash": True, "math": True, "mem_efficient": True}
