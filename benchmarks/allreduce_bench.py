#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares all-reduce over shared memory, Gloo and Open MPI between workers of this machine.

Each round starts every transport once, so that a temporary load affects all of them. The table has
the median over the rounds of the medians that the program prints, and the time of a memcpy of the
same size in one process. Not part of the tests.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys

TRANSPORTS = ["shared-memory", "gloo", "mpi"]


def command_for(transport, workers, build, more):
    program = [f"{build}/bench/allreduce_bench", *more]
    if transport == "memcpy":
        return program
    if transport == "mpi":
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(workers), *program]
    return [f"{build}/bin/lockstep", "run", "--nproc-per-node", str(workers), "--", *program,
            "--transport", transport]


def measure(transport, workers, build, more):
    """Returns {bytes: microseconds}. Exits if a run fails."""
    command = command_for(transport, workers, build, more)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    if done.returncode != 0:
        sys.exit(f"allreduce_bench: {' '.join(command)} exited with {done.returncode}:\n"
                 f"{done.stdout}{done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 4 and words[-4] == transport:  # the launcher adds the rank as a prefix
            found[int(words[-2])] = float(words[-1])
    if not found:
        sys.exit(f"allreduce_bench: {' '.join(command)} printed no figures:\n{done.stdout}")
    return found


def size_text(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def table_of(workers, times, transports):
    """Microseconds of all transports; for shared memory also GB/s, the fraction of memcpy and the
    speed-up over the fastest other transport."""
    head = ["size", *transports, "memcpy", "shared memory, GB/s", "fraction of memcpy",
            "speed-up over the faster of gloo and mpi"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for size, copy in sorted(times["memcpy", 1].items()):
        medians = {name: statistics.median(times[name, workers][size]) for name in transports}
        copied = statistics.median(copy)
        ours = medians["shared-memory"]
        others = [value for name, value in medians.items() if name != "shared-memory"]
        row = [size_text(size), *(f"{medians[name]:,.1f}" for name in transports), f"{copied:,.1f}",
               f"{size / ours / 1e3:.2f}", f"{100 * copied / ours:.0f} %",
               f"{min(others) / ours:.1f}x" if others else ""]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build", help="build directory [build]")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4],
                        help="numbers of workers [2 4]")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds [5]")
    parser.add_argument("--quick", action="store_true",
                        help="run one short round with messages up to 4 MB")
    parser.add_argument("--json", help="file for all measurements")
    options = parser.parse_args()
    more = ["--seconds", "0.5"]
    if options.quick:
        options.rounds = 1
        more = ["--seconds", "0.05", "--most-bytes", str(4 << 20)]
    transports = [name for name in TRANSPORTS if name != "mpi" or shutil.which("mpirun")]
    cases = [("memcpy", 1), *((name, count) for count in options.workers for name in transports)]
    times = {case: {} for case in cases}
    load = os.getloadavg()[0]
    for _ in range(options.rounds):
        for case in cases:
            for size, value in measure(*case, options.build, more).items():
                times[case].setdefault(size, []).append(value)
    print(f"{os.cpu_count()} cores, {platform.machine()}, load {load:.1f} before and "
          f"{os.getloadavg()[0]:.1f} after, medians of {options.rounds} rounds in microseconds")
    for workers in options.workers:
        print(f"\n{workers} workers\n\n{table_of(workers, times, transports)}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{"transport": name, "workers": count, "bytes": size, "microseconds": values}
                       for (name, count), sizes in times.items()
                       for size, values in sizes.items()], file, indent=1)


if __name__ == "__main__":
    main()
