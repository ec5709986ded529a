"""What makes batches of samples; see :mod:`tensor.utils.data.collate`."""

from tensor.utils.data.collate import collate, default_collate, default_collate_fn_map, default_convert

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]
