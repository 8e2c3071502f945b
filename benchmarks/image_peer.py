#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pillow counterpart of image_bench: RandomResizedCrop to 224 and a flip, on one core.

    image_peer.py DIRECTORY

Reads all .JPEG files below DIRECTORY into memory and prints images per second of CPU time.
"""

import io
import math
import pathlib
import random
import sys
import time

from PIL import Image

SIZE = 224
IMAGES = 400
ROUNDS = 3


def choose_part(width, height):
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if w <= width and h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    return 0, 0, width, height


def make(file):
    image = Image.open(io.BytesIO(file)).convert("RGB")
    image = image.crop(choose_part(*image.size)).resize((SIZE, SIZE), Image.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    return image.tobytes()


def main():
    files = [path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.JPEG"))]
    random.seed(1)
    best = math.inf
    for _ in range(ROUNDS):
        start = time.process_time()
        for i in range(IMAGES):
            make(files[i % len(files)])
        best = min(best, (time.process_time() - start) / IMAGES)
    size = sum(map(len, files)) / len(files)
    print(f"{len(files)} files of {size / 1000:.0f} KB: {1 / best:.0f} images/s, {best * 1000:.2f} ms each")


if __name__ == "__main__":
    main()
