// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "data/bytes.h"

// IDX, the file format of MNIST: two zero bytes, the type of the values (8: unsigned bytes), the
// number of dimensions, each dimension as four bytes with the highest first, then the values.
namespace lockstep::data {

constexpr int64_t kImageSide = 28;
constexpr int64_t kImagePixels = kImageSide * kImageSide;
constexpr int64_t kClasses = 10;

// The values of an IDX file of 28 x 28 images, plain or gzip. Whatever is not exactly that throws
// an Error with the offset of the first byte that is wrong.
Bytes read_idx_images(const std::filesystem::path& path);

// The same for labels, each from 0 to 9.
Bytes read_idx_labels(const std::filesystem::path& path);

// The images and labels that belong together.
struct LabelledImages {
  Bytes pixels;
  Bytes labels;
};

// Both; throws an Error if there are more of the one than of the other.
LabelledImages read_idx_pair(const std::filesystem::path& images,
                             const std::filesystem::path& labels);

}  // namespace lockstep::data
