"""Files of ``torch.save``: read without running anything, and written so that ``torch.load(weights_only=True)`` reads them.

Such a file is a pickle and the bytes of storages. A pickle is a program for a small machine with a stack, which may
call whatever it names; the one here knows a table of names, for which it calls constructors of its own, and nothing else.

==================  ====================================================================
``errors``          the error for what a pickle may not do
``safe_globals``    the names that the user allows beside the table
``machine``         the machine
``constructors``    the table of names, and what stands for them
``tensors``         tensors and parameters
``numbers``         NumPy's dtypes, scalars and arrays
``storages``        the storages of a file, and the limit of what is copied
``archive``         the format since PyTorch 1.6, a ZIP archive, read without trust
``legacy``          the format before
``reading``         which of them a file is
``pickler``         values as a pickle
``writing``         the archive
==================  ====================================================================
"""
