"""Train a small GPT to write one character after another.

It learns from a text file, or unless one is given from the documents of this project: README, docs and docstrings. A
sample of what it writes ends the run. On the CPU that takes some minutes, after which words begin to look like words; more
steps make more of them.

    python examples/train_gpt.py                              # on the GPU if there is one, else the CPU
    python examples/train_gpt.py --text shakespeare.txt --steps 2000 --prompt "ROMEO:"
    python examples/train_gpt.py --checkpoint gpt.safetensors           # saved now and then;
    python examples/train_gpt.py --checkpoint gpt.safetensors --resume  # stop it and go on
    python examples/train_gpt.py --graph                      # a step is a CUDA graph: one call of the driver
    python examples/train_gpt.py --compile                    # chains of operations are one kernel
    python examples/train_gpt.py --compile reduce-overhead    # and both passes are replayed as CUDA graphs
    python examples/train_gpt.py --simulate                   # some steps on a simulated GPU, with races looked for

Needs tqdm: pip install 'graphroot[examples]'.
"""

from __future__ import annotations

import argparse
import ast
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

import drv
import nn
import nn.functional as F
import tensor
from nn import optim

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]


class Block(nn.Module):
    """Causal self-attention and a network of two layers, each added to its input: (N, L, width) to the same."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Every position looks at itself and at those before it."""
        count, length, width = x.shape
        heads = self.attend(self.norm1(x)).view(count, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.project(attended.transpose(1, 2).reshape(count, length, width)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Numbers of characters, (N, L), to the scores of the characters that follow each of them, (N, L, characters)."""

    def __init__(
        self, characters: int, context: int, layers: int, heads: int, width: int, dropout: float
    ) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        # What stands for a character on the way in does so on the way out.
        self.head.weight = self.characters.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Scores of the next characters."""
        positions = tensor.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.characters(x) + self.positions(positions))))


def own_documents() -> str:
    """README, docs and docstrings of this project."""
    documents = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
    texts = [path.read_text(encoding="utf-8") for path in documents]
    for package in ("drv", "nvrtc_kernels", "tensor", "nn"):
        for path in sorted(ROOT.glob(f"{package}/**/*.py")):
            texts += docstrings(ast.parse(path.read_text(encoding="utf-8")))
    return "\n\n".join(texts)


def docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> list[str]:
    """Docstrings of a module, class or function, and of what it defines."""
    own = ast.get_docstring(node)
    inner = [docstrings(each) for each in node.body if isinstance(each, (ast.ClassDef, ast.FunctionDef))]
    return sum(inner, [own] if own else [])


def batch(data: tensor.Tensor, args: argparse.Namespace) -> tuple[tensor.Tensor, tensor.Tensor]:
    """Pieces of the text from anywhere, and the same one character further on."""
    starts = tensor.randint(0, len(data) - args.context, (args.batch_size, 1)).to(data.device)
    positions = starts + tensor.arange(args.context, device=data.device)
    return data[positions], data[positions + 1]


def loss_of(model: GPT, x: tensor.Tensor, y: tensor.Tensor, args: argparse.Namespace) -> tensor.Tensor:
    """Cross entropy of the characters that follow."""
    with tensor.autocast(x.device.type, enabled=args.amp):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


class GraphedStep:
    """A step of training that is captured into a CUDA graph at its fourth call, and replayed from then on.

    ``step()`` returns a tensor, and works on tensors whose contents may differ from call to call. The first calls are
    steps like any other, on a side stream: what is made once, such as the states of the optimizer, is there afterwards.
    """

    def __init__(self, step: Callable[[], tensor.Tensor], warm_up: int = 3) -> None:
        self.step = step
        self.left = warm_up
        self.side = tensor.cuda.Stream()
        self.graph = tensor.cuda.CUDAGraph()
        self.result: tensor.Tensor | None = None

    def __call__(self) -> tensor.Tensor:
        """Do the step."""
        current = tensor.cuda.current_stream()
        if self.left:
            self.left -= 1
            self.side.wait_stream(current)
            with tensor.cuda.stream(self.side):
                result = self.step()
            current.wait_stream(self.side)
            result.record_stream(current)
            return result
        if self.result is None:
            with tensor.cuda.graph(self.graph, stream=self.side):
                self.result = self.step()
        self.graph.replay()
        # The next replay writes to the same memory.
        return self.result.clone()


@tensor.no_grad()
def validate(model: GPT, data: tensor.Tensor, args: argparse.Namespace) -> float:
    """Mean loss on text that was not learned, the same pieces each time."""
    model.eval()
    positions = (
        tensor.linspace(0, len(data) - args.context - 1, args.batch_size).long()[:, None].to(data.device)
    )
    positions = positions + tensor.arange(args.context, device=data.device)
    loss = loss_of(model, data[positions], data[positions + 1], args).item()
    model.train()
    return loss


@tensor.no_grad()
def write(model: GPT, prompt: list[int], args: argparse.Namespace, device: tensor.device) -> list[int]:
    """Characters that go on from ``prompt``, each drawn by its probability."""
    model.eval()
    written = list(prompt)
    for _ in range(args.length):
        x = tensor.tensor([written[-args.context :]], device=device)
        scores = model(x)[0, -1].float() / args.temperature
        written.append(tensor.multinomial(scores.softmax(0).cpu(), 1).item())
    return written


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, help="file to learn from (default: this project's documents)")
    parser.add_argument("--device", help="cpu, cuda or cuda:1 (default: the GPU when there is one)")
    parser.add_argument("--simulate", action="store_true", help="simulate a GPU, and look for races")
    parser.add_argument("--steps", type=int, help="default: 800; simulated, 3")
    parser.add_argument("--batch-size", type=int, help="default: 16; simulated, 2")
    parser.add_argument(
        "--context", type=int, help="characters that it looks back at (default: 64; simulated, 16)"
    )
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--graph", action="store_true", help="capture a step into a CUDA graph and replay it")
    parser.add_argument(
        "--compile",
        nargs="?",
        const="default",
        choices=("default", "reduce-overhead"),
        help="compile the model and its loss; in the second mode they are replayed as CUDA graphs",
    )
    parser.add_argument("--amp", action="store_true", help="compute in half precision where that is safe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="file to save to")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--stop-after", type=int, metavar="STEP", help="stop after it, as if interrupted")
    parser.add_argument("--prompt", help="what the sample begins with (default: as the text does)")
    parser.add_argument("--length", type=int, help="characters to write (default: 300; simulated, 3)")
    parser.add_argument(
        "--temperature", type=float, default=0.7, help="below 1, likely characters come more often"
    )
    args = parser.parse_args()
    if args.resume and args.checkpoint is None:
        parser.error("--resume needs --checkpoint FILE")
    if args.simulate:
        drv.simulator.install(check="race")
    usual = {"steps": (800, 3), "batch_size": (16, 2), "context": (64, 16), "length": (300, 3)}
    for name, values in usual.items():
        if getattr(args, name) is None:
            setattr(args, name, values[args.simulate])
    args.device = args.device or ("cuda" if tensor.cuda.is_available() else "cpu")
    if args.graph and tensor.device(args.device).type != "cuda":
        parser.error("--graph needs a GPU, or --simulate")
    return args


def main() -> None:
    """Train, say how well it goes, and write a sample."""
    args = arguments()
    device = tensor.device(args.device)
    tensor.manual_seed(args.seed)
    text = own_documents() if args.text is None else args.text.read_text(encoding="utf-8")
    alphabet = sorted(set(text))
    number = {character: index for index, character in enumerate(alphabet)}
    prompt = args.prompt or text[:1]
    unknown = sorted(set(prompt) - set(alphabet))
    if unknown:
        raise SystemExit(f"--prompt: needs characters of the text, which has no {''.join(unknown)!r}")
    data = tensor.tensor([number[character] for character in text])
    train_data, test_data = data.to(device).split([len(data) - len(data) // 10, len(data) // 10])
    if len(test_data) <= args.context:
        raise SystemExit(f"the text is too short: {len(text)} characters, for a context of {args.context}")

    model = GPT(len(alphabet), args.context, args.layers, args.heads, args.width, args.dropout).to(device)
    rate, *betas = args.lr, 0.9, 0.999
    if args.graph:
        # A graph reads from the device what the scheduler changes from step to step.
        rate, *betas = tensor.tensor([rate, *betas], dtype=tensor.float64, device=device)
    optimizer = optim.AdamW(model.parameters(), rate, tuple(betas), weight_decay=0.1, capturable=args.graph)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, args.lr, args.steps, pct_start=0.1)
    scaler = tensor.amp.GradScaler(device.type, enabled=args.amp and device.type == "cuda")
    states = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    losses = []
    if args.resume:
        state = tensor.load(args.checkpoint, map_location=device)
        if state["alphabet"] != "".join(alphabet):
            raise SystemExit(f"{args.checkpoint} was learned from another text")
        for name, part in states.items():
            part.load_state_dict(state[name])
        tensor.set_rng_state(state["cpu"].cpu())
        if device.type == "cuda":
            tensor.cuda.set_rng_state(state["cuda"].cpu(), device)
        losses = state["losses"]
    weights = sum(each.numel() for each in model.parameters())
    print(f"{len(text)} characters, {len(alphabet)} different ones; {weights} weights on {device}")

    x, y = (tensor.zeros(args.batch_size, args.context, dtype=tensor.int64, device=device) for _ in range(2))

    loss_to_learn_by = tensor.compile(loss_of, mode=args.compile) if args.compile else loss_of

    def learn() -> tensor.Tensor:
        loss = loss_to_learn_by(model, x, y, args)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    take_step = GraphedStep(learn) if args.graph else learn
    start, begun = time.perf_counter(), len(losses)
    last = args.stop_after or args.steps
    for step in tqdm(range(begun + 1, last + 1), "training", unit="step", leave=False, disable=None):
        for static, drawn in zip((x, y), batch(train_data, args), strict=True):
            static.copy_(drawn)
        losses.append(take_step())
        scheduler.step()
        if step % args.save_every == 0 or step == last:
            # Nothing waited for the device since the last time.
            losses = [float(each) for each in losses]
            recent = losses[-args.save_every :]
            speed = (step - begun) * args.batch_size * args.context / (time.perf_counter() - start)
            tqdm.write(
                f"step {step:4}: loss {sum(recent) / len(recent):.3f}, on other text "
                f"{validate(model, test_data, args):.3f}, {speed:.0f} characters/s"
            )
            if args.checkpoint is not None:
                state = {name: part.state_dict() for name, part in states.items()}
                state |= {"losses": losses, "alphabet": "".join(alphabet), "cpu": tensor.get_rng_state()}
                if device.type == "cuda":
                    state["cuda"] = tensor.cuda.get_rng_state(device)
                tensor.save(state, args.checkpoint)
    written = write(model, [number[character] for character in prompt], args, device)
    print("".join(alphabet[index] for index in written))


if __name__ == "__main__":
    main()
