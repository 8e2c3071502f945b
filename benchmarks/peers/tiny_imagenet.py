#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python counterpart of examples/tiny_imagenet: the same recipe with torchvision and Pillow.

Uses DistributedDataParallel if a launcher started several workers. Prints one line per epoch, and a
JSON line at the end.
"""
import time

BEGIN = time.time()

import argparse  # noqa: E402
import contextlib  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torchvision  # noqa: E402
from PIL import Image  # noqa: E402
from torch.utils.data import DataLoader, Dataset, DistributedSampler  # noqa: E402
from torchvision import transforms  # noqa: E402


class Images(Dataset):
    def __init__(self, samples, transform):
        self.samples = samples
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        with Image.open(path) as image:
            return self.transform(image.convert("RGB")), target


def find_samples(folder):
    classes = sorted(folder.joinpath("wnids.txt").read_text().split())
    number = {name: i for i, name in enumerate(classes)}
    train = [(path, number[name]) for name in classes
             for path in sorted(folder.joinpath("train", name, "images").iterdir())]
    lines = folder.joinpath("val", "val_annotations.txt").read_text().splitlines()
    test = [(folder / "val" / "images" / line.split("\t")[0], number[line.split("\t")[1]])
            for line in lines]
    return classes, train, test


def make_net(name, classes):
    net = getattr(torchvision.models, name)(num_classes=classes)
    net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
    net.maxpool = nn.Identity()
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", required=True, help="directory with wnids.txt")
    parser.add_argument("--net", default="resnet18")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--global-batch", type=int, default=256)
    parser.add_argument("--num-workers", type=int, default=4)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    options = parser.parse_args()

    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    if world > 1:
        dist.init_process_group("gloo" if options.device == "cpu" else "nccl")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    normalise = [transforms.ToTensor(),
                 transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    size = options.image_size
    classes, train, test = find_samples(pathlib.Path(options.data))
    augment = transforms.Compose([transforms.RandomResizedCrop(size, scale=(0.25, 1)),
                                  transforms.RandomHorizontalFlip(), *normalise])
    train = Images(train, augment)
    whole = [] if size == 64 else [transforms.Resize(size), transforms.CenterCrop(size)]
    test = Images(test[rank::world], transforms.Compose([*whole, *normalise]))
    sampler = DistributedSampler(train, world, rank, drop_last=True)
    more = {"num_workers": options.num_workers, "pin_memory": options.device == "cuda",
            "persistent_workers": options.num_workers > 0}
    loader = DataLoader(train, options.global_batch // world, sampler=sampler, drop_last=True, **more)
    test_loader = DataLoader(test, 100, **more)

    net = make_net(options.net, len(classes)).to(options.device)
    net = net.to(memory_format=torch.channels_last)
    decayed = [weight for weight in net.parameters() if weight.dim() > 1]
    others = [weight for weight in net.parameters() if weight.dim() <= 1]
    rate = 0.1 * options.global_batch / 256
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": 5e-4}, {"params": others}],
                                lr=rate, momentum=0.9)
    model = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    total = options.epochs * len(loader)
    warm = len(loader)

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    precision = (lambda: torch.autocast(options.device, dtype=torch.bfloat16)
                 ) if options.precision == "bf16" else contextlib.nullcontext

    def on_device(images, targets):
        return (images.to(options.device, non_blocking=True,
                          memory_format=torch.channels_last),
                targets.to(options.device, non_blocking=True))

    accuracy = 0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for batch in loader:
            images, targets = on_device(*batch)
            with precision():
                loss = loss_of(model(images), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        net.eval()
        counts = torch.zeros(2, dtype=torch.float64)
        with torch.no_grad(), precision():
            for batch in test_loader:
                images, targets = on_device(*batch)
                counts += torch.tensor([(net(images).argmax(1) == targets).sum().item(),
                                        len(targets)], dtype=torch.float64)
        if world > 1:
            counts = counts.to(options.device)
            dist.all_reduce(counts)
        accuracy = 100 * (counts[0] / counts[1]).item()
        if rank == 0:
            print(f"epoch {epoch + 1}: {accuracy:.2f} % after {time.time() - BEGIN:.1f} s", flush=True)
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "epochs": options.epochs,
                          "accuracy": accuracy, "seconds": time.time() - BEGIN}), flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
