#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A distributed program that knows nothing of its launcher: joins, adds up its ranks, leaves.

For bench/network_bench.py it notes when it was started and when the sum was there, in the folder
that its only argument names.
"""
import os
import sys
import time


def note(what):
    with open(os.path.join(sys.argv[1], f"{what}.{os.environ['RANK']}"), "w", encoding="utf-8") as file:
        file.write(f"{time.time()}\n")


note("started")

import torch  # noqa: E402  the launcher's work ends before this, which takes a second
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
expected = dist.get_world_size() * (dist.get_world_size() - 1) / 2
if total.item() != expected:
    sys.exit(f"the sum of the ranks is {total.item()}, not {expected}")
note("summed")
dist.destroy_process_group()
