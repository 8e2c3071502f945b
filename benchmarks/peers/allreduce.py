#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of `lockstep-bench allreduce`, with torch.distributed.

Uses NCCL if every worker has its own GPU, else Gloo. Rank 0 writes the figures as JSON.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist


def choose_device(wanted):
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def seconds_of_call(tensor):
    begin = time.perf_counter()
    dist.all_reduce(tensor)
    if tensor.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def measure(kilobytes, seconds, device):
    tensor = torch.zeros(kilobytes * 256, device=device)
    first = statistics.median(seconds_of_call(tensor) for _ in range(4))
    # Rank 0 decides, because all workers must make the same number of calls.
    calls = torch.tensor([min(max(seconds / first, 5), 20000)], device=device)
    dist.broadcast(calls, 0)
    return statistics.median(seconds_of_call(tensor) for _ in range(int(calls.item())))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", required=True, help="message sizes in KiB, separated by commas")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds per size [0.5]")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                        help="device of the tensors [auto]")
    parser.add_argument("--json", required=True, help="output file")
    options = parser.parse_args()

    device = choose_device(options.device)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    has_own_gpu = device.type == "cuda" and torch.cuda.device_count() >= local
    backend = "nccl" if has_own_gpu else "gloo"
    dist.init_process_group(backend)
    sizes = [int(size) for size in options.sizes.split(",")]
    figures = {"kind": backend, "workers": dist.get_world_size(),
               "sizes": [{"bytes": size * 1024, "seconds": measure(size, options.seconds, device)}
                         for size in sizes]}
    dist.barrier()
    if dist.get_rank() == 0:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
