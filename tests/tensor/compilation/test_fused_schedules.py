"""Fused kernels race with nothing, in whatever order streams and threads run, and read nothing that is not there yet."""

from __future__ import annotations

from typing import Any

import nn
import tensor
from nn import functional


def test_a_training_step_of_channels_and_a_loss_of_elements(schedule: None) -> None:
    """Moments with running averages, chains of channels, a loss with what is before and after it."""
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).cuda()
    reference = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).cuda()
    reference.load_state_dict(model.state_dict())

    def loss_of(model: nn.Module, x: tensor.Tensor, target: tensor.Tensor) -> tensor.Tensor:
        return functional.mse_loss(model(x) * 0.5, target + 1).sqrt() * 3

    compiled = tensor.compile(loss_of, fullgraph=True)
    losses = []
    for each, function in ((model, compiled), (reference, loss_of)):
        tensor.manual_seed(3)
        optimizer = nn.optim.SGD(each.parameters(), lr=0.1)
        for _ in range(3):
            x, target = (tensor.randn(40, size, device="cuda") for size in (6, 3))
            optimizer.zero_grad()
            loss = function(each, x, target)
            loss.backward()
            optimizer.step()
        losses.append(loss)
    tensor.testing.assert_close(*losses)
    for one, other in zip(model.state_dict().values(), reference.state_dict().values(), strict=True):
        tensor.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_embeddings_and_normalizations(schedule: None) -> None:
    """Rows that indices name, in chains and in front of norms, and norms that sum their weight's gradient on the way."""
    tables = [tensor.randn(rows, 16, device="cuda", requires_grad=True) for rows in (9, 5)]
    norm = nn.LayerNorm(16, device="cuda")

    def function(tokens: tensor.Tensor) -> tensor.Tensor:
        x = functional.embedding(tokens, tables[0]) + tables[1]
        return functional.gelu(norm(functional.dropout(x, 0.1))) * functional.embedding(tokens, tables[0])

    compiled = tensor.compile(function, fullgraph=True)
    for seed in range(3):
        outcomes = []
        for each in (compiled, function):
            tensor.manual_seed(seed)
            tokens = tensor.randint(0, 9, (20, 5), device="cuda")
            result = each(tokens)
            parameters = [*tables, *norm.parameters()]
            outcomes.append([result, *tensor.autograd.grad(result.square().sum(), parameters)])
        for one, other in zip(*outcomes, strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_step_with_capped_logits(schedule: None) -> None:
    """Cross entropy that writes its logits for the backward pass, and goes on with their gradient, in one program with that."""
    linear, reference = (nn.Linear(8, 21, device="cuda") for _ in range(2))
    reference.load_state_dict(linear.state_dict())

    def step(model: nn.Linear, x: tensor.Tensor, target: tensor.Tensor) -> tensor.Tensor:
        logits = (model(x) * 0.5).tanh() * 2
        loss = functional.cross_entropy(logits, target, label_smoothing=0.1) * 3
        loss.backward()
        return loss

    compiled = tensor.compile(step, fullgraph=True)
    for _ in range(3):
        x, target = tensor.randn(30, 8, device="cuda"), tensor.randint(0, 21, (30,), device="cuda")
        losses = [function(model, x, target) for model, function in ((linear, compiled), (reference, step))]
        tensor.testing.assert_close(*losses)
        tensor.testing.assert_close(linear.weight.grad, reference.weight.grad, rtol=1e-5, atol=1e-6)
        for each in (linear, reference):
            each.zero_grad()


def test_elements_that_two_indices_name(schedule: None) -> None:
    """Forward they are part of a chain, and their gradients are added up where the same one is named twice."""

    def function(x: tensor.Tensor, rows: tensor.Tensor, columns: tensor.Tensor) -> tensor.Tensor:
        return (x[rows, columns] * 2 - x[rows, columns].sin()).square().mean()

    x = tensor.randn(6, 8, device="cuda", requires_grad=True)
    rows, columns = (tensor.randint(0, size, (40,), device="cuda") for size in (6, 8))
    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        results = [tensor.autograd.grad(each(x, rows, columns), x)[0] for each in (compiled, function)]
        tensor.testing.assert_close(*results)


def test_a_step_with_logits_of_images(schedule: None) -> None:
    """Cross entropy along channels, whose logits, read elsewhere too, its kernel computes and writes."""
    x = tensor.randn(3, 6, 5, 4, device="cuda", requires_grad=True)

    def function(bias: tensor.Tensor, target: tensor.Tensor) -> tuple[tensor.Tensor, tensor.Tensor]:
        logits = (x + bias).tanh() * 2
        return functional.cross_entropy(logits, target, label_smoothing=0.1) * 3, logits.argmax(1)

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(3):
        bias, target = tensor.randn(6, 1, 1, device="cuda"), tensor.randint(0, 6, (3, 5, 4), device="cuda")
        outcomes = []
        for each in (compiled, function):
            loss, best = each(bias, target)
            outcomes.append((loss, best, *tensor.autograd.grad(loss, x)))
        for one, other in zip(*outcomes, strict=True):
            tensor.testing.assert_close(one, other)


def test_rows_that_several_indices_name_and_what_they_read_after_reductions(schedule: None) -> None:
    table, bias = (tensor.randn(*shape, device="cuda", requires_grad=True) for shape in ((7, 5, 16), (16,)))

    def function(x: tensor.Tensor, rows: tensor.Tensor, columns: tensor.Tensor) -> tensor.Tensor:
        hidden = functional.layer_norm(table[rows, columns] * x, (16,))
        return functional.softmax(hidden + x, -1).amax(1) * bias[columns] + bias[hidden.argmax(1)]

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        x = tensor.randn(30, 16, device="cuda")
        rows, columns = (tensor.randint(0, size, (30,), device="cuda") for size in (7, 5))
        outcomes = []
        for each in (compiled, function):
            result = each(x, rows, columns)
            outcomes.append((result, *tensor.autograd.grad(result.sum(), (table, bias))))
        for one, other in zip(*outcomes, strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_step_of_embeddings_of_a_graph(schedule: None) -> None:
    """Entities at both ends of a relation, and false ones in their place, of one table."""
    entities, relations = (tensor.randn(rows, 16, device="cuda", requires_grad=True) for rows in (11, 3))

    def function(
        heads: tensor.Tensor, between: tensor.Tensor, tails: tensor.Tensor, false: tensor.Tensor
    ) -> Any:
        true, other = (
            (entities[heads] + relations[between] - entities[each]).square().sum(-1)
            for each in (tails, false)
        )
        return functional.relu(1 + true - other).mean()

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        indices = [tensor.randint(0, size, (30,), device="cuda") for size in (11, 3, 11, 11)]
        outcomes = []
        for each in (compiled, function):
            loss = each(*indices)
            outcomes.append((loss, *tensor.autograd.grad(loss, (entities, relations))))
        for one, other in zip(*outcomes, strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
