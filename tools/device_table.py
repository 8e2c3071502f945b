#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the measurements of tools/device.sh as one table.

    device_table.py DIRECTORY
"""
import json
import pathlib
import statistics
import sys

ROWS = (  # file, figure, label, digits
    ("gpt2", "tokens_per_second", "GPT-2 124M, tokens/s", 0),
    ("gpt2", "ms_per_step", "GPT-2 124M, ms per step", 2),
    ("fp8", "tokens_per_second", "GPT-2 124M, fp8 and bf16, tokens/s", 0),
    ("gpt2-355M", "tokens_per_second", "GPT-2 355M, tokens/s", 0),
    ("gpt2-774M", "tokens_per_second", "GPT-2 774M, tokens/s", 0),
    ("gpt2-1.5B", "tokens_per_second", "GPT-2 1.5B, tokens/s", 0),
    ("resnet50", "images_per_second", "ResNet-50, images/s", 0),
    ("resnet50", "ms_per_step", "ResNet-50, ms per step", 2),
    ("resnet18", "images_per_second", "ResNet-18, 64 x 64, images/s", 0),
    ("jpeg", "images_per_second/2", "JPEG on the GPU, 2 threads, images/s", 0),
    ("loader", "images_per_second/1", "JPEG on the CPU, 1 thread, images/s", 0),
    ("mnist", "eager_us", "MNIST, operator by operator, us per step", 1),
    ("mnist", "graph_us", "MNIST, CUDA graph, us per step", 1),
    ("mnist", "overhead_us", "MNIST, Trainer vs bare loop, us per step", 1),
    ("accuracy", "seconds", "MNIST, command to 99 % accuracy, s", 2),
    ("accuracy", "first_step_seconds", "MNIST, command to first step, s", 2),
)
PEER_OF = {"fp8": "gpt2"}  # the peer has no fp8: it computes in bf16


def figure(side, name):
    """`name` is a key, or two keys with a slash."""
    if isinstance(side, list):  # several runs
        values = [figure(each, name) for each in side]
        return statistics.median(values) if values and None not in values else None
    for key in name.split("/"):
        side = side.get(key) if isinstance(side, dict) else None
    return side if isinstance(side, (int, float)) else None


def main():
    folder = pathlib.Path(sys.argv[1])
    found = {}
    for path in sorted(folder.glob("*.json")):
        found[path.stem] = json.loads(path.read_text())
    print(f"\n{'':<42}{'lockstep':>14}{'peer':>14}{'speed-up':>10}")
    for name, key, words, digits in ROWS:
        ours = figure(found.get(name, {}).get("lockstep"), key)
        if ours is None:
            continue
        theirs = figure(found.get(PEER_OF.get(name, name), {}).get("peer"), key)
        line = f"{words:<42}{ours:>14,.{digits}f}"
        if theirs:
            times = "_per_second" in key
            line += f"{theirs:>14,.{digits}f}{ours / theirs if times else theirs / ours:>10.2f}"
        print(line)


if __name__ == "__main__":
    main()
