"""The class ``Tensor``: methods, operators, text, and protocols."""
