# SPDX-License-Identifier: Apache-2.0
"""Functions for the launcher benchmarks: find processes by a variable in their environment."""
import os
import time


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has ended
        return b""


def census(mark):
    """Returns all processes, except zombies, whose initial environment contains NAME=VALUE."""
    wanted = mark.encode()
    return [int(name) for name in os.listdir("/proc")
            if name.isdigit() and wanted in read_bytes(f"/proc/{name}/environ").split(b"\0")]


def children(pid):
    return [int(word) for word in read_bytes(f"/proc/{pid}/task/{pid}/children").split()]


def wait_until(condition, seconds, pause=0.002):
    """Returns the value of the condition when it is true, or its last value after the timeout."""
    until = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < until:
        time.sleep(pause)
    return value


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
