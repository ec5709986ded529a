"""Makes ``import torch`` graphroot's, for the program that imports this first and for the processes that it starts.

>>> import tensor.as_torch
>>> import torch
>>> torch.ones(2, dtype=torch.float64)
tensor([1., 1.], dtype=torch.float64)

``torch`` and its submodules are our modules then: ``torch.nn`` is :mod:`nn`, ``torch.distributed`` is :mod:`parallel`,
and so on; no PyTorch is loaded, even where it is installed. ``torch.__version__`` names the version of PyTorch whose
behaviour is followed, and graphroot. Processes have it too, however they are started: ``PYTHONPATH`` carries it.
``graphroot run script.py`` runs a program so that does not say this itself.

Raises
------
ImportError
    If PyTorch has been imported already.
"""

from .torch_names.installation import install as _install

_install()
