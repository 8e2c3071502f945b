#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of `lockstep-bench resnet50`: torchvision, channels last, compiled or eager.

Uses the initial weights and the images that lockstep-bench wrote, measures the same times, and
prints one JSON line. The images are normalized before the measurement starts.
"""
import argparse
import contextlib
import json
import math
import resource
import statistics
import time

import torch
import torch.nn.functional as F
import torchvision

BLOCKS = 3
PART_STEPS = 3


def normalised(images, device):
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225], device=device).view(3, 1, 1)
    floats = (images.to(device).float() / 255 - mean) / deviation
    return floats.contiguous(memory_format=torch.channels_last)


class Training:
    def __init__(self, options):
        self.device = options.device
        self.mode = options.mode if hasattr(torch, "compile") else "eager"
        self.is_bf16 = options.precision == "bf16"
        if self.device == "cuda":
            torch.backends.cudnn.benchmark = True
        net = getattr(torchvision.models, options.net)()
        net.load_state_dict(torch.load(options.weights, map_location="cpu"))
        self.net = net.to(self.device).to(memory_format=torch.channels_last).train()
        more = {"fused": True} if self.device == "cuda" else {}
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9,
                                         weight_decay=5e-5, **more)
        self.forward_net = torch.compile(self.net) if self.mode == "compile" else self.net
        held = torch.load(options.images, map_location="cpu")
        count = options.batch
        self.batches = [(normalised(images, self.device), targets.to(self.device))
                        for images, targets in zip(held["images"].split(count),
                                                   held["targets"].split(count))]
        self.losses = []
        self.step = 0

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def forward(self):
        images, targets = self.batches[self.step % len(self.batches)]
        self.step += 1
        precision = (torch.autocast(self.device, dtype=torch.bfloat16) if self.is_bf16
                     else contextlib.nullcontext())
        with precision:
            scores = self.forward_net(images)
        return F.cross_entropy(scores.float(), targets)

    def run(self, steps):
        for _ in range(steps):
            loss = self.forward()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.losses.append(loss.detach())

    def run_by_parts(self):
        """Returns the milliseconds of forward, backward and update of another step."""
        marks = []

        def mark():
            self.wait()
            marks.append(time.perf_counter())

        mark()
        loss = self.forward()
        mark()
        loss.backward()
        mark()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        mark()
        return [1e3 * (after - before) for before, after in zip(marks, marks[1:])]

    def timed(self, steps):
        self.wait()
        begin = time.perf_counter()
        self.run(steps)
        self.wait()
        return time.perf_counter() - begin


def peak_bytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("batch", "steps", "warmup"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--net", default="resnet50")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--mode", choices=["compile", "eager"], default="compile")
    parser.add_argument("--weights", required=True,
                        help="dictionary of tensors, written by torch.save")
    parser.add_argument("--images", required=True, help="file with image bytes and targets")
    options = parser.parse_args()

    training = Training(options)
    training.timed(options.warmup)
    seconds = statistics.median(training.timed(options.steps) for _ in range(BLOCKS))
    seconds /= options.steps
    peak = peak_bytes(options.device)
    losses = torch.stack(training.losses).float().tolist()
    forward, backward, update = (statistics.median(part) for part in
                                 zip(*(training.run_by_parts() for _ in range(PART_STEPS))))
    print(json.dumps({
        "torch": torch.__version__, "mode": training.mode,
        "images_per_second": options.batch / seconds, "ms_per_step": 1e3 * seconds,
        "loop_ms": 1e3 * seconds, "forward_ms": forward, "backward_ms": backward,
        "update_ms": update, "peak_bytes": peak,
        "losses": [loss if math.isfinite(loss) else None for loss in losses]}), flush=True)


if __name__ == "__main__":
    main()
