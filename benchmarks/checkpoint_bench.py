#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of checkpoints: time to save, and stall of the training loop.

Trains checkpoint_bench (a model with a state of a given size) without checkpoints, with synchronous
and with asynchronous checkpoints. For comparison, writes the same number of bytes to one file on
the same disk and calls fsync. The modes alternate.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {"none": ["--no-checkpoint"], "synchronous": ["--no-checkpoint-async"], "asynchronous": []}


def write_plainly(folder, size):
    """Returns the seconds to write a file of `size` bytes, including fsync."""
    block = os.urandom(1 << 20) * 4
    path = os.path.join(folder, "plain")
    begun = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        left = size
        while left > 0:
            left -= file.write(block[:left])
        os.fsync(file.fileno())
    seconds = time.monotonic() - begun
    os.remove(path)
    return seconds


def train(options, way, folder):
    run = pathlib.Path(folder) / way
    command = [options.lockstep, "run", "--nproc-per-node", str(options.workers), "--run-dir",
               str(run), "--", options.program, "--megabytes", str(options.megabytes), "--steps",
               str(options.steps), *WAYS[way]]
    if way != "none":
        command += ["--checkpoint-every", str(options.every), "--keep", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    steps = json.loads(re.search(r'{"steps":.*}', result.stdout).group())["steps"]
    saves = []
    for line in open(run / "events" / "rank-0.jsonl", encoding="utf-8"):
        if '"checkpoint"' in line:
            saves.append(json.loads(line))
    subprocess.run(["rm", "-rf", str(run)], check=True)
    return steps, saves


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lockstep", default="build/bin/lockstep",
                        help="launcher [build/bin/lockstep]")
    parser.add_argument("--program", default="build/bench/checkpoint_bench",
                        help="training program [build/bench/checkpoint_bench]")
    parser.add_argument("--workers", type=int, default=2, help="number of workers [2]")
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the state [1000]")
    parser.add_argument("--steps", type=int, default=30, help="steps per training [30]")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints [10]")
    parser.add_argument("--rounds", type=int, default=2, help="number of rounds [2]")
    parser.add_argument("--folder", default=".", help="directory on the disk to measure [.]")
    options = parser.parse_args()
    steps = {way: [] for way in WAYS}
    saves = {way: [] for way in WAYS}
    disk = []
    with tempfile.TemporaryDirectory(prefix="checkpoint-bench-", dir=options.folder) as folder:
        for _ in range(options.rounds):
            disk.append(write_plainly(folder, options.megabytes * 1_000_000))
            for way in WAYS:
                more_steps, more_saves = train(options, way, folder)
                steps[way] += more_steps[2:]  # the first steps allocate the optimizer state
                saves[way] += more_saves
        disk.append(write_plainly(folder, options.megabytes * 1_000_000))
    plain = statistics.median(disk)
    print(f"| mode | save, s | stall of the loop, s | relative to plain write | step, ms (median) "
          f"| slowest step, s |")
    print("|---|---|---|---|---|---|")
    print(f"| plain write + fsync | {plain:.2f} | | 1.00 | | |")
    for way in WAYS:
        step = f"{statistics.median(steps[way]) * 1000:.0f} | {max(steps[way]):.2f}"
        if not saves[way]:
            print(f"| {way} | | | | {step} |")
            continue
        # No steps run during the last save of a training, so it is not typical; hence the median.
        seconds = statistics.median(s["seconds"] for s in saves[way])
        stall = statistics.median(s["stall_seconds"] for s in saves[way])
        print(f"| {way} | {seconds:.2f} | {stall:.2f} | {seconds / plain:.2f} | {step} |")
    print(f"\n{options.workers} workers, {options.megabytes} MB, {len(saves['asynchronous'])} saves; "
          f"plain writes: {', '.join(f'{s:.2f}' for s in disk)} s")


if __name__ == "__main__":
    main()
