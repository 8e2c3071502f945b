#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A launcher-independent distributed program: initializes, adds all ranks, exits.

Its only argument is a directory. It writes its start time and the time of the sum there, for
benchmarks/network_bench.py.
"""
import os
import sys
import time


def note(what):
    with open(os.path.join(sys.argv[1], f"{what}.{os.environ['RANK']}"), "w", encoding="utf-8") as file:
        file.write(f"{time.time()}\n")


note("started")

import torch  # noqa: E402  takes a second, which must not count as launch time
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
expected = dist.get_world_size() * (dist.get_world_size() - 1) / 2
if total.item() != expected:
    sys.exit(f"the sum of the ranks is {total.item()}, expected {expected}")
note("summed")
dist.destroy_process_group()
