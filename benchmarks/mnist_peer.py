#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of examples/mnist: the same networks and data with DistributedDataParallel.

benchmarks/mnist_bench.py starts it with torchrun and compares it with lockstep. Prints one JSON line per
rank.
"""
import argparse
import json
import os
import resource
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
from digit_nets import NETS  # noqa: E402


class Images(Dataset):
    """Bytes in memory, converted to floats on access, like MNIST of torchvision (but without the
    conversion to PIL images)."""

    def __init__(self, images, labels):
        self.images = torch.from_numpy(images.copy())
        self.labels = torch.from_numpy(labels.astype(numpy.int64))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return (self.images[index].float() / 255 - 0.1307) / 0.3081, self.labels[index]


def read_idx(path, header):
    with open(path, "rb") as file:
        return numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=header)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--net", default="cnn", help="network: cnn, classic or mlp [cnn]")
    parser.add_argument("--data-dir", default="data", help="directory with mnist/ [data]")
    parser.add_argument("--steps", type=int, default=100, help="number of steps [100]")
    parser.add_argument("--warmup", type=int, default=20, help="steps excluded from the rate [20]")
    parser.add_argument("--batch-size", type=int, default=64, help="samples per worker [64]")
    parser.add_argument("--ready", action="store_true", help="preload all images as floats")
    parser.add_argument("--no-onednn", action="store_true",
                        help="disable oneDNN, which an unmodified installation uses")
    options = parser.parse_args()
    if options.no_onednn:
        torch._C._set_mkldnn_enabled(False)

    dist.init_process_group("gloo")
    folder = os.path.join(options.data_dir, "mnist")
    images = read_idx(os.path.join(folder, "train-images-idx3-ubyte"), 16).reshape(-1, 1, 28, 28)
    labels = read_idx(os.path.join(folder, "train-labels-idx1-ubyte"), 8)
    if options.ready:
        ready = (torch.from_numpy(images.astype(numpy.float32)) / 255 - 0.1307) / 0.3081
        data = TensorDataset(ready, torch.from_numpy(labels.astype(numpy.int64)))
    else:
        data = Images(images, labels)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler, drop_last=True)

    torch.manual_seed(1)
    net = DistributedDataParallel(NETS[options.net]())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    step = 0
    epoch = 0
    first = begin = end = 0.0
    while step < options.steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
            step += 1
            if step == 1:
                first = time.time()
            if step == options.warmup:
                begin = time.time()
            if step == options.steps:
                end = time.time()
                break
    workers = dist.get_world_size()
    samples = (options.steps - options.warmup) * options.batch_size * workers
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"first": first, "rate": samples / (end - begin) if end > begin else 0,
                      "peak": peak}), flush=True)


if __name__ == "__main__":
    main()
