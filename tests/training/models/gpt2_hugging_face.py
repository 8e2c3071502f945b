# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's GPT2LMHeadModel with the weights of lockstep's.

    gpt2_hugging_face.py FOLDER HEADS LAYERS

Reads FOLDER/weights.pt and FOLDER/batch.pt, writes FOLDER/expected.pt: scores, loss, gradients, all
in float32; and the model as published models are: FOLDER/lm/model.safetensors with the output layer,
FOLDER/base/model.safetensors without it. Exits with 77 where there is no PyTorch or no transformers.
"""
import sys

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as fault:
    print(fault)
    sys.exit(77)


def main():
    folder, heads, layers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    weights = torch.load(f"{folder}/weights.pt")
    batch = torch.load(f"{folder}/batch.pt")
    words, width = weights["transformer.wte.weight"].shape
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=words, n_embd=width, n_head=heads, n_layer=layers,
        n_positions=weights["transformer.wpe.weight"].shape[0],
        embd_pdrop=0, attn_pdrop=0, resid_pdrop=0))
    missing = model.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys, missing.unexpected_keys
    assert set(missing.missing_keys) <= {"lm_head.weight"}, missing.missing_keys
    model.tie_weights()
    model.save_pretrained(f"{folder}/lm")
    model.transformer.save_pretrained(f"{folder}/base")
    scores = model(batch["input"]).logits
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), batch["target"].flatten())
    loss.backward()
    expected = {"scores": scores.detach(), "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        expected["gradient." + name] = parameter.grad
    torch.save(expected, f"{folder}/expected.pt")


if __name__ == "__main__":
    main()
