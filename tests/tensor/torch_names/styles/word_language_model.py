"""A language model of words: an LSTM whose state goes from batch to batch, in the style of PyTorch's example."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device(os.environ.get("DEVICE", "cpu"))


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.0, tie_weights=False):
        super().__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise ValueError("When using the tied flag, nhid must be equal to emsize")
            self.decoder.weight = self.encoder.weight
        self.nhid, self.nlayers = nhid, nlayers

    def init_weights(self):
        with torch.no_grad():
            for number, p in enumerate(self.parameters()):
                wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * (number + 1.3))
                p.copy_(0.2 * wave.reshape(p.shape))
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (
            weight.new_zeros(self.nlayers, bsz, self.nhid),
            weight.new_zeros(self.nlayers, bsz, self.nhid),
        )


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous().to(device)


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


torch.manual_seed(1111)
bptt, ntokens, batch_size, clip = 6, 12, 3, 0.25
words = ["the", "cat", "sat", "on", "the", "mat", "and", "the", "dog", "ran", "off", "then"]
ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
corpus = torch.tensor([ids[word] for word in words * 7], dtype=torch.int64)
train_data = batchify(corpus, batch_size)
model = RNNModel("LSTM", ntokens, 10, 10, 2, tie_weights=True)
model.init_weights()
model.to(device)
criterion = nn.NLLLoss()
lr = 5.0
for _ in range(3):
    model.train()
    total_loss, hidden, batches = 0.0, model.init_hidden(batch_size), 0
    for i in range(0, train_data.size(0) - 1, bptt):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
        batches += 1
    cur_loss = total_loss / batches
    assert math.exp(cur_loss) > 1
    print(f"loss {cur_loss:.6f}")
