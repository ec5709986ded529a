"""PyTorch's module names: the import hook by which ``torch`` and its submodules are ours.

:mod:`tensor.as_torch` turns it on for a program and its children.

================  ==================================================================================
``module_names``  which module of ours stands for which of PyTorch's
``stand_ins``     the modules that have to be made: ``torch`` itself, and modules with parts of ours
``finder``        what the import system asks
``installation``  turning the hook on
``children``      turning it on in processes that the program starts
``dispatch``      what packages read of ``torch._C``
``search_path``   the folder in which those processes find ``torch``
``versions``      the version that is followed, and versions that compare
================  ==================================================================================
"""
