"""Remove periodic noise from a photograph with a mask for its spectrum, learned from the noisy picture alone.

Interference of a few frequencies covers a photograph with stripes. In the spectrum it is a few bright points. A mask
is multiplied with the spectrum and learned by gradient descent through the inverse transform: the picture that comes
out should be smooth (small differences between neighbours), while taking away a coefficient costs as much as
coefficients around it usually contribute. Points that stand out pay for themselves, the picture does not. The clean
photograph is used at the end only, to say how well that went.

    python examples/denoise.py                    # on the CPU
    python examples/denoise.py --device cuda      # on a GPU
    python examples/denoise.py --simulate         # on a simulated GPU, a part of the picture, with races checked

Needs scikit-learn (the photographs), matplotlib and tqdm: pip install 'graphroot[examples]'.
"""

from __future__ import annotations

import argparse
from math import pi
from pathlib import Path

from tqdm import tqdm

import drv
import tensor
from nn import optim
from nn.functional import avg_pool2d

#: Side of the square whose spectrum says how large a coefficient usually is.
NEIGHBOURHOOD = 15


def photograph(name: str, size: int | None) -> tensor.Tensor:
    """A sample image as ``(3, height, width)`` between 0 and 1, or the square of ``size`` in its middle."""
    from sklearn.datasets import load_sample_image

    picture = tensor.from_numpy(load_sample_image(name).copy()).permute(2, 0, 1) / 255
    if size is not None:
        if not NEIGHBOURHOOD <= size <= min(picture.shape[1:]):
            raise SystemExit(f"--size {size}: expected {NEIGHBOURHOOD} to {min(picture.shape[1:])}")
        top, left = ((side - size) // 2 for side in picture.shape[1:])
        picture = picture[:, top : top + size, left : left + size]
    return picture.contiguous()


def stripes(height: int, width: int, count: int) -> tensor.Tensor:
    """The sum of ``count`` waves of random directions, frequencies, strengths and phases."""
    y, x = tensor.meshgrid(tensor.arange(float(height)), tensor.arange(float(width)), indexing="ij")
    total = tensor.zeros(height, width)
    for _ in range(count):
        angle, period, phase, strength = tensor.rand(4).tolist()
        angle, period = pi * angle, 3 + 9 * period
        wave = x * tensor.cos(tensor.tensor(angle)) + y * tensor.sin(tensor.tensor(angle))
        total += (0.05 + 0.07 * strength) * tensor.sin(2 * pi * (wave / period + phase))
    return total


def usual_size(spectrum: tensor.Tensor) -> tensor.Tensor:
    """How large coefficients are around each, in the geometric mean: points that stand out hardly count."""
    logarithm = spectrum.abs().clamp(min=1e-6).log()
    return avg_pool2d(
        logarithm, NEIGHBOURHOOD, stride=1, padding=NEIGHBOURHOOD // 2, count_include_pad=False
    ).exp()


def roughness(picture: tensor.Tensor) -> tensor.Tensor:
    """Mean difference between neighbours."""
    return picture.diff(dim=-1).abs().mean() + picture.diff(dim=-2).abs().mean()


def learn_mask(noisy: tensor.Tensor, steps: int, rate: float, price: float) -> tensor.Tensor:
    """What to multiply the spectrum of ``noisy`` with: a number between 0 and 1 for each frequency."""
    height, width = noisy.shape[-2:]
    spectrum = tensor.fft.rfft2(noisy)
    frequencies = tensor.hypot(
        tensor.fft.fftfreq(height, device=noisy.device)[:, None],
        tensor.fft.rfftfreq(width, device=noisy.device),
    )
    # A wave of this size and frequency has differences between neighbours in proportion to both.
    cost = price * (usual_size(spectrum).mean(0) * frequencies) / (height * width)
    logits = tensor.full(spectrum.shape[-2:], 3.0, device=noisy.device, requires_grad=True)
    optimizer = optim.Adam([logits], lr=rate)
    for step in tqdm(range(steps), "mask", unit="step", leave=False, disable=None):
        optimizer.zero_grad()
        mask = logits.sigmoid()
        loss = roughness(tensor.fft.irfft2(spectrum * mask, s=(height, width))) + (cost * (1 - mask)).sum()
        loss.backward()
        optimizer.step()
        if step % max(steps // 5, 1) == 0 or step == steps - 1:
            tqdm.write(f"step {step:3}: loss {loss.item():.5f}")
    return logits.detach().sigmoid()


def psnr(picture: tensor.Tensor, clean: tensor.Tensor) -> float:
    """Peak signal-to-noise ratio in decibels."""
    return float(-10 * ((picture - clean) ** 2).mean().log10())


def draw(
    path: Path, noisy: tensor.Tensor, after: tensor.Tensor, mask: tensor.Tensor, titles: list[str]
) -> None:
    """Write the pictures before and after and, between them, the spectrum with what the mask takes away in red."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    height, width = noisy.shape[-2:]
    light = tensor.fft.fftshift(tensor.fft.fft2(noisy.mean(0)).abs().log())
    light = ((light - light.min()) / (light.max() - light.min())).cpu()
    # The half that is not stored mirrors the other one.
    there = tensor.fft.irfft2(mask + 0j, s=(height, width))
    removed = 1 - tensor.fft.fftshift(tensor.fft.fft2(there).real).clamp(0, 1).cpu()
    spectrum = tensor.stack([tensor.maximum(light, removed), light * (1 - removed), light * (1 - removed)])
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 15 / 3 * height / width + 0.6), layout="constrained")
    for axis, picture, title in zip(axes, (noisy, spectrum, after), titles, strict=True):
        axis.imshow(picture.clamp(0, 1).permute(1, 2, 0).cpu().numpy())
        axis.set_title(title)
        axis.set_axis_off()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Make a noisy picture, clean it, and say how much nearer it is to the photograph."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--simulate", action="store_true", help="simulate a GPU, and look for races")
    parser.add_argument("--picture", choices=["china.jpg", "flower.jpg"], default="china.jpg")
    parser.add_argument(
        "--size", type=int, help="side of the square to take from the middle (default: all of it)"
    )
    parser.add_argument("--waves", type=int, default=5, help="frequencies of the noise")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.3, help="learning rate")
    parser.add_argument("--price", type=float, default=1.5, help="how much taking away costs")
    parser.add_argument("--output", type=Path, default=Path("denoised.png"))
    options = parser.parse_args()
    if options.simulate:
        drv.simulator.install(check="race")
        options.device, options.size = "cuda", options.size or 96
    tensor.manual_seed(0)
    clean = photograph(options.picture, options.size)
    noisy = clean + stripes(*clean.shape[-2:], options.waves)
    clean, noisy = clean.to(options.device), noisy.to(options.device)
    mask = learn_mask(noisy, options.steps, options.rate, options.price)
    after = tensor.fft.irfft2(tensor.fft.rfft2(noisy) * mask, s=noisy.shape[-2:])
    before, reached = psnr(noisy, clean), psnr(after, clean)
    taken = int((mask < 0.5).sum())
    print(f"{taken} of {mask.numel()} frequencies taken away on {noisy.device}")
    print(f"PSNR before: {before:.2f} dB, after: {reached:.2f} dB")
    titles = [f"before: {before:.1f} dB", "spectrum, in red what is taken away", f"after: {reached:.1f} dB"]
    draw(options.output, noisy, after, mask, titles)
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
