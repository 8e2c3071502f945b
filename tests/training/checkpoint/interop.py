# SPDX-License-Identifier: Apache-2.0
"""Python part of interop_test.cpp.

    interop.py write DIR    writes files as Python programs do, for lockstep to read
    interop.py check DIR    loads files of lockstep and reports differences

Exits with code 77 if PyTorch cannot be imported.
"""

import collections
import os
import sys

try:
    import torch
except Exception as why:  # a broken installation is as good as none
    print(f"import torch: {why}")
    sys.exit(77)


class Net(torch.nn.Module):
    """The same network as Net of support.h."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 3, 2)
        self.norm = torch.nn.BatchNorm2d(3)
        self.head = torch.nn.Sequential(torch.nn.Linear(12, 4), torch.nn.Linear(4, 2))
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).flatten(1)) * self.scale


def fill(net):
    """Sets known values: tensor number n of the state dict contains n + 0, 1/64, 2/64 ..."""
    for number, tensor in enumerate(net.state_dict().values()):
        values = torch.arange(tensor.numel()) // (1 if tensor.is_floating_point() else 64)
        tensor.copy_((number + values.to(tensor.dtype) / 64).reshape(tensor.shape))


def write(folder):
    net = Net()
    fill(net)
    torch.save(net.state_dict(), f"{folder}/state_dict.pt")
    torch.save(net.state_dict(), f"{folder}/protocol4.pt", pickle_protocol=4)
    torch.save(dict(net.named_parameters()), f"{folder}/parameters.pt")

    adam = torch.optim.Adam(net.parameters(), lr=0.5)
    net(torch.ones(2, 1, 3, 3)).sum().backward()
    adam.step()
    torch.save({"epoch": 3, "best": 0.25, "done": False, "name": "run", "none": None,
                "model": net.state_dict(), "optimizer": adam.state_dict(),
                "shape": torch.Size([2, 3]), "history": [1.5, (2, "x")]}, f"{folder}/training.pt")

    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    torch.save(collections.OrderedDict(
        transposed=base.t(), columns=base[:, 1:3], row=base[2], scalar=torch.tensor(2.5),
        empty=torch.empty(0, 3), bfloat16=base.to(torch.bfloat16), half=base.half(),
        double=base.double(), flags=base > 3, ints=base.long(), bytes=base.byte()),
        f"{folder}/views.pt")

    torch.save(net, f"{folder}/module.pt")
    torch.save(net.state_dict(), f"{folder}/legacy.pt", _use_new_zipfile_serialization=False)


def load(path):
    """Loads a file, also with weights_only=True if this PyTorch supports it."""
    plain = torch.load(path)
    if "weights_only" in torch.load.__code__.co_varnames:
        strict = torch.load(path, weights_only=True)
        assert list(strict) == list(plain), path
    return plain


def check(folder):
    net = Net()
    print(net.load_state_dict(load(f"{folder}/model.pt")))
    wanted = Net()
    fill(wanted)
    for (name, got), want in zip(net.state_dict().items(), wanted.state_dict().values()):
        assert torch.equal(got, want), name

    saved = load(f"{folder}/model.pt")
    assert type(saved) is dict and list(saved) == list(net.state_dict()), list(saved)
    assert not any(tensor.requires_grad for tensor in saved.values())

    kinds = load(f"{folder}/kinds.pt")
    base = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    for name, want in dict(
            float=base, double=base.double(), half=base.half(), bfloat16=base.to(torch.bfloat16),
            long=base.long(), bool=base > 2, scalar=torch.tensor(2.5), empty=torch.empty(0, 3),
            transposed=base.t()).items():
        assert kinds[name].dtype == want.dtype and torch.equal(kinds[name], want), name

    optimizer = torch.load(f"{folder}/optimizer.pt")
    assert optimizer["kind"] == "Adam", optimizer["kind"]
    group = optimizer["param_groups"][0]
    assert group["lr"] == 0.5 and group["betas"] == (0.9, 0.999), group
    names = group["params"]
    # Python's own optimizer takes it, once names are numbers.
    adam = torch.optim.Adam(dict(net.named_parameters())[name] for name in names)
    theirs = adam.state_dict()
    theirs["param_groups"][0].update({k: v for k, v in group.items() if k != "params"})
    theirs["state"] = {n: dict(optimizer["state"][name], step=torch.tensor(1.0))
                       for n, name in enumerate(names)}
    adam.load_state_dict(theirs)
    net(torch.ones(2, 1, 3, 3)).sum().backward()
    adam.step()
    print("all as it should be")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
