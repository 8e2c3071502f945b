#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast the launcher starts workers, detects failures and stops workers.

  start   time from exec of the launcher to exec of the last of 8 workers, also for torchrun
  many    1,000 `sleep` workers: time until the last one runs, and from SIGTERM to no process left
  death   SIGKILL to a random worker, on one or several (--nodes) nodes on this machine: time until
          the launcher reports it, and until the last worker has stopped

All times are measured from outside the launcher: by a clock in the first instructions of a worker,
by the output of the launcher in a pipe, and by process descriptors (pidfd). They include the delay
of this program. Not part of the tests.
"""
import argparse
import json
import os
import platform
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from processes import census, children, percentile, read_bytes, wait_until
from torch_python import find_python

# Reads the clock before anything else. It is linked statically, so that loading takes no time.
STAMP = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char** argv) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[64];
  int size = snprintf(line, sizeof line, "%lld\\n", now.tv_sec * 1000000000LL + now.tv_nsec);
  FILE* file = fopen(argv[argc - 1], "a");
  if (file == NULL || fwrite(line, 1, size, file) != (size_t)size) return 1;
  return fclose(file);
}
"""
SLEEPER = """#!/bin/sh
file="$LAUNCH_BENCH/$TORCHELASTIC_RESTART_COUNT-$RANK"
echo $$ > "$file.new"
mv "$file.new" "$file"
exec sleep 1000
"""
MOST_SECONDS = 60


def show(name, seconds):
    ms = [1e3 * value for value in seconds]
    print(f"{name:<44} {len(ms):>5} {min(ms):>8.2f} {statistics.median(ms):>8.2f} "
          f"{percentile(ms, 0.99):>8.2f} {max(ms):>8.2f}", flush=True)
    return {"what": name, "seconds": seconds}


def show_head():
    print(f"{'milliseconds':<44} {'runs':>5} {'min':>8} {'median':>8} {'p99':>8} {'max':>8}")


class Folder:
    """A temporary directory, and an environment variable that marks the processes of a run."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="launch-bench-")
        self.mark = f"LAUNCH_BENCH={self.path}"
        self.environment = {**os.environ, "LAUNCH_BENCH": self.path, "OMP_NUM_THREADS": "1",
                            "LOCKSTEP_MEETING_DIR": self.path}
        return self

    def __exit__(self, *_):
        for pid in census(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name, text="", mode=0o600):
        path = os.path.join(self.path, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path


# ---- start ----

def exec_of_last(command, folder, workers):
    """Returns the seconds from just before the start of the launcher to that of its last worker."""
    stamps = folder.file("stamps")
    start = time.monotonic_ns()
    subprocess.run(command + [stamps], env=folder.environment, check=True, cwd=folder.path,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(stamps, encoding="utf-8") as file:
        times = [int(line) for line in file]
    if len(times) != workers:
        sys.exit(f"launch_bench: only {len(times)} of {workers} workers started: "
                 f"{' '.join(command)}")
    return 1e-9 * (max(times) - start)


def start(options):
    workers = options.workers or 8
    with Folder() as folder:
        source = folder.file("stamp.c", STAMP)
        program = os.path.join(folder.path, "stamp")
        subprocess.run(["cc", "-O2", "-static", "-o", program, source], check=True)
        launcher = [options.lockstep, "run", "--nproc-per-node", str(workers), program]
        # Debian's torchrun 1.13 cannot parse its own defaults of -r and -t. These are equivalent.
        torchrun = [*options.torchrun.split(), "-r", "9:1", "-t", "9:1", "--standalone",
                    "--nproc_per_node", str(workers), "--no_python", program]
        ours, theirs = [], []
        for number in range(options.repeat):
            ours.append(exec_of_last(launcher, folder, workers))
            if options.torchrun and number % 10 == 0:
                theirs.append(exec_of_last(torchrun, folder, workers))
        show_head()
        figures = [show(f"lockstep run, exec of the last of {workers}", ours)]
        if theirs:
            figures.append(show(f"torchrun, exec of the last of {workers}", theirs))
    return figures


# ---- many ----

def many(options):
    workers = options.workers or 1000
    starts, stops = [], []
    for _ in range(options.repeat):
        with Folder() as folder:
            command = [options.lockstep, "run", "--nproc-per-node", str(workers), "--run-dir",
                       os.path.join(folder.path, "run"), "sleep", "1000"]
            begin = time.monotonic()
            launcher = subprocess.Popen(command, env=folder.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            agent = wait_until(lambda: children(launcher.pid), MOST_SECONDS)[0]
            wait_until(lambda: are_all_asleep(agent, workers), MOST_SECONDS, 0.02)
            starts.append(time.monotonic() - begin)
            time.sleep(0.5)
            begin = time.monotonic()
            launcher.terminate()
            errors = launcher.communicate(timeout=MOST_SECONDS)[1].decode()
            stops.append(time.monotonic() - begin)
            if launcher.returncode != 143 or census(folder.mark):
                sys.exit(f"launch_bench: exit code {launcher.returncode}, "
                         f"{len(census(folder.mark))} processes left: {errors}")
    show_head()
    return [show(f"{workers} sleep workers: command to all running", starts),
            show(f"{workers} sleep workers: SIGTERM to no process left", stops)]


def are_all_asleep(agent, workers):
    """Checks the last worker first, because checking all takes CPU time from the launcher."""
    pids = children(agent)
    return len(pids) == workers and all(
        read_bytes(f"/proc/{pid}/comm") == b"sleep\n" for pid in reversed(pids))


# ---- death ----

class Watch:
    """Waits for output of the launcher and ends of workers at the same time."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.rest = b""
        os.set_blocking(pipe.fileno(), False)

    def follow(self, victim, others, word):
        """A generator. Its first yield means that everything is registered, and the caller kills the
        victim. The second yields the times of the end of the victim, of the line with `word`, and of
        the end of the last worker."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        open_fds = {}
        for pid in [victim, *others]:
            fd = os.pidfd_open(pid)
            open_fds[fd] = pid
            poll.register(fd, select.POLLIN)
        yield
        end_of_victim = line = last = None
        while line is None or open_fds:
            events = poll.poll(MOST_SECONDS * 1000)
            now = time.monotonic()
            if not events:
                sys.exit(f"launch_bench: timed out after {MOST_SECONDS} s: {self.rest}")
            for fd, _ in events:
                if fd in open_fds:
                    end_of_victim = now if open_fds[fd] == victim else end_of_victim
                    last = now
                    poll.unregister(fd)
                    os.close(fd)
                    del open_fds[fd]
                elif line is None and self.has(word):
                    line = now
        yield end_of_victim, line, last

    def has(self, word):
        self.rest += self.pipe.read() or b""
        *whole, self.rest = self.rest.split(b"\n")
        return any(word in one for one in whole)


def ready_pids(folder, attempt, workers):
    pids = []
    for rank in range(workers):
        text = read_bytes(os.path.join(folder.path, f"{attempt}-{rank}"))
        if not text:
            return None
        pids.append(int(text))
    return pids


def death(options):
    nodes, workers = options.nodes, options.workers or 4
    ended, known, stopped = [], [], []
    with Folder() as folder:
        program = folder.file("sleeper.sh", SLEEPER, 0o700)
        launchers = []
        for node in range(nodes):
            command = [options.lockstep, "run", "--run-dir", os.path.join(folder.path, "run"),
                       "--max-restarts", str(options.repeat), "--nproc-per-node", str(workers)]
            if nodes > 1:
                command += ["--nnodes", str(nodes), "--node-rank", str(node), "--master-addr",
                            "127.0.0.1", "--master-port", str(20000 + os.getpid() % 10000)]
            launchers.append(subprocess.Popen(
                [*command, program], env=folder.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if node == 0 else None))
        lines = Watch(launchers[0].stderr)
        for attempt in range(options.repeat):
            pids = wait_until(lambda: ready_pids(folder, attempt, nodes * workers), MOST_SECONDS)
            if not pids:
                sys.exit(f"launch_bench: attempt {attempt} did not start: {lines.rest}")
            time.sleep(random.uniform(0.005, 0.03))
            random.shuffle(pids)
            watch = lines.follow(pids[0], pids[1:], b"SIGKILL; stopping")
            next(watch)
            begin = time.monotonic()
            os.kill(pids[0], signal.SIGKILL)
            for times, time_of in zip((ended, known, stopped), next(watch)):
                times.append(time_of - begin)
        for launcher in launchers:
            launcher.terminate()
        for launcher in launchers:
            launcher.wait(MOST_SECONDS)
    show_head()
    where = f"{nodes} x {workers} workers" if nodes > 1 else f"{workers} workers"
    return [show(f"{where}: SIGKILL to victim ended", ended),
            show(f"{where}: SIGKILL to report", known),
            show(f"{where}: SIGKILL to all stopped", stopped)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "many", "death"], help="measurement, see above")
    parser.add_argument("--lockstep", default="build/bin/lockstep",
                        help="launcher [build/bin/lockstep]")
    parser.add_argument("--torchrun",
                        help="torchrun command; empty: skip torchrun [that of the interpreter "
                             "with torch, see tools/find_python.sh]")
    parser.add_argument("--repeat", type=int, default=20, help="number of measurements [20]")
    parser.add_argument("--nodes", type=int, default=1, help="number of nodes, for death [1]")
    parser.add_argument("--workers", type=int, default=0,
                        help="workers per node [start: 8, many: 1000, death: 4]")
    parser.add_argument("--json", help="file for all measurements")
    options = parser.parse_args()
    options.lockstep = os.path.abspath(options.lockstep)
    if options.torchrun is None and options.what == "start":
        options.torchrun = f"{find_python()} -m torch.distributed.run"
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    figures = {"start": start, "many": many, "death": death}[options.what](options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
