#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of `lockstep-bench resnet50`: torchvision, channels last, compiled or eager.

Uses the initial weights and the images that lockstep-bench wrote, measures the same times, and
prints one JSON line. The images are normalized before the measurement starts. Without files,
the data are constant: tools/device.sh calls it so to fill the cache of torch.compile.
"""
import argparse
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

from trainer import Trainer, add_arguments, measure


def normalised(images, device):
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225], device=device).view(3, 1, 1)
    floats = (images.to(device).float() / 255 - mean) / deviation
    return floats.contiguous(memory_format=torch.channels_last)


def make_net(options):
    net = getattr(torchvision.models, options.net)()
    if options.small_images:
        net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        net.maxpool = nn.Identity()
    return net


class Training(Trainer):
    def __init__(self, options):
        super().__init__(options)
        if self.device == "cuda":
            torch.backends.cudnn.benchmark = True
        net = make_net(options)
        if options.weights:
            net.load_state_dict(torch.load(options.weights, map_location="cpu"))
        net = net.to(self.device).to(memory_format=torch.channels_last).train()
        more = {"fused": True} if self.device == "cuda" else {}
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9,
                                         weight_decay=5e-5, **more)
        self.net = self.compiled(net)
        count = options.batch
        if options.images:
            held = torch.load(options.images, map_location="cpu")
        else:
            size = 64 if options.small_images else 224
            held = {"images": torch.zeros(count, 3, size, size, dtype=torch.uint8),
                    "targets": torch.zeros(count, dtype=torch.int64)}
        self.batches = [(normalised(images, self.device), targets.to(self.device))
                        for images, targets in zip(held["images"].split(count),
                                                   held["targets"].split(count))]

    def loss_of_next_batch(self):
        images, targets = self.next_of(self.batches)
        with self.precision():
            scores = self.net(images)
        return F.cross_entropy(scores.float(), targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add_arguments(parser)
    parser.add_argument("--net", default="resnet50")
    parser.add_argument("--small-images", action="store_true",
                        help="use a 3x3 stem without pooling")
    parser.add_argument("--images", help="file with image bytes and targets [black images]")
    options = parser.parse_args()

    figures = measure(Training(options), options)
    figures["images_per_second"] = 1e3 * options.batch / figures["ms_per_step"]
    figures["loop_ms"] = figures["ms_per_step"]
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
