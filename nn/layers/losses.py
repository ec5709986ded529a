"""Loss functions as modules, and the similarities and distances that some of them are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module
from tensor.operations.losses.loss import reduction_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor


class _Loss(Module):
    """Base class of losses with a ``reduction``."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        old = size_average is not None or reduce is not None
        self.reduction = reduction_of(reduction, size_average, reduce) if old else reduction


class _WeightedLoss(_Loss):
    """Base class of losses with a weight of each class or element, which is a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """Mean absolute error: ``abs(input - target)``.

    Parameters
    ----------
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of an input and a target.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating or complex dtype.
        target : Tensor
            Of a shape that broadcasts with the input's (others than the input's own warn), of any numeric dtype.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together, or both are integers and ``reduction`` is ``"mean"``.
        """
        return functional.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Mean squared error: ``(input - target) ** 2``.

    Parameters
    ----------
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.

    Examples
    --------
    >>> x, y = tensor.tensor([1.0, 2.0], requires_grad=True), tensor.zeros(2)
    >>> loss = nn.MSELoss()(x, y)
    >>> loss.backward()
    >>> x.grad
    tensor([1., 2.])
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of an input and a target.

        Parameters
        ----------
        input : Tensor
            Of any shape and a floating dtype.
        target : Tensor
            Of a shape that broadcasts with the input's (others than the input's own warn), of any dtype but complex.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        NotImplementedError
            If both are integers, or one is complex.
        """
        return functional.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Smooth L1 loss: ``0.5 * d ** 2 / beta`` where ``d < beta``, else ``d - 0.5 * beta``, of ``d = abs(input - target)``.

    Girshick, "Fast R-CNN", 2015. It is :class:`HuberLoss` divided by ``beta``.

    Parameters
    ----------
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    beta : float
        Where it changes from quadratic to linear; 0 is :class:`L1Loss`.

    Raises
    ------
    RuntimeError
        When it is called, if ``beta`` is negative.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of an input and a target.

        Parameters
        ----------
        input : Tensor
            Of any shape and dtype but complex.
        target : Tensor
            Of a shape that broadcasts with the input's (others than the input's own warn), of any dtype but complex.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        NotImplementedError
            If one is complex.
        """
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Huber loss: ``0.5 * d ** 2`` where ``d <= delta``, else ``delta * (d - 0.5 * delta)``, of ``d = abs(input - target)``.

    Parameters
    ----------
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    delta : float
        Where it changes from quadratic to linear.

    Raises
    ------
    TypeError
        If ``delta`` is not a number.
    RuntimeError
        When it is called, if ``delta`` is not positive.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got {type(delta).__name__}: {delta!r}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of an input and a target.

        Parameters
        ----------
        input : Tensor
            Of any shape and dtype but complex.
        target : Tensor
            Of a shape that broadcasts with the input's (others than the input's own warn), of any dtype but complex.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        NotImplementedError
            If one is complex.
        """
        return functional.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of logits and a target: :class:`LogSoftmax` over the classes, then negative log-likelihood.

    The mean over a batch with ``weight`` is the weighted mean.

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    ignore_index : int
        Class index that contributes neither loss nor gradient.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    label_smoothing : float
        In [0, 1]: the target is mixed with the uniform distribution over the classes in this proportion (Szegedy et
        al., 2015).
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.

    Examples
    --------
    >>> logits = tensor.randn(3, 5, requires_grad=True)
    >>> nn.CrossEntropyLoss()(logits, tensor.tensor([1, 0, 4])).backward()
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of logits.

        Parameters
        ----------
        input : Tensor
            Logits of shape (C,), (N, C) or (N, C, d1, ...).
        target : Tensor
            int64 class indices of shape (), (N,) or (N, d1, ...), or class probabilities of the input's shape and
            dtype.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape of class indices.

        Raises
        ------
        IndexError
            If a class index is not in [0, C); on CUDA it is a device-side assertion, which a later call raises.
        """
        return functional.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood: minus the log-probability of the target class, such as of :class:`LogSoftmax`.

    The mean over a batch with ``weight`` is the weighted mean.

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    ignore_index : int
        Class index that contributes neither loss nor gradient.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of log-probabilities.

        Parameters
        ----------
        input : Tensor
            Log-probabilities of shape (C,), (N, C) or (N, C, d1, ...).
        target : Tensor
            int64 class indices of shape (), (N,) or (N, d1, ...).

        Raises
        ------
        IndexError
            If a class index is not in [0, C); on CUDA it is a device-side assertion, which a later call raises.
        """
        return functional.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """Older name of :class:`NLLLoss`; the parameters are those of that class.

    Its input is (N, C, H, W) and its target (N, H, W), which that class takes as well. Errors are the same.
    """


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities: ``-(target * log(input) + (1 - target) * log(1 - input))``.

    The logarithms are at least -100, so the loss is finite. :class:`BCEWithLogitsLoss` is more accurate.

    Parameters
    ----------
    weight : Tensor, optional
        Factor of each loss, broadcastable to the input.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of an input in [0, 1] and a target in [0, 1] of the same shape.

        Raises
        ------
        ValueError
            If the shapes differ.
        RuntimeError
            If an element of the input is not in [0, 1]; on CUDA it is a device-side assertion, which a later call
            raises.
        """
        return functional.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits: :class:`BCELoss` of ``sigmoid(input)``, computed without overflow.

    Parameters
    ----------
    weight : Tensor, optional
        Factor of each loss, broadcastable to the input.
    pos_weight : Tensor, optional
        Factor of the losses of positive targets, such as the number of negatives for each positive; broadcastable.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of logits ``input`` and a ``target`` in [0, 1] of the same shape.

        Raises
        ------
        ValueError
            If the shapes differ.
        """
        return functional.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence: ``target * (log(target) - input)``, where the input holds log-probabilities.

    Parameters
    ----------
    reduction : str
        ``"mean"`` (the default) over all elements, ``"batchmean"`` for the divergence averaged over the batch,
        ``"sum"`` or ``"none"``.
    log_target : bool
        Whether the target holds log-probabilities too.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of log-probabilities and a target.

        Parameters
        ----------
        input : Tensor
            Log-probabilities, of any shape and a floating dtype.
        target : Tensor
            Probabilities, or with ``log_target`` their logarithms, of the input's shape or one that broadcasts with it.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        NotImplementedError
            If both are integers, or one is complex.
        """
        return functional.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CTCLoss(_Loss):
    """Connectionist temporal classification: minus the log-probability of label sequences, summed over their alignments.

    Graves et al., "Connectionist Temporal Classification", 2006. The mean is over the batch, after each loss was
    divided by the length of its target.

    Parameters
    ----------
    blank : int
        Class of the blank label.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    zero_infinity : bool
        Whether infinite losses, of targets longer than their input, and their gradients are 0.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Loss of sequences.

        Parameters
        ----------
        log_probs : Tensor
            Log-probabilities of shape (T, N, C) or (T, C).
        targets : Tensor
            int64 or int32 labels of shape (N, S), or of all samples in a row, (sum of target_lengths,).
        input_lengths, target_lengths : Tensor or tuple of int
            Lengths of the sequences, of shape (N,) or ().

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of shape (N,).
        """
        return functional.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts with a Poisson distribution: ``exp(input) - target * input``.

    Parameters
    ----------
    log_input : bool
        Whether the input is the logarithm of the rate; otherwise the loss is ``input - target * log(input + eps)``.
    full : bool
        Whether to add Stirling's approximation of ``log(target!)``, where the target is greater than 1.
    eps : float
        Avoids the logarithm of 0.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Loss of rates and counts.

        Parameters
        ----------
        log_input : Tensor
            Logarithms of the rates, or with ``log_input=False`` the rates, of any shape.
        target : Tensor
            Counts, of the same shape or one that broadcasts with it.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        """
        return functional.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of a normal distribution: ``0.5 * (log(var) + (input - target) ** 2 / var)``.

    Nix and Weigend, "Estimating the mean and variance of the target probability distribution", 1994.

    Parameters
    ----------
    full : bool
        Whether to add the constant ``0.5 * log(2 * pi)``.
    eps : float
        Lower bound of ``var``, for which no gradient is clamped.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Loss of predicted means.

        Parameters
        ----------
        input, target : Tensor
            Means and samples of the same, or of broadcastable, shape.
        var : Tensor or float
            Variances, of the input's shape, with 1 as the last dimension, or without it.

        Raises
        ------
        ValueError
            If a variance is negative, or has another shape.
        """
        return functional.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """Logistic loss ``log(1 + exp(-target * input))`` of targets 1 and -1.

    Parameters
    ----------
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of scores and labels.

        Parameters
        ----------
        input : Tensor
            Scores, of any shape and a floating dtype.
        target : Tensor
            1 and -1, of the input's shape or one that broadcasts with it.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        NotImplementedError
            If both are integers, or one is complex.
        """
        return functional.soft_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1; the input is a distance.

    Parameters
    ----------
    margin : float
        Distance that dissimilar pairs are pushed to.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of distances and labels.

        Parameters
        ----------
        input : Tensor
            Distances, of any shape and dtype but complex.
        target : Tensor
            1 and -1, of the input's shape or one that broadcasts with it.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that input and target broadcast to.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        NotImplementedError
            If the input is complex.
        """
        return functional.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """Ranking loss of pairs: ``max(0, -target * (input1 - input2) + margin)``.

    A target of 1 means that ``input1`` should rank higher, -1 that ``input2`` should.

    Parameters
    ----------
    margin : float
        Difference that is asked for.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Loss of two scores and of which should be the greater one.

        Parameters
        ----------
        input1, input2 : Tensor
            Scores, of shapes that broadcast together and with as many dimensions as ``target``.
        target : Tensor
            1 where ``input1`` should be greater, -1 where ``input2``.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the shape that all broadcast to.

        Raises
        ------
        RuntimeError
            If the numbers of dimensions differ, or the shapes cannot be broadcast together.
        """
        return functional.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Multi-class hinge loss: ``sum(max(0, margin - input[target] + input[i]) ** p for i != target) / C``.

    Parameters
    ----------
    p : int
        1 or 2.
    margin : float
        Difference between the target class and the others that is asked for.
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.

    Raises
    ------
    ValueError
        If ``p`` is neither 1 nor 2.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of scores and class indices.

        Parameters
        ----------
        input : Tensor
            Scores (N, C) or (C,).
        target : Tensor
            Indices of classes in [0, C), an integer for each sample: (N,) or ().

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the target's shape.

        Raises
        ------
        RuntimeError
            If there is not one index for each sample, or, on the CPU, an index is out of range.
        """
        return functional.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """Multi-label hinge loss: ``max(0, 1 - (input[j] - input[i])) / C``, summed over labels j and other classes i.

    Parameters
    ----------
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of scores and labels.

        Parameters
        ----------
        input : Tensor
            Scores of shape (N, C) or (C,).
        target : Tensor
            int64 labels of the input's shape; those of a sample end before the first -1.
        """
        return functional.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Multi-label binary cross entropy: :class:`BCEWithLogitsLoss` of each class, averaged over the classes of a sample.

    Parameters
    ----------
    weight : Tensor, optional
        Weight of each class, of shape (C,).
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of logits and of which labels hold.

        Parameters
        ----------
        input : Tensor
            Logits (N, C) or (C,), of a floating dtype.
        target : Tensor
            0 and 1, of the input's shape.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of shape (N,).

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        NotImplementedError
            If both are integers, or one is complex.
        """
        return functional.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class CosineEmbeddingLoss(_Loss):
    """Cosine loss of pairs: ``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Parameters
    ----------
    margin : float
        Cosine, from -1 to 1, below which dissimilar pairs cost nothing; 0 to 0.5 is usual.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Loss of pairs of vectors.

        Parameters
        ----------
        input1, input2 : Tensor
            Shape (N, D) or (D,).
        target : Tensor
            1 or -1, of shape (N,) or ().

        Raises
        ------
        RuntimeError
            If the numbers of dimensions are not those above.
        """
        return functional.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """Triplet loss: ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, where d is a p-norm.

    Balntas et al., "Learning shallow convolutional feature descriptors with triplet losses", 2016.

    Parameters
    ----------
    margin : float
        Difference of the distances that is asked for.
    p : float
        Of the norm; see :class:`PairwiseDistance`.
    eps : float
        Added to the differences, so that the gradient is finite.
    swap : bool
        Whether the distance between positive and negative is used where it is less than that of anchor and negative.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    size_average, reduce : bool, optional
        Deprecated: together they choose ``reduction``.

    Raises
    ------
    ValueError
        If ``margin`` is not positive.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Loss of triplets of examples.

        Parameters
        ----------
        anchor, positive, negative : Tensor
            Examples (N, D) or (D,), all with as many dimensions.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of shape (N,) or ().

        Raises
        ------
        RuntimeError
            If the numbers of dimensions differ, or the shapes cannot be broadcast together.
        """
        return functional.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """:class:`TripletMarginLoss` with a distance function of the caller's.

    Parameters
    ----------
    distance_function : callable, optional
        Maps two tensors to the distances; by default :class:`PairwiseDistance`.
    margin : float
        Difference of the distances that is asked for.
    swap : bool
        Whether the distance between positive and negative is used where it is less than that of anchor and negative.
    reduction : str
        ``"mean"`` (the default), ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If ``margin`` is not positive.

    Examples
    --------
    >>> loss = nn.TripletMarginWithDistanceLoss(
    ...     distance_function=lambda x, y: 1 - nn.functional.cosine_similarity(x, y)
    ... )
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function: Any = distance_function or PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Loss of triplets of examples.

        Parameters
        ----------
        anchor, positive, negative : Tensor
            Examples of any shape that ``distance_function`` takes; (N, D) by default.

        Returns
        -------
        Tensor
            A scalar; with ``reduction="none"`` of the distances' shape.

        Raises
        ------
        RuntimeError
            If the distance function does not take the shapes.
        """
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class PairwiseDistance(Module):
    """p-norm of ``x1 - x2 + eps`` along the last dimension.

    Parameters
    ----------
    p : float
        Of the norm; negative and infinite too.
    eps : float
        Added to the differences, so that the gradient is finite at 0.
    keepdim : bool
        Whether the last dimension remains, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Distances of vectors, one by one.

        Parameters
        ----------
        x1, x2 : Tensor
            Vectors (N, D) or (D,), which broadcast together.

        Returns
        -------
        Tensor
            (N,), or () for two single vectors; with ``keepdim`` (N, 1) or (1,).

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        """
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosine of the angle between vectors: ``x1 @ x2 / (max(norm(x1), eps) * max(norm(x2), eps))``.

    Parameters
    ----------
    dim : int
        Dimension of the vectors.
    eps : float
        Lower bound of the norms.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Cosines of ``x1`` and ``x2``, which have broadcastable shapes: their shape without ``dim``.

        Raises
        ------
        RuntimeError
            If the shapes cannot be broadcast together.
        """
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)
