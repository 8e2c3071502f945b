// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "training/data/bytes.h"

// IDX, the file format of MNIST:
//
//   byte 0   two zero bytes
//   byte 2   type of the values; 8: unsigned bytes
//   byte 3   number of dimensions D
//   byte 4   D sizes, four bytes each, big-endian
//            the values
namespace lockstep::data {

constexpr int64_t kImageSide = 28;
constexpr int64_t kImagePixels = kImageSide * kImageSide;
constexpr int64_t kClasses = 10;

// The values of an IDX file of 28 x 28 images, plain or gzip. Any deviation from the format throws
// an Error with the offset of the first wrong byte.
Bytes read_idx_images(const std::filesystem::path& path);

// The values of an IDX file of labels from 0 to 9; throws Errors as for images.
Bytes read_idx_labels(const std::filesystem::path& path);

// Images and their labels.
struct LabelledImages {
  Bytes pixels;
  Bytes labels;
};

// Reads both files; throws an Error if the numbers of images and labels differ.
LabelledImages read_idx_pair(const std::filesystem::path& images,
                             const std::filesystem::path& labels);

}  // namespace lockstep::data
