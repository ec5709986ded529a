"""Two devices, side streams, pinned memory and a look into the allocator, as one writes it for PyTorch.

Only the import line differs. Run it with a GPU (or two), or without any:

    GRAPHROOT_DRIVER=simulator GRAPHROOT_SIMULATOR=devices=2 python examples/two_devices.py
"""

import tensor as torch


def main() -> None:
    """Send batches to every device on side streams, work on them there, and bring the results back."""
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    print(f"{len(devices)} device(s): {', '.join(torch.cuda.get_device_name(each) for each in devices)}")
    torch.manual_seed(0)
    batches = [torch.randn(64, 32).pin_memory() for _ in range(4)]
    weights = [torch.linspace(-1, 1, 32, device=each) for each in devices]
    results = [torch.empty(64, 32, pin_memory=True) for _ in batches]
    copies = {each: torch.cuda.Stream(each) for each in devices}

    for number, batch in enumerate(batches):
        device = devices[number % len(devices)]
        side, main_stream = copies[device], torch.cuda.current_stream(device)
        with torch.cuda.stream(side):
            there = batch.to(device, non_blocking=True)
        main_stream.wait_stream(side)
        # The memory belongs to the side stream; it must not be used again before the main stream is done.
        there.record_stream(main_stream)
        scaled = there * weights[number % len(devices)]
        side.wait_stream(main_stream)
        scaled.record_stream(side)
        with torch.cuda.stream(side):
            results[number].copy_(scaled, non_blocking=True)

    for device in devices:
        torch.cuda.synchronize(device)
    for batch, result in zip(batches, results, strict=True):
        assert torch.equal(result, batch * torch.linspace(-1, 1, 32))
    print(
        f"result of the last batch: mean {results[-1].mean():.4f}, {results[-1].dtype}, pinned {results[-1].is_pinned()}"
    )

    for device in devices:
        segments = [each for each in torch.cuda.memory_snapshot() if each["device"] == device.index]
        blocks = sum(len(each["blocks"]) for each in segments)
        print(
            f"{device}: {torch.cuda.memory_allocated(device)} bytes in use, {torch.cuda.memory_reserved(device)} reserved, "
            f"{len(segments)} segment(s), {blocks} block(s)"
        )


if __name__ == "__main__":
    main()
