"""What goes on while threads do: asynchronous copies, barriers that count them, and matrix products of warpgroups."""

from .bulk_copies import BulkAccess
from .copies import CopyAccess
from .mbarriers import MbarrierAccess, Mbarriers
from .operations import Operations
from .products import THREADS as WARPGROUP_THREADS
from .products import ProductAccess, Products
from .tensor_copies import TensorAccess
from .tensor_map_changes import TensorMapAccess

__all__ = [
    "WARPGROUP_THREADS",
    "BulkAccess",
    "CopyAccess",
    "MbarrierAccess",
    "Mbarriers",
    "Operations",
    "ProductAccess",
    "Products",
    "TensorAccess",
    "TensorMapAccess",
]
