// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/os/processors.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "training/data/gpu_decoder.h"
#include "training/data/image_files.h"

namespace lockstep {
namespace {

void check(const ImageOptions& options) {
  constexpr int64_t kLargest = 4096;
  if (options.size < 0 || options.size > kLargest) {
    throw Error(ExitCode::Usage, fmt::format("invalid image size of {} pixels", options.size))
        .fact("expected", fmt::format("1 to {}; 0: default of the data set", kLargest));
  }
  if (options.corrupt != "refuse" && options.corrupt != "skip") {
    throw Error(ExitCode::Usage, fmt::format("invalid --corrupt '{}'", options.corrupt))
        .fact("expected", "refuse or skip")
        .hint("--corrupt skip");
  }
  if (options.jpeg != "auto" && options.jpeg != "cpu" && options.jpeg != "gpu") {
    throw Error(ExitCode::Usage, fmt::format("invalid --jpeg '{}'", options.jpeg))
        .fact("expected", "auto, cpu or gpu")
        .hint("--jpeg auto");
  }
  if (options.jpeg == "gpu" && !options.device.is_cuda()) {
    throw Error(ExitCode::Usage, "cannot decode JPEG files on a GPU: the training runs on the CPU")
        .fact("requested", "--jpeg gpu")
        .hint("--device cuda, or --jpeg auto");
  }
}

// Measured on an H200 (docs/results/images_h200_202611.md): nvJPEG supplies 8,800 images/s of 224
// pixels, as many as ResNet-50 trains, and 15 threads on the CPU fewer; of 64 pixels, 15 threads
// supply 30,000 and nvJPEG 20,000. Without a hardware decoder nothing was measured, and decoding
// takes time from training.
constexpr int kCoresThatDecodeFaster = 10;
constexpr int kLeastPixelsForGpu = 128;

// The GPU that decodes. A decoder is created to find out whether nvJPEG works: here, and not on a
// thread of a Loader, where the error would come late.
std::optional<torch::Device> choose_gpu(const ImageOptions& options, int size) {
  if (options.jpeg == "cpu" || !options.device.is_cuda()) {
    return std::nullopt;
  }
  const bool has_cores =
      options.jpeg == "auto" && os::usable_processors() >= kCoresThatDecodeFaster;
  if (has_cores && size < kLeastPixelsForGpu) {
    return std::nullopt;
  }
  try {
    const data::GpuDecoder probe(options.device);
    if (has_cores && !probe.is_hardware()) {
      return std::nullopt;
    }
  } catch (const Error& missing) {
    if (options.jpeg == "gpu") {
      throw;
    }
    log::info("JPEG files are decoded on the CPU: {}", missing.sentence());
    return std::nullopt;
  }
  return options.device;
}

// A damaged image of the training set is replaced, so that all workers keep the same number of
// batches. One of the test set is left out, since a replacement would count twice in the accuracy.
// `training` is the recipe of augmented training images, `plain` of all others.
DatasetPair make_pair(const image::Sets& sets,
                      const ImageOptions& options,
                      image::Recipe training,
                      const image::Recipe& plain) {
  training.augments = true;
  const std::optional<torch::Device> gpu = choose_gpu(options, plain.size);
  const bool skips = options.corrupt == "skip";
  DatasetPair pair = {
      .train = data::image_files(sets.train,
                                 {.recipe = options.augments ? training : plain,
                                  .seed = options.seed,
                                  .damaged = skips ? data::Damaged::Replace : data::Damaged::Refuse,
                                  .gpu = gpu}),
      .test = nullptr,
      .origin = sets.origin};
  if (sets.test != nullptr) {
    pair.test =
        data::image_files(sets.test,
                          {.recipe = plain,
                           .seed = options.seed,
                           .damaged = skips ? data::Damaged::LeaveOut : data::Damaged::Refuse,
                           .gpu = gpu});
  }
  for (const image::ClassName& name : sets.train->classes()) {
    pair.classes.push_back(name.id);
  }
  return pair;
}

}  // namespace

DatasetPair tiny_imagenet(const std::filesystem::path& data_dir, const ImageOptions& options) {
  check(options);
  const int size = options.size > 0 ? static_cast<int>(options.size) : 64;
  image::Recipe plain;
  plain.size = size;
  plain.resize = size;  // images of 64 pixels are not scaled
  image::Recipe training = plain;
  training.min_area = 0.25;  // the usual 0.08 shows too little of 64 x 64 pixels
  return make_pair(image::find_tiny_imagenet(data_dir), options, training, plain);
}

DatasetPair imagenet(const std::filesystem::path& data_dir, const ImageOptions& options) {
  check(options);
  image::Recipe plain;
  plain.size = options.size > 0 ? static_cast<int>(options.size) : 224;
  // The usual 256 for 224, in proportion and rounded: the centre crop keeps 7/8 of the shorter
  // side.
  plain.resize = (plain.size * 256 + 112) / 224;
  return make_pair(image::find_imagenet(data_dir), options, plain, plain);
}

}  // namespace lockstep
