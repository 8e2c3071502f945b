#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a random worker, agent or launcher of a run with SIGKILL, repeatedly.

After every kill, no process of the run must be left, and the exit codes and the reported cause must
be correct. Runs are on this machine: one launcher with four workers, or several launchers that act
as nodes with two workers each. Of every four ranks, one is a plain process, one forks, one starts a
process in another session, and one ignores SIGTERM. Prints a table and every error. Exits with 1
if there was an error. Not part of the tests.
"""
import argparse
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from processes import census, children, percentile, wait_until

WORKER = """#!/bin/sh
case $((RANK % 4)) in
  1) sleep 1000 & ;;
  2) setsid sh -c 'sleep 1000 & setsid sleep 1000 &' ;;
  3) trap '' TERM INT ;;
esac
echo $$ > "$KILL_BENCH_READY/$RANK.new"
mv "$KILL_BENCH_READY/$RANK.new" "$KILL_BENCH_READY/$RANK"
exec sleep 1000
"""
TRY_AGAIN = 75
QUIT = 128 + signal.SIGQUIT
MOST_SECONDS = 20
# The caller sees the end of a killed launcher at once. Its processes must end within this time.
ORPHAN_SECONDS = 2.0

Node = collections.namedtuple("Node", "launcher log")


class Run:
    """One run on one or several nodes. A variable in the environment marks all its processes."""

    def __init__(self, options, nodes, number):
        self.folder = tempfile.mkdtemp(prefix="kill-bench-")
        self.ready = os.path.join(self.folder, "ready")
        os.mkdir(self.ready)
        program = os.path.join(self.folder, "worker.sh")
        with open(program, "w", encoding="utf-8") as file:
            file.write(WORKER)
        os.chmod(program, 0o700)
        self.mark = f"KILL_BENCH_MARK={os.path.basename(self.folder)}"
        self.workers = 4 if nodes == 1 else 2 * nodes
        environment = {**os.environ, "KILL_BENCH_READY": self.ready, "TMPDIR": self.folder,
                       "LOCKSTEP_MEETING_DIR": self.folder}
        environment.update([self.mark.split("=")])
        port = 20000 + (os.getpid() * 7 + number) % 10000
        self.nodes = []
        for node in range(nodes):
            command = [options.lockstep, "run", "--grace", "0.2", "--run-dir", self.path("run"),
                       "--nproc-per-node", str(self.workers // nodes)]
            if nodes > 1:
                command += ["--nnodes", str(nodes), "--node-rank", str(node), "--master-addr",
                            "127.0.0.1", "--master-port", str(port)]
            log = open(self.path(f"node-{node}.txt"), "wb")
            self.nodes.append(Node(subprocess.Popen(command + [program], env=environment,
                                                    stdin=subprocess.DEVNULL, stdout=log,
                                                    stderr=subprocess.STDOUT), log.name))
            log.close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def worker_pids(self):
        """Process ids of started workers by rank. Workers write them to files, because orphans of
        workers look like workers."""
        pids = {}
        for name in os.listdir(self.ready):
            if name.isdigit():
                with open(os.path.join(self.ready, name), encoding="utf-8") as file:
                    pids[int(name)] = int(file.read())
        return pids

    def is_ready(self):
        return len(self.worker_pids()) == self.workers

    def text(self, node):
        with open(self.nodes[node].log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def failure(self):
        try:
            with open(self.path("run/failure.json"), encoding="utf-8") as file:
                return json.load(file)
        except OSError:
            return None

    def processes_of(self, node):
        """Returns the process of the launcher, the agents, and the workers by rank."""
        launcher = self.nodes[node].launcher.pid
        agents = children(launcher)
        here = self.workers // len(self.nodes)
        return launcher, agents, {rank: pid for rank, pid in self.worker_pids().items()
                                  if rank // here == node}

    def end(self):
        for pid in census(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for node in self.nodes:
            node.launcher.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def expected_codes(nodes, kind, victim):
    """Returns the expected exit code per node. Popen reports a signal as a negative number."""
    if kind == "worker":
        return [128 + signal.SIGKILL] * nodes
    others = QUIT if kind == "launcher" and victim == 0 else TRY_AGAIN
    codes = [others] * nodes
    codes[victim] = -signal.SIGKILL if kind == "launcher" else 128 + signal.SIGKILL
    return codes


def cause_fault(run, kind, node, rank):
    failure = run.failure()
    if kind == "worker":
        if failure is None or failure["signal"] != "SIGKILL" or failure["rank"] != rank:
            return f"rank {rank} was killed, but failure.json contains {failure}"
        if f"rank {rank}" not in run.text(0) or "SIGKILL" not in run.text(0):
            return f"rank {rank} was killed, but the failure report does not show it"
    elif node > 0:
        if failure is None or not failure["who"].startswith("node ") \
                or not failure["cause"].startswith("is lost"):
            return f"node {node} is lost, but failure.json contains {failure}"
    elif failure is not None:
        return f"the {kind} was killed, but failure.json names {failure['who']}"
    if kind == "agent" and "the agent was killed by SIGKILL" not in run.text(node):
        return "the agent was killed, but its launcher does not report it"
    return None


def choose_victim(run, kind, is_early):
    """Returns kind, node, process id and rank of a victim, or None if there is none."""
    node = random.randrange(len(run.nodes))
    launcher, agents, workers = run.processes_of(node)
    if is_early:
        choices = [("launcher", launcher, None), *[("agent", pid, None) for pid in agents],
                   *[("worker", pid, rank) for rank, pid in workers.items()]]
        kind, pid, rank = random.choice(choices)
    elif kind == "launcher":
        pid, rank = launcher, None
    elif kind == "agent":
        pid, rank = (agents + [None])[0], None
    else:
        rank, pid = random.choice(list(workers.items()) + [(None, None)] * (not workers))
    return None if pid is None else (kind, node, pid, rank)


def kill_one(run, kind, is_early):
    """Returns the kind of the victim, the seconds until all processes ended, and the errors."""
    if is_early:
        time.sleep(random.uniform(0, 0.12))
    elif not wait_until(run.is_ready, MOST_SECONDS):
        return kind, None, ["the workers did not start"]
    else:
        time.sleep(random.uniform(0, 0.05))
    victim = choose_victim(run, kind, is_early)
    if victim is None:
        return kind, None, ["no process to kill was found"]
    kind, node, pid, rank = victim
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    faults = []
    codes = []
    for one in run.nodes:
        try:
            codes.append(one.launcher.wait(MOST_SECONDS))
        except subprocess.TimeoutExpired:
            codes.append(None)
    # A launcher that exits normally must not leave any process, not even for a moment.
    left = census(run.mark)
    if left and kind == "launcher":
        left = not wait_until(lambda: not census(run.mark), ORPHAN_SECONDS) and census(run.mark)
    seconds = time.monotonic() - begin
    if left:
        faults.append(f"processes left: {[read_command(pid) for pid in left]}")
    wanted = expected_codes(len(run.nodes), kind, node)
    if codes != wanted:
        faults.append(f"exit codes {codes} instead of {wanted}")
    fault = cause_fault(run, kind, node, rank)
    return kind, seconds, faults + ([fault] if fault else [])


def read_command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().replace("\0", " ").strip()
    except OSError:
        return f"process {pid}, ended meanwhile"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lockstep", default="build/bin/lockstep",
                        help="launcher [build/bin/lockstep]")
    parser.add_argument("--kills", type=int, default=100, help="number of kills [100]")
    parser.add_argument("--nodes", type=int, default=1, help="number of nodes [1]")
    parser.add_argument("--early", type=float, default=0,
                        help="fraction of kills during start-up, with one node [0]")
    parser.add_argument("--seed", type=int, default=0, help="random seed [0]")
    parser.add_argument("--keep", help="directory for copies of failed runs")
    options = parser.parse_args()
    options.lockstep = os.path.abspath(options.lockstep)
    random.seed(options.seed)
    seconds = collections.defaultdict(list)
    faulty = 0
    for number in range(options.kills):
        kind = ("worker", "agent", "launcher")[number % 3]
        is_early = random.random() < options.early
        run = Run(options, options.nodes, number)
        try:
            killed, took, faults = kill_one(run, kind, is_early)
            if faults:
                faulty += 1
                print(f"kill {number} ({killed}{', early' if is_early else ''}): "
                      + "; ".join(faults), flush=True)
                for node in range(len(run.nodes)):
                    print(f"    node {node}: " + run.text(node).replace("\n", "\n    "))
                if options.keep:
                    shutil.copytree(run.folder, os.path.join(options.keep, str(number)))
            if took is not None:
                seconds[killed + (", early" if is_early else "")].append(took)
        finally:
            run.end()
    print(f"{'killed':<18} {'runs':>5} {'p50':>8} {'p99':>8} {'max':>8}   until no process is left")
    for kind, values in sorted(seconds.items()):
        print(f"{kind:<18} {len(values):>5} {percentile(values, 0.5) * 1e3:>5.0f} ms "
              f"{percentile(values, 0.99) * 1e3:>5.0f} ms {max(values) * 1e3:>5.0f} ms")
    print(f"{options.kills} kills on {options.nodes} node(s), {faulty} with an error")
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    main()
