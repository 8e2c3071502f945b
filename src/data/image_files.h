// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "image/sample.h"
#include "image/store.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// What becomes of a file that is no image.
enum class Damaged {
  Refuse,   // an Error that names it
  Replace,  // the next sample that can be read takes its place
  LeaveOut  // a batch is smaller by it
};

struct ImageFilesOptions {
  image::Recipe recipe = {};
  uint64_t seed = 1;  // of augmentation
  Damaged damaged = Damaged::Refuse;
};

// A data set of images that are decoded when they are asked for, in the format that
// lockstep/datasets.h promises. Sample i is made with a key of seed, epoch and i alone.
DatasetPtr image_files(image::StorePtr store, const ImageFilesOptions& options);

}  // namespace lockstep::data
