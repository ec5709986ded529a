"""Adaptive softmax: an approximate softmax over very many classes with a skewed distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nn import functional
from nn.module import Module
from tensor import cat

from .containers import ModuleList, Sequential
from .linear import Linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor, dtype


class ASMoutput(NamedTuple):
    """Result of :class:`AdaptiveLogSoftmaxWithLoss`.

    Attributes
    ----------
    output : Tensor
        Log-probability of the target of each sample, of shape (N,) or ().
    loss : Tensor
        Mean of ``-output``, a scalar.
    """

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive log-softmax with its negative log-likelihood loss.

    Grave et al., "Efficient softmax approximation for GPUs", 2017.

    The classes are sorted by frequency. The most frequent ones are outputs of the head; the others are in clusters,
    each of which is one output of the head and has a low-rank projection of its own, so that rare classes cost
    little.

    Parameters
    ----------
    in_features : int
        Features of the input.
    n_classes : int
        Number of classes; class 0 is the most frequent one.
    cutoffs : sequence of int
        First class of each cluster, in increasing order.
    div_value : float
        Cluster i projects the input to ``in_features / div_value ** i`` features, with i = 1 for the most frequent
        one.
    head_bias : bool
        Whether the head has a bias.
    device, dtype
        Of the parameters.

    Raises
    ------
    ValueError
        If the cutoffs are not unique, increasing, positive integers below ``n_classes``.

    Examples
    --------
    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(64, 10_000, cutoffs=[100, 1000])
    >>> output, loss = layer(tensor.randn(8, 64), tensor.randint(0, 10_000, (8,)))
    """

    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        if not bounds:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            bounds != sorted(set(bounds))
            or bounds[0] <= 0
            or bounds[-1] > n_classes - 1
            or any(int(cutoff) != cutoff for cutoff in bounds)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                f"value is between 1 and n_classes-1, got {bounds} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for number in range(self.n_clusters):
            hidden = int(in_features // div_value ** (number + 1))
            size = self.cutoffs[number + 1] - self.cutoffs[number]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        self.head.reset_parameters()
        clusters: Any = self.tail
        for first, second in clusters:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        """Log-probability of each target, and the loss.

        Parameters
        ----------
        input_ : Tensor
            Shape (N, in_features) or (in_features,).
        target_ : Tensor
            Class indices, of shape (N,) or ().

        Returns
        -------
        ASMoutput
            Named tuple of ``output`` and ``loss``.

        Raises
        ------
        RuntimeError
            If the input's last dimension is not ``in_features``, input and target differ in N, or a target is not in
            [0, n_classes).
        """
        batched = target_.dim() > 0
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.dim() != 1 + batched:
            expected = "2D" if batched else "1D"
            raise RuntimeError(
                f"{target_.dim()}D target tensor expects {expected} input tensors, got {input_.dim()}D"
            )
        if batched and input_.shape[0] != target_.shape[0]:
            raise RuntimeError(
                f"Input and target should have the same size in the batch dimension, got {input_.shape[0]} and "
                f"{target_.shape[0]}"
            )
        input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        output = input.new_zeros(target.shape[0])
        head_classes = target.clone()
        used = 0
        for number in range(len(self.cutoffs)):
            low = self.cutoffs[number - 1] if number else 0
            rows = ((target >= low) & (target < self.cutoffs[number])).nonzero().squeeze(1)
            used += rows.numel()
            if not rows.numel():
                continue
            if number:
                logits = self.tail[number - 1](input.index_select(0, rows))
                head_classes = head_classes.index_fill(0, rows, self.shortlist_size + number - 1)
                log_probs = functional.log_softmax(logits, dim=1)
                relative = (target.index_select(0, rows) - low).unsqueeze(1)
                output = output.index_copy(0, rows, log_probs.gather(1, relative).squeeze(1))
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = functional.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, head_classes.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return ASMoutput(output if batched else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes.

        Parameters
        ----------
        input : Tensor
            Shape (N, in_features).

        Returns
        -------
        Tensor
            Shape (N, n_classes).
        """
        head = functional.log_softmax(self.head(input), dim=1)
        log_probs = [head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail):
            cluster_log_prob = head[:, self.shortlist_size + number].unsqueeze(1)
            log_probs.append(functional.log_softmax(cluster(input), dim=1) + cluster_log_prob)
        return cat(log_probs, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The class of highest probability of each sample.

        Parameters
        ----------
        input : Tensor
            Shape (N, in_features).

        Returns
        -------
        Tensor
            int64 class indices, of shape (N,).
        """
        return self.log_prob(input).argmax(1)
