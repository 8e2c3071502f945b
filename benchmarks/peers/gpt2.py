#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of `lockstep-bench gpt2`: a plain PyTorch module with SDPA, compiled or eager.

Uses the initial weights and the tokens that lockstep-bench wrote, measures the same times, and
prints one JSON line. Without files, the data are random: tools/device.sh calls it so to fill the
cache of torch.compile.
"""
import argparse
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from trainer import Trainer, add_arguments, measure

BATCHES = 4


def attend(query, key, value):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    # PyTorch 1.x has no such function.
    length = query.size(2)
    scores = query @ key.transpose(2, 3) / math.sqrt(query.size(3))
    later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(-1) @ value


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        count, length, width = x.shape
        query, key, value = (part.view(count, length, self.heads, -1).transpose(1, 2)
                             for part in self.c_attn(x).split(width, dim=2))
        seen = attend(query, key, value)
        return self.c_proj(seen.transpose(1, 2).reshape(count, length, width))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """`vocabulary` can exceed the number of tokens: padded matrix products are faster."""

    def __init__(self, options, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, options.width)
        self.wpe = nn.Embedding(options.positions, options.width)
        self.h = nn.ModuleList(Block(options.width, options.heads) for _ in range(options.layers))
        self.ln_f = nn.LayerNorm(options.width)
        self.lm_head = nn.Linear(options.width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens, targets):
        places = torch.arange(tokens.size(1), device=tokens.device)
        x = self.wte(tokens) + self.wpe(places)
        for block in self.h:
            x = block(x)
        scores = self.lm_head(self.ln_f(x))
        return F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())


@torch.no_grad()
def load(net, path):
    """Transposes projections: [in, out] in files of Hugging Face, [out, in] in nn.Linear."""
    weights = torch.load(path, map_location="cpu")
    weights = {name.removeprefix("transformer."): value for name, value in weights.items()}
    for name, parameter in net.named_parameters():
        value = weights.pop(name)
        if name.startswith("h.") and name.endswith(".weight") and value.dim() == 2:
            value = value.t()
        if name == "wte.weight":
            parameter.zero_()
            parameter = parameter[:value.size(0)]
        parameter.copy_(value)
    left = [name for name in weights if not name.endswith((".attn.bias", "lm_head.weight"))]
    if left:
        raise SystemExit(f"gpt2.py: {path} contains weights that the model does not have: {left}")


def make_optimizer(name, net, device):
    if name == "sgd":
        return torch.optim.SGD(net.parameters(), lr=6e-4, momentum=0.9, weight_decay=0.1)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    more = {"fused": True} if device == "cuda" else {}
    return kind(net.parameters(), lr=6e-4, weight_decay=0.1, betas=(0.9, 0.95), **more)


class Training(Trainer):
    def __init__(self, options):
        super().__init__(options)
        vocabulary = options.vocabulary
        if self.mode == "compile":
            vocabulary = (vocabulary + 127) // 128 * 128
        net = Gpt2(options, vocabulary)
        if options.weights:
            load(net, options.weights)
        net = net.to(self.device).train()
        self.optimizer = make_optimizer(options.optimizer, net, self.device)
        self.loss = self.compiled(net)
        shape = (BATCHES, options.batch, options.context + 1)
        if options.tokens:
            tokens = torch.from_file(options.tokens, size=math.prod(shape), dtype=torch.int64)
        else:
            tokens = torch.randint(options.vocabulary, shape)
        tokens = tokens.view(shape)
        self.batches = [(part[:, :-1].contiguous().to(self.device),
                         part[:, 1:].contiguous().to(self.device)) for part in tokens]

    def loss_of_next_batch(self):
        inputs, targets = self.next_of(self.batches)
        with self.precision():
            return self.loss(inputs, targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add_arguments(parser)
    for name in ("layers", "heads", "width", "positions", "vocabulary", "context"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--optimizer", choices=["adamw", "adam", "sgd"], default="adamw")
    parser.add_argument("--tokens",
                        help="file of int64 tokens, batches x texts x (context + 1) [random]")
    options = parser.parse_args()

    figures = measure(Training(options), options)
    figures["tokens_per_second"] = 1e3 * options.batch * options.context / figures["ms_per_step"]
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
