#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint costs: time to save, and how long training stands still for it.

Trains checkpoint_bench (a state of a chosen size) with no checkpoints, with checkpoints that
training waits for, and with those written beside it; in the same run, on the same disk, writes as
many bytes to one file and waits until they are on the disk. The ways take turns.
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
    """Seconds to write a file of that size and have it on the disk."""
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
    parser.add_argument("--lockstep", default="build/bin/lockstep")
    parser.add_argument("--program", default="build/bench/checkpoint_bench")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", default=".", help="on the disk to be measured")
    options = parser.parse_args()
    steps = {way: [] for way in WAYS}
    saves = {way: [] for way in WAYS}
    disk = []
    with tempfile.TemporaryDirectory(prefix="checkpoint-bench-", dir=options.folder) as folder:
        for _ in range(options.rounds):
            disk.append(write_plainly(folder, options.megabytes * 1_000_000))
            for way in WAYS:
                more_steps, more_saves = train(options, way, folder)
                steps[way] += more_steps[2:]  # the first ones make the optimizer's state
                saves[way] += more_saves
        disk.append(write_plainly(folder, options.megabytes * 1_000_000))
    plain = statistics.median(disk)
    print(f"| way | save, s | stall of the loop, s | of the disk's own time | step, ms (median) "
          f"| slowest step, s |")
    print("|---|---|---|---|---|---|")
    print(f"| plain write + fsync | {plain:.2f} | | 1.00 | | |")
    for way in WAYS:
        step = f"{statistics.median(steps[way]) * 1000:.0f} | {max(steps[way]):.2f}"
        if not saves[way]:
            print(f"| {way} | | | | {step} |")
            continue
        # The last save of a training has no steps beside it.
        seconds = statistics.median(s["seconds"] for s in saves[way])
        stall = statistics.median(s["stall_seconds"] for s in saves[way])
        print(f"| {way} | {seconds:.2f} | {stall:.2f} | {seconds / plain:.2f} | {step} |")
    print(f"\n{options.workers} workers, {options.megabytes} MB, {len(saves['asynchronous'])} saves; "
          f"plain: {', '.join(f'{s:.2f}' for s in disk)} s")


if __name__ == "__main__":
    main()
