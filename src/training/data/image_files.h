// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/image/sample.h"
#include "common/image/store.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// The handling of files that cannot be decoded.
enum class Damaged {
  Refuse,   // throws an Error with the name of the file
  Replace,  // uses the next readable sample instead
  LeaveOut  // the batch has one sample less
};

struct ImageFilesOptions {
  image::Recipe recipe = {};
  uint64_t seed = 1;  // of augmentation
  Damaged damaged = Damaged::Refuse;
};

// A data set of images that are decoded when a batch is created, in the format of
// lockstep/datasets.h. The augmentation of sample i depends only on seed, epoch and i.
DatasetPtr image_files(image::StorePtr store, const ImageFilesOptions& options);

}  // namespace lockstep::data
