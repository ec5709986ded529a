"""A sequence model with a trainer of callbacks, decay by the classes of modules, and sampling, in the style of minGPT."""

import math
import os
from collections import defaultdict

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader
from torch.utils.data.sampler import SequentialSampler


class SortDataset(Dataset):
    """Sequences of digits, followed by the same sorted: the model learns to write the second half."""

    def __init__(self, length=6, num_digits=3, size=64):
        self.length, self.num_digits, self.size = length, num_digits, size

    def __len__(self):
        return self.size

    def get_vocab_size(self):
        return self.num_digits

    def get_block_size(self):
        return self.length * 2 - 1

    def __getitem__(self, idx):
        digits = [
            (idx * 7 + position * (idx % 5 + 1) + idx // 3) % self.num_digits
            for position in range(self.length)
        ]
        inp = torch.tensor(digits, dtype=torch.long)
        sol = torch.sort(inp)[0]
        cat = torch.cat((inp, sol), dim=0)
        x, y = cat[:-1].clone(), cat[1:].clone()
        y[: self.length - 1] = -1
        return x, y


class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.key = nn.Linear(config["n_embd"], config["n_embd"])
        self.query = nn.Linear(config["n_embd"], config["n_embd"])
        self.value = nn.Linear(config["n_embd"], config["n_embd"])
        self.attn_drop, self.resid_drop = nn.Dropout(0.0), nn.Dropout(0.0)
        self.proj = nn.Linear(config["n_embd"], config["n_embd"])
        size = config["block_size"]
        self.register_buffer("mask", torch.tril(torch.ones(size, size)).view(1, 1, size, size))
        self.n_head = config["n_head"]

    def forward(self, x):
        B, T, C = x.size()
        k, q, v = (
            layer(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for layer in (self.key, self.query, self.value)
        )
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.proj(y))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        n_embd = config["n_embd"]
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(n_embd, 4 * n_embd),
                c_proj=nn.Linear(4 * n_embd, n_embd),
                act=NewGELU(),
                dropout=nn.Dropout(0.0),
            )
        )
        m = self.mlp
        self.mlpf = lambda x: m.dropout(m.c_proj(m.act(m.c_fc(x))))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlpf(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.block_size = config["block_size"]
        self.tok_emb = nn.Embedding(config["vocab_size"], config["n_embd"])
        self.pos_emb = nn.Parameter(torch.zeros(1, config["block_size"], config["n_embd"]))
        self.drop = nn.Dropout(0.0)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config["n_layer"])])
        self.ln_f = nn.LayerNorm(config["n_embd"])
        self.head = nn.Linear(config["n_embd"], config["vocab_size"], bias=False)
        self.waves = 0
        self.apply(self._init_weights)

    def _init_weights(self, module):
        # Waves in the place of random numbers: these differ between libraries.
        self.waves += 1
        if isinstance(module, (nn.Linear, nn.Embedding)):
            wave = torch.sin(torch.arange(module.weight.numel(), dtype=torch.float64) * (self.waves + 0.7))
            module.weight.data.copy_(0.1 * wave.view_as(module.weight))
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.data.zero_()
        elif isinstance(module, nn.LayerNorm):
            module.bias.data.zero_()
            module.weight.data.fill_(1.0)

    def configure_optimizers(self, config):
        decay, no_decay = set(), set()
        for mn, m in self.named_modules():
            for pn, _ in m.named_parameters(recurse=False):
                fpn = f"{mn}.{pn}" if mn else pn
                if pn.endswith("weight") and isinstance(m, torch.nn.Linear):
                    decay.add(fpn)
                else:
                    no_decay.add(fpn)
        param_dict = dict(self.named_parameters())
        assert not decay & no_decay and not param_dict.keys() - (decay | no_decay)
        groups = [
            {"params": [param_dict[pn] for pn in sorted(decay)], "weight_decay": config["weight_decay"]},
            {"params": [param_dict[pn] for pn in sorted(no_decay)], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=config["learning_rate"], betas=config["betas"])

    def forward(self, idx, targets=None):
        t = idx.size(1)
        assert t <= self.block_size
        x = self.drop(self.tok_emb(idx) + self.pos_emb[:, :t, :])
        logits = self.head(self.ln_f(self.blocks(x)))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, do_sample=False, top_k=None):
        for _ in range(max_new_tokens):
            idx_cond = idx if idx.size(1) <= self.block_size else idx[:, -self.block_size :]
            logits, _ = self(idx_cond)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, top_k)
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            idx_next = torch.multinomial(probs, 1) if do_sample else torch.topk(probs, k=1, dim=-1)[1]
            idx = torch.cat((idx, idx_next), dim=1)
        return idx


class Trainer:
    def __init__(self, config, model, train_dataset):
        self.config, self.model, self.train_dataset = config, model, train_dataset
        self.device = os.environ.get("DEVICE", "cpu")
        self.model = self.model.to(self.device)
        self.callbacks = defaultdict(list)
        self.iter_num, self.loss = 0, None

    def add_callback(self, onevent, callback):
        self.callbacks[onevent].append(callback)

    def trigger_callbacks(self, onevent):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        model, config = self.model, self.config
        optimizer = model.configure_optimizers(config)
        loader = DataLoader(
            self.train_dataset,
            sampler=SequentialSampler(self.train_dataset),
            pin_memory=self.device == "cuda",
            batch_size=config["batch_size"],
            num_workers=0,
        )
        model.train()
        data_iter = iter(loader)
        while self.iter_num < config["max_iters"]:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(loader)
                batch = next(data_iter)
            x, y = (t.to(self.device) for t in batch)
            _, self.loss = model(x, y)
            model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config["grad_norm_clip"])
            optimizer.step()
            self.trigger_callbacks("on_batch_end")
            self.iter_num += 1


def report(trainer):
    if trainer.iter_num % 2 == 0:
        print(f"loss {trainer.loss.item():.6f}")


train_dataset = SortDataset()
model = GPT(
    dict(
        vocab_size=train_dataset.get_vocab_size(),
        block_size=train_dataset.get_block_size(),
        n_layer=2,
        n_head=2,
        n_embd=16,
    )
)
print(f"number of parameters: {sum(p.numel() for p in model.parameters())}")
trainer = Trainer(
    dict(
        max_iters=6,
        batch_size=16,
        learning_rate=5e-3,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        grad_norm_clip=1.0,
    ),
    model,
    train_dataset,
)
trainer.add_callback("on_batch_end", report)
trainer.run()
model.eval()
start = torch.stack([train_dataset[i][0][: train_dataset.length] for i in range(3)]).to(trainer.device)
made = model.generate(start, train_dataset.length, top_k=2)
assert made.shape == (3, 12) and bool((made[:, :6] == start).all())
sampled = model.generate(start, 2, do_sample=True)
assert int(sampled.max()) < 3
