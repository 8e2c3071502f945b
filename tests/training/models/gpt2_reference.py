# SPDX-License-Identifier: Apache-2.0
"""GPT-2 in plain PyTorch, written from its description: what lockstep's must equal.

    gpt2_reference.py FOLDER HEADS LAYERS

Reads FOLDER/weights.pt and FOLDER/batch.pt, writes FOLDER/expected.pt: scores, loss, gradients.
Exits with 77 where there is no PyTorch.
"""
import math
import sys

try:
    import torch
except ImportError as fault:
    print(fault)
    sys.exit(77)


def norm(values, weight, bias):
    centred = values - values.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * weight + bias


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def forward(w, tokens, heads, layers):
    length = tokens.shape[1]
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:length]
    width = x.shape[-1]
    for i in range(layers):
        def part(name, i=i):
            return w[f"transformer.h.{i}.{name}"]
        h = norm(x, part("ln_1.weight"), part("ln_1.bias"))
        q, k, v = (h @ part("attn.c_attn.weight") + part("attn.c_attn.bias")).split(width, -1)
        outs = []
        for head in range(heads):
            at = slice(head * width // heads, (head + 1) * width // heads)
            scores = q[..., at] @ k[..., at].transpose(1, 2) / math.sqrt(width / heads)
            for row in range(length):
                scores[:, row, row + 1:] = float("-inf")
            outs.append(torch.softmax(scores, -1) @ v[..., at])
        x = x + torch.cat(outs, -1) @ part("attn.c_proj.weight") + part("attn.c_proj.bias")
        h = norm(x, part("ln_2.weight"), part("ln_2.bias"))
        h = gelu(h @ part("mlp.c_fc.weight") + part("mlp.c_fc.bias"))
        x = x + h @ part("mlp.c_proj.weight") + part("mlp.c_proj.bias")
    x = norm(x, w["transformer.ln_f.weight"], w["transformer.ln_f.bias"])
    return x @ w["transformer.wte.weight"].t()


def main():
    folder, heads, layers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    weights = {name: value.double().requires_grad_()
               for name, value in torch.load(f"{folder}/weights.pt").items()}
    batch = torch.load(f"{folder}/batch.pt")
    scores = forward(weights, batch["input"], heads, layers)
    chances = torch.log_softmax(scores, -1)
    loss = -chances.gather(-1, batch["target"].unsqueeze(-1)).mean()
    loss.backward()
    expected = {f"gradient.{name}": value.grad for name, value in weights.items()}
    torch.save({**expected, "scores": scores.detach(), "loss": loss.detach()},
               f"{folder}/expected.pt")


main()
