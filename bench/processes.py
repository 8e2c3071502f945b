# SPDX-License-Identifier: Apache-2.0
"""What the launcher's benchmarks know of processes: a census by a mark in the environment."""
import os
import time


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has ended meanwhile
        return b""


def census(mark):
    """Processes, zombies aside, that carry NAME=VALUE in the environment they were started with."""
    wanted = mark.encode()
    return [int(name) for name in os.listdir("/proc")
            if name.isdigit() and wanted in read_bytes(f"/proc/{name}/environ").split(b"\0")]


def children(pid):
    return [int(word) for word in read_bytes(f"/proc/{pid}/task/{pid}/children").split()]


def wait_until(condition, seconds, pause=0.002):
    """The condition's value as soon as it is true; its last one when the time is over."""
    until = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < until:
        time.sleep(pause)
    return value


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
