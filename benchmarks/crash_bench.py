#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a training repeatedly with SIGKILL at random times while it saves checkpoints.

Each kill ends one worker, or all processes of the run at once. The next start uses --resume auto.
After every kill, no complete checkpoint must be lost or damaged. When a training ends, its weights
and its test loss must be bit-identical to those of an uninterrupted run; then the next training
starts. Prints a table and every fault. The exit code is 1 if there was a fault. The tests run it
with a few kills, docs/results with many.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

from processes import census

MOST_SECONDS = 120


class Training:
    def __init__(self, options, folder):
        self.options = options
        self.folder = pathlib.Path(folder)
        self.mark = f"CRASH_BENCH_MARK={self.folder.name}-{os.getpid()}"

    def start(self, run):
        command = [self.options.lockstep, "run", "--nproc-per-node", str(self.options.workers),
                   "--grace", "1", "--run-dir", str(self.folder / run), "--",
                   self.options.program, *self.options.arguments.split(),
                   "--checkpoint-every", str(self.options.every), "--resume", "auto"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.update([self.mark.split("=")])
        self.log = self.folder / f"{run}.log"
        with open(self.log, "ab") as log:
            return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=subprocess.STDOUT)

    def processes(self):
        return census(self.mark)

    def kill_all(self):
        while True:
            left = self.processes()
            if not left:
                return
            for pid in left:
                kill(pid)

    def newest(self, run):
        """Returns the newest step with a complete checkpoint, or -1."""
        steps = [-1]
        for path in (self.folder / run / "checkpoints").glob("step-*/COMPLETE"):
            steps.append(int(path.parent.name.removeprefix("step-")))
        return max(steps)

    def outcome(self, run):
        """Returns the bytes of the final weights, and the last test loss."""
        with zipfile.ZipFile(self.folder / run / "model.pt") as archive:
            weights = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()
                       if "/data" in name}
        losses = [json.loads(line)
                  for line in open(self.folder / run / "events" / "rank-0.jsonl", encoding="utf-8")
                  if '"evaluation"' in line]
        return weights, losses[-1]["loss"]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def workers_of(training):
    """Returns the processes of the run that execute the training program."""
    found = []
    for pid in training.processes():
        try:
            if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(training.options.program):
                found.append(pid)
        except OSError:
            pass
    return found


class Figures:
    def __init__(self):
        self.kills = self.of_all = self.during_save = self.ends = self.restarts = 0
        self.faults = []
        self.steps = []


def crash_once(training, run, chance, figures):
    """Starts the training once. Returns whether it reached its end."""
    before = training.newest(run)
    process = training.start(run)
    deadline = time.monotonic() + MOST_SECONDS
    # Wait for the start of training, because a kill while the program loads would test nothing.
    events = training.folder / run / "events" / "rank-0.jsonl"
    started = events.stat().st_size if events.exists() else 0
    while process.poll() is None and time.monotonic() < deadline:
        if events.exists() and '"start"' in read_from(events, started):
            break
        time.sleep(0.005)
    instant = time.monotonic() + chance.uniform(0, training.options.span)
    seen = before
    while process.poll() is None and time.monotonic() < min(instant, deadline):
        seen = max(seen, training.newest(run))
        time.sleep(0.002)
    if process.poll() is not None:
        return finish(training, run, process, figures)
    partial = any((training.folder / run / "checkpoints").glob(".step-*.partial"))
    whole = chance.random() < 0.5
    victims = workers_of(training)
    if whole or not victims:
        training.kill_all()
    else:
        kill(chance.choice(victims))
        try:
            process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            figures.faults.append(f"kill {figures.kills}: the run hangs after the end of a worker")
        training.kill_all()
    process.wait()
    figures.kills += 1
    figures.of_all += whole
    figures.during_save += partial
    after = training.newest(run)
    if after < seen:
        figures.faults.append(f"kill {figures.kills}: the newest complete step was {seen}, "
                              f"now it is {after}")
    figures.steps.append(after - before)
    return False


def read_from(path, offset):
    with open(path, encoding="utf-8", errors="replace") as file:
        file.seek(offset)
        return file.read()


def finish(training, run, process, figures):
    if process.returncode != 0:
        figures.faults.append(f"{run}: exited with {process.returncode} without a kill")
        figures.faults.append(training.log.read_text(errors="replace")[-2000:])
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lockstep", default="build/bin/lockstep",
                        help="launcher [build/bin/lockstep]")
    parser.add_argument("--program", default="build/bin/mnist",
                        help="training program [build/bin/mnist]")
    parser.add_argument("--arguments", default="--generated-digits --net mlp --epochs 1",
                        help="arguments of the program [--generated-digits --net mlp --epochs 1]")
    parser.add_argument("--workers", type=int, default=2, help="number of workers [2]")
    parser.add_argument("--every", type=int, default=2, help="steps between checkpoints [2]")
    parser.add_argument("--kills", type=int, default=500, help="number of kills [500]")
    parser.add_argument("--span", type=float, default=1.0,
                        help="maximum time from the start of training to a kill, in seconds [1]")
    parser.add_argument("--seed", type=int, default=1, help="random seed [1]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    figures = Figures()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crash-bench-") as folder:
        training = Training(options, folder)
        if training.start("whole").wait(MOST_SECONDS) != 0:
            sys.exit(training.log.read_text(errors="replace"))
        expected = training.outcome("whole")
        number = 0
        while figures.kills < options.kills or figures.ends == 0:
            run = f"run-{number}"
            if figures.kills < options.kills:
                ended = crash_once(training, run, chance, figures)
            else:
                process = training.start(run)
                process.wait(MOST_SECONDS)
                ended = finish(training, run, process, figures)
            if not ended:
                continue
            log = training.log.read_text(errors="replace")
            resumed = len(re.findall(r"resumed at step", log))
            figures.restarts += resumed
            if "skipping a damaged checkpoint" in log:
                figures.faults.append(f"{run}: a complete checkpoint was damaged")
            if not figures.faults and training.outcome(run) != expected:
                figures.faults.append(f"{run}: weights or loss differ from the uninterrupted run")
            figures.ends += 1
            number += 1
            if figures.faults:
                break
    row = {"kills": figures.kills, "of all processes": figures.of_all,
           "while a save was under way": figures.during_save, "resumed": figures.restarts,
           "trainings that ended": figures.ends, "test loss": expected[1],
           "steps between kills (median)": statistics.median(figures.steps or [0]),
           "faults": len(figures.faults), "seconds": round(time.monotonic() - begun, 1)}
    print(json.dumps(row) if options.json else
          "\n".join(f"{name:<30} {value}" for name, value in row.items()))
    for fault in figures.faults:
        print("FAULT", fault)
    sys.exit(1 if figures.faults else 0)


if __name__ == "__main__":
    main()
