"""Every family of operations: importing this module is what publishes them.

A new file of a family is added here.
"""

from __future__ import annotations

from importlib import import_module

_FAMILIES = {
    "attention": "attention",
    "convolution": "convolution unfolding",
    "creation": "construction conversions copies factories fills grids like ranges result_types window_functions",
    "creation.interchange": "array_interfaces dlpack_exchange",
    "indexing": "counts embedding flat_indices gather masks quantiles scatter scatter_reduce searching sorting subscripts",
    "losses": "classification elementwise margins numbered sequence similarity",
    "normalization": "normalization softmax",
    "pointwise": "activations arithmetic bitwise comparisons complex_numbers divisors floating_point glu logic powers rounding scaled_sums selection trigonometry",
    "pooling": "adaptive_pooling fractional_pooling pooling power_pooling unpooling",
    "products": "activated_products added_products contractions distances einsum linear matrix_products",
    "random": "counts creation dropout fills sampling",
    "recurrent": "functions layers",
    "reductions": "differences equality extremes logic numeric_gradients renormalization scans statistics sums variance",
    "resampling": "grid_sampling interpolation padding",
    "shapes": "broadcasting combinations diagonals joining rearrangement reshaping resizing slices triangles views",
    "special": "bessel error_functions gamma incomplete_gamma logistic orthogonal_polynomials",
    # Its rules are made of the others.
    "sparse": "construction elementwise sums_and_products products shapes reductions",
}

for _family, _files in _FAMILIES.items():
    for _file in _files.split():
        import_module(f"tensor.operations.{_family}.{_file}")
