"""Methods of tensors that put elements in another order or in other places."""

from __future__ import annotations

from tensor.operations.shapes import combinations, diagonals, rearrangement, triangles
from tensor.operations.shapes import slices as parts


class RearrangementMethods:
    """What the families of rearranging functions give to the class ``Tensor``."""

    __slots__ = ()

    flip = rearrangement.flip
    fliplr = rearrangement.fliplr
    flipud = rearrangement.flipud
    roll = rearrangement.roll
    rot90 = rearrangement.rot90

    diag = diagonals.diag
    diag_embed = diagonals.diag_embed
    diagflat = diagonals.diagflat
    fill_diagonal_ = diagonals.fill_diagonal_
    as_strided_scatter = diagonals.as_strided_scatter
    diagonal_scatter = diagonals.diagonal_scatter
    select_scatter = diagonals.select_scatter
    slice_scatter = diagonals.slice_scatter
    tril = triangles.tril
    tril_ = triangles.tril_
    triu = triangles.triu
    triu_ = triangles.triu_

    repeat_interleave = combinations.repeat_interleave

    dsplit = parts.dsplit
    hsplit = parts.hsplit
    vsplit = parts.vsplit
    narrow_copy = rearrangement.narrow_copy
