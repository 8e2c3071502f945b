#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of `lockstep-bench loader`: the same files with torchvision and a DataLoader.

Pillow decodes, RandomResizedCrop and RandomHorizontalFlip augment, and PILToTensor creates bytes.
This is the usual pipeline without the conversion to floats. Prints one JSON line.
"""
import argparse
import importlib.util
import json
import statistics
import time


def missing_module():
    for name in ("torch", "PIL", "torchvision"):
        if importlib.util.find_spec(name) is None:
            return "Pillow" if name == "PIL" else name
    return None


def images_per_second(loader, options):
    """Measures for --seconds, after the first batch of each worker."""
    batches = iter(loader)
    for _ in range(max(1, loader.num_workers)):
        next(batches)
    begin, seen = time.perf_counter(), 0
    while time.perf_counter() - begin < options.seconds:
        seen += len(next(batches)[0])
    return seen / (time.perf_counter() - begin)


def measure(options):
    import PIL.Image
    import torch
    import torchvision
    from torchvision import transforms

    with open(options.list, encoding="utf-8") as file:
        samples = [line.rstrip("\n").split("\t") for line in file]

    class Images(torch.utils.data.Dataset):
        def __init__(self):
            self.transform = transforms.Compose([
                transforms.RandomResizedCrop(options.size),
                transforms.RandomHorizontalFlip(),
                transforms.PILToTensor(),
            ])

        def __len__(self):
            return len(samples)

        def __getitem__(self, index):
            label, path = samples[index]
            with open(path, "rb") as file:
                image = PIL.Image.open(file).convert("RGB")
            return self.transform(image), int(label)

    rates = {}
    for workers in options.threads:
        images = Images()
        # Practically endless, so that no epoch ends during the measurement.
        order = torch.utils.data.RandomSampler(images, replacement=True, num_samples=10**9)
        loader = torch.utils.data.DataLoader(images, batch_size=options.batch, sampler=order,
                                             num_workers=workers, pin_memory=options.pin)
        rates[str(workers)] = statistics.median(
            images_per_second(loader, options) for _ in range(options.rounds))
    return {"torch": torch.__version__, "torchvision": torchvision.__version__,
            "pillow": PIL.__version__, "images_per_second": rates}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", required=True,
                        help="file with a label, a tab and a path per line")
    parser.add_argument("--size", type=int, default=224, help="width and height in pixels [224]")
    parser.add_argument("--batch", type=int, default=64, help="images per batch [64]")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")],
                        default=[1], help="numbers of workers, separated by commas [1]")
    parser.add_argument("--seconds", type=float, default=3, help="seconds per round [3]")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds [3]")
    parser.add_argument("--pin", action="store_true", help="use pinned memory")
    options = parser.parse_args()
    missing = missing_module()
    print(json.dumps({"missing": missing} if missing else measure(options)), flush=True)


if __name__ == "__main__":
    main()
