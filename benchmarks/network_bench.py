#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the start of lockstep and torchrun on nodes whose first network is blocked.

Nodes are namespaces of this machine (benchmarks/node_lab.sh, as root). Host names resolve to mgmt0, on
which traffic between nodes is dropped; fab0 works. The launcher is started on every node at the
same time, with default settings. The program is always benchmarks/network_worker.py. Prints a table;
--json FILE writes all measurements. Not part of the tests.
"""
import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time

from torch_python import find_python

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(HERE, "node_lab.sh")
PORT = 29501


def torchrun(options, node, endpoint):
    # Debian's torchrun 1.13 cannot parse its own defaults of -r and -t. These are equivalent.
    return [options.python, "-m", "torch.distributed.run", "-r", "9:1", "-t", "9:1",
            "--nnodes", str(options.nodes), "--node_rank", str(node), "--nproc_per_node", "1",
            "--rdzv_backend", "c10d", "--rdzv_id", "bench", "--rdzv_endpoint", endpoint]


def torchrun_static(options, node, endpoint):
    host, port = endpoint.rsplit(":", 1)
    return [options.python, "-m", "torch.distributed.run", "-r", "9:1", "-t", "9:1",
            "--nnodes", str(options.nodes), "--node_rank", str(node), "--nproc_per_node", "1",
            "--master_addr", host, "--master_port", port]


def lockstep(options, node, endpoint):
    return [options.lockstep, "run", "--nnodes", str(options.nodes), "--node-rank", str(node),
            "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "bench",
            "--rdzv-endpoint", endpoint]


# Title, command, and host of the rendezvous endpoint of each case. The "-fab" cases use the name of
# the working network, as a user would who knows that the first network is blocked.
CASES = {
    "lockstep": ("lockstep run --rdzv-endpoint n0", lockstep, "n0"),
    "lockstep-fab": ("lockstep run --rdzv-endpoint n0-fab", lockstep, "n0-fab"),
    "torchrun": ("torchrun --rdzv-endpoint n0", torchrun, "n0"),
    "torchrun-fab": ("torchrun --rdzv-endpoint n0-fab", torchrun, "n0-fab"),
    "torchrun-static": ("torchrun --master-addr n0", torchrun_static, "n0"),
    "torchrun-static-fab": ("torchrun --master-addr n0-fab", torchrun_static, "n0-fab"),
}


def last_of(folder, what, nodes):
    """Returns the time of the last worker, or None if a worker has not written its time."""
    times = []
    for rank in range(nodes):
        path = os.path.join(folder, f"{what}.{rank}")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            times.append(float(file.read() or 0))
    return max(times)


def start_all(command_of, options, endpoint, folder):
    processes = []
    for node in range(options.nodes):
        command = command_of(options, node, f"{endpoint}:{PORT}")
        command += [os.path.join(HERE, "network_worker.py"), folder]
        with open(os.path.join(folder, f"log.{node}"), "w", encoding="utf-8") as log:
            processes.append(subprocess.Popen(
                [LAB, "on", f"n{node}", "timeout", "-s", "KILL", str(options.limit), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                cwd=options.directory, env=clean_environment()))
    return processes


def clean_environment():
    names = ("PATH", "HOME", "USER", "LANG", "LAB_DIR", "LAB_NODES", "LAB_MODE", "PYTHONPATH")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1"}


def reason_in(folder, nodes):
    """Returns the last error line of the first log with an error, of torchrun or lockstep."""
    for node in reversed(range(nodes)):
        with open(os.path.join(folder, f"log.{node}"), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file
                     if re.search(r"\w*(Error|Exception)\b: |lockstep: error: ", line)]
        if lines:
            return re.sub(r"^.*?((\w+\.)*\w*(Error|Exception): |lockstep: error: )", r"\1", lines[-1])
    return ""


def measure(options):
    """Runs one case inside the lab and prints JSON."""
    _, command_of, endpoint = CASES[options.inside]
    folder = tempfile.mkdtemp(prefix="run.", dir=options.directory)
    start = time.time()
    processes = start_all(command_of, options, endpoint, folder)
    codes = [process.wait() for process in processes]
    end = time.time()
    marks = {what: last_of(folder, what, options.nodes) for what in ("started", "summed")}
    json.dump({"case": options.inside,
               "started": marks["started"] and marks["started"] - start,
               "summed": marks["summed"] and marks["summed"] - start,
               "ended": end - start, "codes": codes, "reason": reason_in(folder, options.nodes),
               "folder": folder}, sys.stdout)


def in_lab(options, mode, case):
    result = subprocess.run(
        [LAB, "run", "-n", str(options.nodes), "-m", mode, sys.executable, os.path.abspath(__file__),
         "--inside", case, "--directory", options.directory, "--nodes", str(options.nodes),
         "--limit", str(options.limit), "--python", options.python, "--lockstep", options.lockstep],
        stdout=subprocess.PIPE, text=True, check=True)
    return {"network": mode, **json.loads(result.stdout)}


def verdict(row, limit):
    codes = row["codes"]
    hanging = sum(code in (137, -9) for code in codes)
    failed = sum(code != 0 for code in codes) - hanging
    parts = []
    if hanging:
        parts.append(f"{hanging} of {len(codes)} nodes still hang after {limit} s")
    if failed:
        # Remove the module name of the exception.
        reason = re.sub(r"^(\w+\.)+", "", row["reason"])
        when = "" if hanging else f" after {row['ended']:.0f} s"
        parts.append(f"{failed} of {len(codes)} nodes fail{when}: "
                     f"{reason[:70] or 'no error message'}")
    return "; ".join(parts) or "works"


def seconds(value):
    return "-" if value is None else f"{value:.2f} s"


def show(row, limit):
    print(f"{row['network']:14} {CASES[row['case']][0]:38} {seconds(row['started']):>12} "
          f"{seconds(row['summed']):>12}  {verdict(row, limit)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lockstep", default="build/bin/lockstep", metavar="FILE",
                        help="launcher [build/bin/lockstep]")
    parser.add_argument("--python", metavar="FILE",
                        help="Python interpreter with torch [see tools/find_python.sh]")
    parser.add_argument("--nodes", type=int, default=4, metavar="COUNT", help="number of nodes [4]")
    parser.add_argument("--limit", type=int, default=120, metavar="SECONDS",
                        help="maximum time of a case [120]")
    parser.add_argument("--modes", default="open,drop", metavar="LIST",
                        help="states of the first network: open, drop, reject [open,drop]")
    parser.add_argument("--cases", default=",".join(CASES), metavar="LIST",
                        help=f"cases to run [all: {', '.join(CASES)}]")
    parser.add_argument("--json", metavar="FILE", help="file for all measurements")
    parser.add_argument("--directory", metavar="DIR",
                        help="directory for logs, visible to all nodes [a new one in /var/tmp]")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return measure(options)

    options.python = options.python or find_python()
    options.lockstep = os.path.abspath(options.lockstep)
    options.directory = os.path.abspath(
        options.directory or tempfile.mkdtemp(prefix="network-bench.", dir="/var/tmp"))
    os.makedirs(options.directory, exist_ok=True)
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"],
                            stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    print(f"commit {commit or 'unknown'}, {os.cpu_count()} cores, {platform.machine()}, load "
          f"{os.getloadavg()[0]:.1f}; {options.nodes} nodes, one worker each; logs in "
          f"{options.directory}")
    print(f"{'first network':14} {'command':38} {'last worker':>12} {'sum computed':>12}  result")
    rows = []
    for mode in options.modes.split(","):
        for case in options.cases.split(","):
            rows.append(in_lab(options, mode, case))
            show(rows[-1], options.limit)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
