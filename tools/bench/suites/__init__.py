"""One module per suite.

A suite has ``rows(only: str, options: argparse.Namespace) -> Iterable[Row]``, which measures the rows
whose name contains ``only``, and may have ``add_options(parser)`` for options of its own.
"""
