// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

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
  // The GPU that decodes batches for itself (PinnedSource); batch() always decodes on the CPU.
  std::optional<torch::Device> gpu = {};
};

// Numbers of samples in batches for a GPU, by the decoder.
struct DecodeCounts {
  int64_t gpu = 0;
  int64_t cpu = 0;  // fallback: files that the GPU does not decode
};

// A data set of images that are decoded when a batch is created, in the format of
// lockstep/datasets.h. The augmentation of sample i depends only on seed, epoch and i.
// A batch for a GPU throws an Error (69) if options.gpu cannot decode.
DatasetPtr image_files(image::StorePtr store, const ImageFilesOptions& options);

// The counts of a data set that image_files() returned, over all epochs.
DecodeCounts decode_counts(const Dataset& dataset);

}  // namespace lockstep::data
