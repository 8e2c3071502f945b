# SPDX-License-Identifier: Apache-2.0
"""Reads a directory with the reader of TensorBoard and prints its content.

    read_tensorboard.py DIRECTORY

One line per scalar, "TAG STEP TIME VALUE", and per text, "TAG STEP TIME text TEXT". Exits with 77
if TensorBoard is not installed.
"""

import sys

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError as fault:
    print(fault)
    sys.exit(77)


def main():
    everything = {"scalars": 0, "tensors": 0}
    events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance=everything)
    events.Reload()
    tags = events.Tags()
    for tag in sorted(tags["scalars"]):
        for event in events.Scalars(tag):
            print(f"{tag} {event.step} {event.wall_time:.2f} {event.value:.6g}")
    for tag in sorted(tags["tensors"]):
        for event in events.Tensors(tag):
            text = event.tensor_proto.string_val[0].decode()
            print(f"{tag} {event.step} {event.wall_time:.2f} text {text}")


main()
