#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares lockstep with torchrun and DistributedDataParallel on MNIST, with two workers each.

Python uses the faster of its two kinds of convolutions, oneDNN or im2col. Both are measured first:
on x86_64 oneDNN, as installed, is faster; on arm64 it is several times slower. lockstep chooses
in the same way by itself. The two sides alternate, so that noise affects both. Prints a table of
medians with their range, and the ratios. --json FILE writes all runs. Not part of the tests.
"""
import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from torch_python import find_python

HERE = os.path.dirname(os.path.abspath(__file__))
WARMUP = 20
WORKERS = 2
# The number that lockstep run sets for its workers.
THREADS = max(1, len(os.sched_getaffinity(0)) // WORKERS)
# Options of mnist_peer.py by the kind of its convolutions.
CONVOLUTIONS = {"oneDNN, as installed": [], "im2col, oneDNN disabled": ["--no-onednn"]}


def run(command, environment=None):
    start = time.time()
    result = subprocess.run(command, env={**os.environ, **(environment or {})},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wall = time.time() - start
    if result.returncode != 0:
        sys.exit(f"mnist_bench: exit code {result.returncode}: {' '.join(command)}\n"
                 f"{result.stdout[-2000:]}{result.stderr[-4000:]}")
    return start, wall, result.stdout


def run_python(options, net, steps, extra):
    # Debian's torchrun 1.13 cannot parse its own defaults of -r and -t. These are equivalent.
    command = [*options.torchrun.split(), "-r", "9:1", "-t", "9:1", "--standalone", "--nnodes=1",
               f"--nproc_per_node={WORKERS}", os.path.join(HERE, "mnist_peer.py"), "--net", net, "--steps",
               str(steps), "--warmup", str(min(WARMUP, steps)), "--data-dir", options.data_dir]
    start, wall, text = run(command + extra, {"OMP_NUM_THREADS": str(THREADS)})
    # torchrun can print the JSON lines of two ranks on one line.
    ranks = [json.loads(found) for found in re.findall(r'\{"first".*?\}', text)]
    return {"first": max(r["first"] for r in ranks) - start, "wall": wall,
            "rate": statistics.mean(r["rate"] for r in ranks), "peak": max(r["peak"] for r in ranks)}


def choose_convolutions(options):
    """Returns the faster kind of convolutions of Python on this machine."""
    rates = {kind: [] for kind in CONVOLUTIONS}
    for _ in range(2):
        for kind, extra in CONVOLUTIONS.items():
            rates[kind].append(run_python(options, "cnn", 60, extra)["rate"])
    print("Python, cnn, images/s: " +
          "; ".join(f"{kind}: {max(found):,.0f}" for kind, found in rates.items()) + "\n")
    return max(rates, key=lambda kind: max(rates[kind]))


def run_lockstep(options, net, steps, _extra):
    directory = tempfile.mkdtemp(prefix="lockstep-bench")
    command = [os.path.join(options.bin, "lockstep"), "run", "--nproc-per-node", str(WORKERS), "--run-dir",
               directory, "--", os.path.join(options.bin, "mnist"), "-s", "ddp", "--net", net,
               "--global-batch", "128", "--steps", str(steps), "--epochs", "1000",
               "--no-checkpoint", "--no-validation", "--data-dir", options.data_dir]
    start, wall, _ = run(command)
    first, rates, peaks = [], [], []
    for rank in range(WORKERS):
        with open(os.path.join(directory, "events", f"rank-{rank}.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        first += [e["time"] - start for e in events if e["event"] == "first_step"]
        peaks += [e["peak_bytes"] for e in events if e["event"] == "end"]
        marks = [(e["step"], e["time"]) for e in events if e["event"] == "step"
                 and e["step"] >= WARMUP]
        if len(marks) > 1:
            rates.append((marks[-1][0] - marks[0][0]) * 128 / (marks[-1][1] - marks[0][1]))
    shutil.rmtree(directory)
    return {"first": max(first), "wall": wall, "rate": statistics.mean(rates) if rates else 0,
            "peak": max(peaks)}


def show(values, form):
    return f"{form(statistics.median(values))} [{form(min(values))}-{form(max(values))}]"


def compare(options, title, net, steps, extra, figures):
    sides = {"python": run_python, "lockstep": run_lockstep}
    runs = {name: [] for name in sides}
    for _ in range(options.repeat):
        for name, side in sides.items():
            runs[name].append(side(options, net, steps, extra))
            time.sleep(0.5)
    for key, label, form, better in figures:
        python = [r[key] for r in runs["python"]]
        ours = [r[key] for r in runs["lockstep"]]
        ratio = statistics.median(ours) / statistics.median(python)
        print(f"| {title}: {label} | {show(python, form)} | {show(ours, form)} | {ratio:.2f}x | "
              f"{better} |", flush=True)
    return {"title": title, "net": net, "steps": steps, "python": extra, "runs": runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin",
                        help="directory of lockstep and mnist [build/bin]")
    parser.add_argument("--data-dir", default="data", help="directory with mnist/ [data]")
    parser.add_argument("--torchrun",
                        help="torchrun command [that of the interpreter with torch, see "
                             "tools/find_python.sh]")
    parser.add_argument("--repeat", type=int, default=3, help="runs per side [3]")
    parser.add_argument("--json", help="file for all runs")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.data_dir, "mnist", "train-images-idx3-ubyte")):
        sys.exit(f"mnist_bench: no MNIST in {options.data_dir}; run: lockstep data fetch mnist")
    options.torchrun = options.torchrun or f"{find_python()} -m torch.distributed.run"
    try:
        subprocess.run([*options.torchrun.split(), "--help"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit(f"mnist_bench: cannot run {options.torchrun}")

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE,
                            text=True, cwd=HERE).stdout.strip()
    print(f"{platform.machine()}, {os.cpu_count()} cores, commit {commit}, median [range] of "
          f"{options.repeat}, two workers, batch 64 each\n")
    fastest = choose_convolutions(options)
    best = CONVOLUTIONS[fastest]
    print("| measurement | torchrun + DDP | lockstep -s ddp | lockstep / torchrun | expected |")
    print("|---|---|---|---|---|")
    seconds = lambda v: f"{v:.2f} s"
    rate = lambda v: f"{v:,.0f}".replace(",", " ")
    mebibytes = lambda v: f"{v / 2**20:.0f} MiB"
    all_runs = [
        compare(options, "start, cnn", "cnn", 1, best, [
            ("first", "command to first step", seconds, "at most 0.25x"),
            ("wall", "whole command with one step", seconds, "")]),
        compare(options, "cnn", "cnn", 250, best, [
            ("rate", "images/s", rate, "at least 1.25x"),
            ("peak", "peak memory per worker", mebibytes, "at most 0.9x")]),
        compare(options, "classic", "classic", 80, best, [
            ("rate", "images/s", rate, "at least 1.25x"),
            ("peak", "peak memory per worker", mebibytes, "at most 0.9x")]),
        compare(options, "mlp", "mlp", 3000, best, [
            ("rate", "images/s", rate, "at least 4x"),
            ("peak", "peak memory per worker", mebibytes, "at most 0.9x")]),
        compare(options, "mlp, Python with preloaded float images", "mlp", 3000, [*best, "--ready"], [
            ("rate", "images/s", rate, ""),
            ("peak", "peak memory per worker", mebibytes, "")]),
    ]
    if best:
        all_runs.append(compare(options, "cnn, Python as installed (oneDNN on)", "cnn", 120, [], [
            ("rate", "images/s", rate, "")]))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(all_runs, file, indent=1)
    print(f"\nConvolutions in Python: {fastest}"
          f"{' (except in the last row)' if best else ''}. It is the faster kind on this machine.")


if __name__ == "__main__":
    main()
