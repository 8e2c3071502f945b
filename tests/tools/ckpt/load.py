# SPDX-License-Identifier: Apache-2.0
"""Python part of ckpt_test.cpp: loads a file of lockstep-ckpt and prints every tensor.

    load.py FILE

Prints one line per tensor, ordered by name: name, dtype, shape, sum. Reads .safetensors files
with only struct and json. Exits with code 77 if PyTorch cannot be imported.
"""

import json
import struct
import sys

try:
    import torch
except Exception as why:  # a broken installation is as good as none
    print(f"import torch: {why}")
    sys.exit(77)

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytearray(data[begin:end])
        dtype = DTYPES[entry["dtype"]]
        flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


path = sys.argv[1]
if path.endswith(".safetensors"):
    loaded = read_safetensors(path)
else:
    loaded = torch.load(path, weights_only=True)
for name, tensor in sorted(loaded.items()):
    kind = str(tensor.dtype).removeprefix("torch.")
    print(name, kind, list(tensor.shape), f"{tensor.double().sum().item():.6g}")
