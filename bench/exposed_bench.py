#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exposed communication per step over a slow link; prints a table in Markdown.

Two network namespaces, joined by a veth pair on which tc lets pass so much and no more, are two
nodes with one worker and one core each. As root; nothing of it is left at the end.

    python3 bench/exposed_bench.py --bench build/bench/exposed_bench
"""
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

NAMES = [f"lockstep-exposed-{end}-{os.getpid()}" for end in "ab"]
ADDRESSES = ["10.213.7.1", "10.213.7.2"]


def run(*command):
    subprocess.run(command, check=True)


class Link:
    """Two namespaces and the cable between them."""

    def __init__(self, rate):
        self.rate = rate

    def __enter__(self):
        for name in NAMES:
            run("ip", "netns", "add", name)
        run("ip", "-n", NAMES[0], "link", "add", "cable", "type", "veth",
            "peer", "name", "cable", "netns", NAMES[1])
        for name, address in zip(NAMES, ADDRESSES):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "cable", "up")
            run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "cable", "root", "tbf",
                "rate", self.rate, "burst", "256kb", "latency", "50ms")
        return self

    def __exit__(self, *_):
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def measure(self, megabytes=50):
        """Payload in Mbit/s that one TCP connection gets through."""
        here = os.path.abspath(__file__)
        sink = subprocess.Popen(["ip", "netns", "exec", NAMES[1], sys.executable, here, "--sink"],
                                stdout=subprocess.PIPE)
        sink.stdout.readline()
        seconds = float(subprocess.run(
            ["ip", "netns", "exec", NAMES[0], sys.executable, here, "--source", str(megabytes)],
            check=True, stdout=subprocess.PIPE).stdout)
        sink.wait()
        return megabytes * 8 / seconds


def sink():
    with socket.create_server(("", 7001)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 20):
                pass


def source(megabytes):
    with socket.create_connection((ADDRESSES[1], 7001)) as connection:
        begin = time.monotonic()
        for _ in range(megabytes):
            connection.sendall(bytes(1_000_000))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # until the other side has it all
        print(time.monotonic() - begin)


def measure(options, words, directory):
    """One run of both workers; the figures that rank 0 prints."""
    workers = []
    for rank, name in enumerate(NAMES):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0",
                           LOCAL_WORLD_SIZE="1", GROUP_RANK=str(rank), GROUP_WORLD_SIZE="2",
                           MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29511", OMP_NUM_THREADS="1",
                           LOCKSTEP_INTERFACE="cable")
        # Not real-time priority: with one core a worker's threads would wait for each other's turn.
        priority = ["nice", "-n", "-20"] if options.first else []
        workers.append(subprocess.Popen(
            ["ip", "netns", "exec", name, *priority, "taskset", "-c", str(rank % os.cpu_count()),
             os.path.abspath(options.bench), *words, "--rounds", str(options.rounds),
             "--transport", "gloo", "--run-dir", directory],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = [worker.communicate(timeout=options.timeout) for worker in workers]
    for worker, (_, complaints) in zip(workers, outputs):
        if worker.returncode != 0:
            sys.exit(f"exposed_bench: {' '.join(words)} ended with {worker.returncode}\n{complaints}")
    return json.loads(next(line for line in outputs[0][0].splitlines() if line.startswith("{")))


def zero_rows(directory):
    """The stages, with packets of 2 MB as ddp's buckets here."""
    for stage in range(4):
        # Of the default all parameters stay from forward to backward; two layers are the least ahead.
        for prefetch in ([None, 600_000, 0] if stage == 3 else [None]):
            zero = {"stage": stage, "reduce_bucket_size": 524288}
            if prefetch is not None:
                zero["stage3_prefetch_bucket_size"] = prefetch
            config = os.path.join(directory, f"stage-{stage}-{prefetch}.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"zero_optimization": zero}, file)
            words = ["-s", "deepspeed", "--deepspeed_config", config]
            name = f"deepspeed, stage {stage}" + (
                "" if prefetch is None else f", {prefetch} elements ahead")
            if prefetch is None:
                yield name, "off", "none", [*words, "--no-overlap"]
            yield name, "on", "none", words


def rows(options, directory):
    for strategy in options.strategies.split(","):
        if strategy == "deepspeed":
            yield from zero_rows(directory)
            continue
        words = ["-s", strategy]
        if strategy == "ddp":
            # The default of 25 MB holds all gradients of this network: then little can overlap.
            yield "ddp, buckets of 25 MB", "on", "none", words
            words += ["--bucket-mb", "2"]
        yield strategy, "off", "none", [*words, "--no-overlap"]
        yield strategy, "on", "none", words
        for kind in ("fp16", "bf16"):
            yield strategy, "on", kind, [*words, "--compression", kind]
        if strategy == "ddp":
            for rank in ("1", "4"):
                yield strategy, "on", f"powersgd, rank {rank}", [
                    *words, "--compression", "powersgd", "--powersgd-rank", rank,
                    "--powersgd-start", "0"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/bench/exposed_bench")
    parser.add_argument("--rate", default="1gbit", help="as tc writes it")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--strategies", default="ddp,horovod,mirrored,deepspeed")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--first", action="store_true",
                        help="gives the workers the highest nice value")
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sink:
        return sink()
    if options.source:
        return source(options.source)
    if os.geteuid() != 0:
        sys.exit("exposed_bench: needs root, for namespaces")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the namespaces go, too
    with Link(options.rate) as link, tempfile.TemporaryDirectory() as directory:
        print(f"link {options.rate}: {link.measure():.0f} Mbit/s of payload; "
              f"load {os.getloadavg()[0]:.1f}\n")
        print("| strategy | overlap | compression | step | alone | exposed | sent | at least, whole | ratio |")
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for strategy, overlap, compression, words in rows(options, directory):
            got = measure(options, words, directory)
            # Each of W workers sends at least (W - 1) / W of the gradients to where they are summed,
            # as much of the sums or of what follows from them, and at stage 3 parameters twice.
            passes = 3 if "stage 3" in strategy else 2
            least = passes * (got["workers"] - 1) / got["workers"] * 4 * got["parameters"]
            print(f"| {strategy} | {overlap} | {compression} | {got['step_ms']:.0f} ms "
                  f"| {got['alone_ms']:.0f} ms | {got['exposed_ms']:.0f} ms "
                  f"| {got['bytes'] / 1e6:.2f} MB | {least / 1e6:.2f} MB "
                  f"| {got['bytes'] / least:.3f} |", flush=True)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
