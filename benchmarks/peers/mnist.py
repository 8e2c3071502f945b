#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of `lockstep-bench mnist`: the same networks in a plain loop and CUDA graphs.

One call selects each batch from a tensor on the device. This is the fastest method in Python; a
DataLoader over single samples is several times slower. Prints one JSON line.

With --until, trains on MNIST until the given test accuracy is reached.
"""
import argparse
import json
import os
import statistics
import time

import numpy
import torch
import torch.nn.functional as F

from digit_nets import NETS

DIGITS = 4096


class Training:
    def __init__(self, options, compiles=False):
        self.device = options.device
        self.batch = options.batch
        torch.manual_seed(1)
        self.images = torch.rand(DIGITS, 1, 28, 28, device=self.device)
        self.labels = torch.randint(10, (DIGITS,), device=self.device)
        self.net = NETS[options.net]().to(self.device).train()
        if compiles:
            self.net = torch.compile(self.net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def next_batch(self):
        chosen = torch.randint(DIGITS, (self.batch,), device=self.device)
        return self.images[chosen], self.labels[chosen]

    def train(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(self.net(images), labels).backward()
        self.optimizer.step()

    def step(self):
        self.train(*self.next_batch())

    def step_in_graph(self):
        for static, part in zip(self.static, self.next_batch()):
            static.copy_(part)
        self.graph.replay()

    def capture(self):
        self.static = [part.clone() for part in self.next_batch()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train(*self.static)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            F.cross_entropy(self.net(self.static[0]), self.static[1]).backward()
            self.optimizer.step()


def microseconds_per_step(training, step, options):
    """The median over rounds."""
    rounds = []
    for _ in range(options.rounds):
        for _ in range(options.warmup):
            step()
        training.wait()
        begin = time.perf_counter()
        for _ in range(options.steps):
            step()
        training.wait()
        rounds.append(1e6 * (time.perf_counter() - begin) / options.steps)
    return statistics.median(rounds)


def read_digits(folder, part, device):
    """Loads the whole data set onto the device, which is fastest for its size."""
    def read(kind, header):
        path = os.path.join(folder, f"{part}-{kind}-ubyte")
        return numpy.fromfile(path, dtype=numpy.uint8)[header:]

    images = torch.from_numpy(read("images-idx3", 16)).view(-1, 1, 28, 28).to(device)
    labels = torch.from_numpy(read("labels-idx1", 8)).long().to(device)
    return (images.float() / 255 - 0.1307) / 0.3081, labels


@torch.no_grad()
def accuracy_of(net, images, labels):
    net.eval()
    right = sum((net(part).argmax(1) == truth).sum()
                for part, truth in zip(images.split(1000), labels.split(1000)))
    net.train()
    return right.item() / len(labels)


def train_until(options):
    """Same procedure as train_to_accuracy() in src/tools/bench/mnist_accuracy.cpp."""
    torch.manual_seed(1)
    folder = os.path.join(options.data_dir, "mnist")
    images, labels = read_digits(folder, "train", options.device)
    test = read_digits(folder, "t10k", options.device)
    net = NETS[options.net]().to(options.device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    figures = {"steps": 0, "accuracy": 0}
    batch, validate_every = 128, 100
    for _ in range(20):
        order = torch.randperm(len(labels), device=options.device)
        for chosen in order[:len(order) // batch * batch].split(batch):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(net(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            figures["steps"] += 1
            if figures["steps"] == 1:
                if options.device == "cuda":
                    torch.cuda.synchronize()
                figures["first_step_time"] = time.time()
            if figures["steps"] % validate_every == 0:
                figures["accuracy"] = accuracy_of(net, *test)
                if figures["accuracy"] >= options.until / 100:
                    return figures
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--net", choices=sorted(NETS), default="cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--until", type=float, default=0,
                        help="train until this test accuracy, in percent; 0: off [0]")
    parser.add_argument("--data-dir", default="data")
    parser.add_argument("--json", help="output file of --until")
    options = parser.parse_args()
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.until > 0:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(train_until(options), file)
        return

    training = Training(options)
    figures = {"torch": torch.__version__,
               "eager_us": microseconds_per_step(training, training.step, options)}
    if options.device == "cuda":
        training = Training(options)
        training.capture()
        figures["graph_us"] = microseconds_per_step(training, training.step_in_graph, options)
        training = Training(options, compiles=True)
        training.capture()
        figures["compiled_us"] = microseconds_per_step(training, training.step_in_graph, options)
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
