#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures exposed communication per step over a slow link; prints a Markdown table.

Two network namespaces represent two nodes with one worker and one core each. A veth pair connects
them; tc limits its rate. Requires root. The namespaces are removed at the end.

    python3 benchmarks/exposed_bench.py --bench build/bench/exposed_bench
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
    """Two network namespaces and the veth pair between them."""

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
        """Returns the payload rate of one TCP connection in Mbit/s."""
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
        connection.recv(1)  # returns when the other side has received everything
        print(time.monotonic() - begin)


def measure(options, words, directory):
    """Runs both workers once. Returns the figures that rank 0 prints."""
    workers = []
    for rank, name in enumerate(NAMES):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0",
                           LOCAL_WORLD_SIZE="1", GROUP_RANK=str(rank), GROUP_WORLD_SIZE="2",
                           MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29511", OMP_NUM_THREADS="1",
                           LOCKSTEP_INTERFACE="cable")
        # Not real-time priority: the threads of a worker share one core and would block each other.
        priority = ["nice", "-n", "-20"] if options.first else []
        workers.append(subprocess.Popen(
            ["ip", "netns", "exec", name, *priority, "taskset", "-c", str(rank % os.cpu_count()),
             os.path.abspath(options.bench), *words, "--rounds", str(options.rounds),
             "--transport", "gloo", "--run-dir", directory],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = [worker.communicate(timeout=options.timeout) for worker in workers]
    for worker, (_, complaints) in zip(workers, outputs):
        if worker.returncode != 0:
            sys.exit(f"exposed_bench: {' '.join(words)} exited with {worker.returncode}\n"
                     f"{complaints}")
    return json.loads(next(line for line in outputs[0][0].splitlines() if line.startswith("{")))


def zero_rows(directory):
    """The ZeRO stages, with gradient buckets of 2 MB, the same size as for ddp here."""
    for stage in range(4):
        # By default (None), all parameters stay in memory from forward to backward. 600,000
        # elements prefetch two layers, 0 disables prefetching.
        for prefetch in ([None, 600_000, 0] if stage == 3 else [None]):
            zero = {"stage": stage, "reduce_bucket_size": 524288}
            if prefetch is not None:
                zero["stage3_prefetch_bucket_size"] = prefetch
            config = os.path.join(directory, f"stage-{stage}-{prefetch}.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"zero_optimization": zero}, file)
            words = ["-s", "deepspeed", "--deepspeed_config", config]
            name = f"deepspeed, stage {stage}" + (
                "" if prefetch is None else f", {prefetch} elements prefetched")
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
            # The default bucket of 25 MB holds all gradients of this network: little can overlap.
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
    parser.add_argument("--bench", default="build/bench/exposed_bench",
                        help="training program [build/bench/exposed_bench]")
    parser.add_argument("--rate", default="1gbit",
                        help="rate of the link, in the notation of tc [1gbit]")
    parser.add_argument("--rounds", type=int, default=30, help="measured steps [30]")
    parser.add_argument("--strategies", default="ddp,horovod,mirrored,deepspeed",
                        help="strategies to measure [ddp,horovod,mirrored,deepspeed]")
    parser.add_argument("--timeout", type=float, default=300,
                        help="maximum time of one measurement, in seconds [300]")
    parser.add_argument("--first", action="store_true",
                        help="run the workers with the highest priority (nice value -20)")
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sink:
        return sink()
    if options.source:
        return source(options.source)
    if os.geteuid() != 0:
        sys.exit("exposed_bench: requires root to create network namespaces")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the namespaces too
    with Link(options.rate) as link, tempfile.TemporaryDirectory() as directory:
        print(f"link {options.rate}: {link.measure():.0f} Mbit/s of payload; "
              f"load {os.getloadavg()[0]:.1f}\n")
        print("| strategy | overlap | compression | step | alone | exposed | sent | minimum, "
              "uncompressed | ratio |")
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for strategy, overlap, compression, words in rows(options, directory):
            got = measure(options, words, directory)
            # Each of W workers sends at least (W - 1) / W of the gradients for the reduction, and
            # the same amount for its results: the sums or, from ZeRO stage 1 on, the updated
            # parameters. Stage 3 gathers the parameters twice, for forward and for backward.
            passes = 3 if "stage 3" in strategy else 2
            minimum = passes * (got["workers"] - 1) / got["workers"] * 4 * got["parameters"]
            print(f"| {strategy} | {overlap} | {compression} | {got['step_ms']:.0f} ms "
                  f"| {got['alone_ms']:.0f} ms | {got['exposed_ms']:.0f} ms "
                  f"| {got['bytes'] / 1e6:.2f} MB | {minimum / 1e6:.2f} MB "
                  f"| {got['bytes'] / minimum:.3f} |", flush=True)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
