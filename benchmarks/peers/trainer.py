# SPDX-License-Identifier: Apache-2.0
"""The training loop and the measurements that the peers of gpt2 and resnet50 share."""
import contextlib
import math
import resource
import statistics
import time

import torch

BLOCKS = 3
PART_STEPS = 3


class Trainer:
    """A subclass sets self.optimizer and defines loss_of_next_batch()."""

    def __init__(self, options):
        self.device = options.device
        self.mode = options.mode if hasattr(torch, "compile") else "eager"
        self.is_bf16 = options.precision == "bf16"
        self.losses = []
        self.step = 0

    def compiled(self, net):
        if self.mode == "compile-graph":
            return torch.compile(net, mode="reduce-overhead")  # with CUDA graphs
        return torch.compile(net) if self.mode == "compile" else net

    def precision(self):
        return (torch.autocast(self.device, dtype=torch.bfloat16) if self.is_bf16
                else contextlib.nullcontext())

    def next_of(self, batches):
        batch = batches[self.step % len(batches)]
        self.step += 1
        return batch

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def run(self, steps):
        for _ in range(steps):
            loss = self.loss_of_next_batch()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.losses.append(loss.detach().clone())  # CUDA graphs overwrite their outputs

    def run_by_parts(self):
        """Returns the milliseconds of forward, backward and update of another step."""
        marks = []

        def mark():
            self.wait()
            marks.append(time.perf_counter())

        mark()
        loss = self.loss_of_next_batch()
        mark()
        loss.backward()
        mark()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        mark()
        return [1e3 * (after - before) for before, after in zip(marks, marks[1:])]

    def timed(self, steps):
        self.wait()
        begin = time.perf_counter()
        self.run(steps)
        self.wait()
        return time.perf_counter() - begin

    def peak_bytes(self):
        if self.device == "cuda":
            return torch.cuda.max_memory_allocated()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def add_arguments(parser):
    for name in ("batch", "steps", "warmup"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--mode", choices=["compile", "compile-graph", "eager"], default="compile")
    parser.add_argument("--weights", help="dictionary of tensors, written by torch.save [random]")


def measure(training, options):
    """Returns the figures of both peers. Times exclude the warm-up; the losses include it."""
    first = training.timed(1) if options.warmup > 0 else 0
    training.timed(max(0, options.warmup - 1))
    seconds = statistics.median(training.timed(options.steps) for _ in range(BLOCKS))
    seconds /= options.steps
    peak = training.peak_bytes()
    losses = torch.stack(training.losses).float().tolist()
    forward, backward, update = (statistics.median(part) for part in
                                 zip(*(training.run_by_parts() for _ in range(PART_STEPS))))
    return {"torch": torch.__version__, "mode": training.mode, "ms_per_step": 1e3 * seconds,
            "forward_ms": forward, "backward_ms": backward, "update_ms": update,
            "first_step_seconds": first, "peak_bytes": peak,
            "losses": [loss if math.isfinite(loss) else None for loss in losses]}
