"""Programs without mistakes: nothing is reported, under any schedule."""

from __future__ import annotations

import pytest

from tests.tools.running import ROOT, Bench

pytestmark = pytest.mark.simulator_only

SCHEDULES = [
    ("--schedule", "eager"),
    ("--schedule", "lazy"),
    ("--simulate", "seed=1", "--schedule", "random"),
    ("--simulate", "seed=2", "--schedule", "random"),
]

TRAINING = """
    import tensor
    import nn
    import nn.functional as F
    from nn import optim
    from tensor.utils.data import DataLoader, TensorDataset


    def main():
        tensor.manual_seed(0)
        device = tensor.device("cuda")
        data = TensorDataset(tensor.randn(48, 8), tensor.randint(0, 3, (48,)))
        loader = DataLoader(data, 16, shuffle=True, pin_memory=True)
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)).to(device)
        optimizer = optim.Adam(model.parameters(), lr=1e-2)
        losses = []
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(tensor.stack(losses).isfinite().all().item())


    main()
"""
STREAMS = """
    import numpy as np
    import tensor

    scale = tensor.cuda.RawKernel(
        "__global__ void scale(float* x, float by, int n)"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= by; }",
        "scale",
    )
    main, side = tensor.cuda.current_stream(), tensor.cuda.Stream()
    total = tensor.zeros(1, device="cuda")
    for step in range(4):
        x = tensor.full((1000,), float(step), device="cuda")
        side.wait_stream(main)
        with tensor.cuda.stream(side):
            scale(4, 256, (x, np.float32(2), np.int32(1000)))
            part = tensor.fft.rfft(x).abs().sum() + (x.view(10, 100) @ x.view(100, 10)).sum()
        x.record_stream(side)
        main.wait_stream(side)
        part.record_stream(main)
        total += part
    host = tensor.empty(1, pin_memory=True)
    host.copy_(total, non_blocking=True)
    main.synchronize()
    print(host.item() > 0)
"""
TWO_DEVICES = """
    import tensor

    x = tensor.randn(100, device="cuda:0", requires_grad=True)
    y = (x.to("cuda:1") * 2).sum().to("cuda:0")
    y.backward()
    print(x.grad.sum().item())
"""


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda options: "-".join(options).replace("--", ""))
@pytest.mark.parametrize(
    ("text", "said"), [(TRAINING, "True\n"), (STREAMS, "True\n"), (TWO_DEVICES, "200.0\n")]
)
def test_nothing_is_found(bench: Bench, text: str, said: str, options: tuple[str, ...]) -> None:
    simulate = "devices=2" if text is TWO_DEVICES else ""
    if options[0] == "--simulate":
        simulate, options = ",".join(filter(None, (simulate, options[1]))), options[2:]
    run = bench.check(text, *options, simulate=simulate)
    assert (run.status, run.out, run.findings) == (0, said, []), run.err
    assert run.err.endswith(" ended with status 0; 0 errors\n")


def test_nothing_is_found_with_the_guarding_allocators_either(bench: Bench) -> None:
    options = ("--red-zone", "256", "--quarantine", "4k")
    run = bench.check(TRAINING.replace("48", "16"), *options, simulate="check=off")
    assert (run.status, run.out, run.findings) == (0, "True\n", []), run.err


def test_example_that_installs_the_simulated_driver_itself(bench: Bench) -> None:
    text = (ROOT / "examples" / "train_digits.py").read_text(encoding="utf-8")
    for whole, short in (
        ("test_size=0.2,", "test_size=16, train_size=32,"),
        ("nn.Conv2d(1, 32,", "nn.Conv2d(1, 4,"),
        ("nn.Conv2d(32, 64,", "nn.Conv2d(4, 8,"),
        ("nn.Linear(64 * 4 * 4, 128)", "nn.Linear(8 * 4 * 4, 16)"),
        ("nn.Linear(128, 10)", "nn.Linear(16, 10)"),
        ("    draw(args.plot, losses, accuracies)\n", ""),
    ):
        assert text.count(whole) == 1
        text = text.replace(whole, short)
    run = bench.check(text, arguments=("--simulate", "--steps", "1", "--batch-size", "8"), simulate=None)
    assert (run.status, run.findings) == (0, []), run.err
    assert "test accuracy" in run.out
