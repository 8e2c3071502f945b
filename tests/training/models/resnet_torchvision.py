#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torchvision's ResNet on weights and images that a test wrote.

    resnet_torchvision.py FOLDER NET

Reads weights.pt and images.pt. Writes own.pt, weights of torchvision's own, and expected.pt: scores
with those, and scores and gradients while training with the others.
"""
import sys

try:
    import torch
    import torchvision
except ImportError as missing:
    print(missing)
    sys.exit(77)


def main():
    folder, name = sys.argv[1:]
    net = getattr(torchvision.models, name)(num_classes=10)
    torch.save({key: value.clone() for key, value in net.state_dict().items()}, f"{folder}/own.pt")
    images = torch.load(f"{folder}/images.pt")["images"]
    net.eval()
    with torch.no_grad():
        scores_of_own = net(images)
    net.load_state_dict(torch.load(f"{folder}/weights.pt"))
    net.train()
    scores = net(images)
    scores.square().sum().backward()
    gradients = {f"gradient.{key}": value.grad for key, value in net.named_parameters()}
    torch.save({"scores": scores.detach(), "scores_of_own": scores_of_own, **gradients},
               f"{folder}/expected.pt")


if __name__ == "__main__":
    main()
