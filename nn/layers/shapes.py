"""Layers that rearrange elements: Flatten, Unflatten, Fold, Unfold, ChannelShuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module

if TYPE_CHECKING:
    from tensor import Size, Tensor


class Flatten(Module):
    """Merges the dimensions from ``start_dim`` to ``end_dim``, both included, into one.

    Parameters
    ----------
    start_dim, end_dim : int
        First and last dimension; by default all but the batch.

    Raises
    ------
    IndexError
        When it is called, if the input has no such dimension.

    Examples
    --------
    >>> nn.Flatten()(tensor.zeros(32, 1, 5, 5)).shape
    tensor.Size([32, 25])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Reshape an input: a view where its strides allow, else a copy.

        Parameters
        ----------
        input : Tensor
            Of any shape and dtype.

        Returns
        -------
        Tensor
            The dimensions from ``start_dim`` to ``end_dim`` are one, the elements the same.

        Raises
        ------
        IndexError
            If there are no such dimensions.
        """
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension ``dim`` into several of sizes ``unflattened_size``.

    Parameters
    ----------
    dim : int
        Dimension to split.
    unflattened_size : tuple of int
        Sizes of the new dimensions, of which one may be -1.

    Raises
    ------
    TypeError
        If ``dim`` is not an int, or ``unflattened_size`` is not a tuple or list of int.

    Examples
    --------
    >>> nn.Unflatten(1, (2, 5, 5))(tensor.zeros(2, 50)).shape
    tensor.Size([2, 2, 5, 5])
    """

    def __init__(self, dim: int, unflattened_size: Size | list[int] | tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"dim must be an int (names of dimensions are not supported), got {dim!r}")
        sizes: Any = unflattened_size
        if not isinstance(sizes, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}"
            )
        for position, size in enumerate(sizes):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Reshape an input, as a view.

        Parameters
        ----------
        input : Tensor
            Of any shape and dtype.

        Returns
        -------
        Tensor
            The dimension ``dim`` is replaced by dimensions of the sizes ``unflattened_size``.

        Raises
        ------
        IndexError
            If there is no such dimension.
        RuntimeError
            If the product of the sizes is not that of the dimension.
        """
        return input.unflatten(self.dim, tuple(self.unflattened_size))

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: dimension and sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Unfold(Module):
    """Sliding windows of images as columns (im2col).

    Parameters
    ----------
    kernel_size, dilation, padding, stride : int or tuple of int
        Windows as those of :class:`Conv2d`.
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Extract windows.

        Parameters
        ----------
        input : Tensor
            Shape (N, C, H, W) or (C, H, W).

        Returns
        -------
        Tensor
            Shape (N, C * kernel height * kernel width, L), with L the number of windows.
        """
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: window options."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Sums columns of sliding windows into images (col2im): the adjoint of :class:`Unfold`.

    Elements that several windows contain are added up, so it is no inverse where windows overlap.

    Parameters
    ----------
    output_size : int or tuple of int
        Height and width of the images.
    kernel_size, dilation, padding, stride : int or tuple of int
        Windows as those of :class:`Conv2d`.
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Sum windows.

        Parameters
        ----------
        input : Tensor
            Shape (N, C * kernel height * kernel width, L) or without N.

        Returns
        -------
        Tensor
            Shape (N, C, H, W) or (C, H, W).

        Raises
        ------
        RuntimeError
            If the columns do not have the length or number that the options imply.
        """
        return functional.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: size of the images, and window options."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class ChannelShuffle(Module):
    """Interleaves the channels of groups (Zhang et al., "ShuffleNet", 2017).

    Channels [0, 1, 2, 3] in 2 groups become [0, 2, 1, 3].

    Parameters
    ----------
    groups : int
        Number of groups, which divides the channels.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Permute the channels of an input of shape (N, C, ...).

        Raises
        ------
        RuntimeError
            If there are fewer than 3 dimensions, or the groups do not divide the channels.
        """
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: number of groups."""
        return f"groups={self.groups}"
