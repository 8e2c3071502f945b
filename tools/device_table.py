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
    ("resnet50", "images_per_second", "ResNet-50, images/s", 0),
    ("resnet50", "ms_per_step", "ResNet-50, ms per step", 2),
    ("mnist", "eager_us", "MNIST, operator by operator, us per step", 1),
    ("mnist", "graph_us", "MNIST, CUDA graph, us per step", 1),
    ("mnist", "overhead_us", "MNIST, Trainer vs bare loop, us per step", 1),
    ("accuracy", "seconds", "MNIST, command to 99 % accuracy, s", 2),
    ("accuracy", "first_step_seconds", "MNIST, command to first step, s", 2),
)


def figure(side, name):
    if isinstance(side, list):  # several runs
        values = [figure(each, name) for each in side]
        return statistics.median(values) if values and None not in values else None
    value = side.get(name) if isinstance(side, dict) else None
    return value if isinstance(value, (int, float)) else None


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
        theirs = figure(found[name].get("peer"), key)
        line = f"{words:<42}{ours:>14,.{digits}f}"
        if theirs:
            times = key.endswith("_per_second")
            line += f"{theirs:>14,.{digits}f}{ours / theirs if times else theirs / ours:>10.2f}"
        print(line)


if __name__ == "__main__":
    main()
