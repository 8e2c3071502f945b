// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep {

// Data sets for training and testing.
//
//   const DatasetPair digits = lockstep::mnist(session.data_dir());
//   trainer.fit(*net, *sgd, digits.train, digits.test, lockstep::CrossEntropy());
struct DatasetPair {
  DatasetPtr train;
  DatasetPtr test;
  std::string origin;                     // where the data were found, for messages
  std::vector<std::string> classes = {};  // class name of each target, if classes have names
};

// The MNIST handwritten digits. Input: float32 [N, 1, 28, 28] with the usual normalization
// (x / 255 - 0.1307) / 0.3081. Target: int64 [N] from 0 to 9.
//
// Searches data_dir/mnist, data_dir and data_dir/MNIST/raw for the four IDX files, plain or .gz.
// Plain files are mapped into memory and shared by all workers of a machine. Throws an Error that
// lists the searched directories, or the byte offset at which a file is invalid.
DatasetPair mnist(const std::filesystem::path& data_dir);

// Digits drawn by this program in the format of mnist(), for machines without data.
//
// Sample i depends only on `seed` and i, bit for bit, on every platform. The training and test
// samples differ. Throws an Error if a count is below 1.
DatasetPair generated_digits(int64_t train_count, int64_t test_count, uint64_t seed);

// How tiny_imagenet() and imagenet() prepare images.
//
//   const auto images = lockstep::imagenet(
//       session.data_dir(),
//       {.size = 160, .corrupt = "skip", .device = session.device(), .jpeg = session.jpeg()});
struct ImageOptions {
  int64_t size = 0;      // width and height in pixels; 0: 64 for TinyImageNet, 224 for ImageNet
  uint64_t seed = 1;     // of the random crops and flips, together with epoch and sample index
  bool augments = true;  // random crops and flips of the training images
  std::string corrupt = "refuse";  // files that are not images: refuse, or skip with a warning

  // Where batches for a GPU are decoded (--jpeg). gpu: by nvJPEG on `device`, into its memory; cpu:
  // by libjpeg; auto: the faster one (docs/images.md). Files that nvJPEG cannot decode are always
  // decoded on the CPU. Crops, flips and order are the same; pixels differ by at most two levels.
  // The Loader decodes on the GPU only for the data set itself. Data sets derived from it, such as
  // take() and map(), and the methods batch() and example() decode on the CPU.
  torch::Device device = torch::kCPU;
  std::string jpeg = "auto";
};

// TinyImageNet and ImageNet. Images are decoded from JPEG files, or from packs of JPEG files, each
// time a batch is created. Input: uint8 [N, 3, size, size] in channels-last memory format. Target:
// int64 [N]. Classes have the WordNet names (n01443537).
//
// Throw an Error that lists the searched directories. A file that is not an image causes an Error
// with its name. With corrupt = "skip", the next sample replaces it in training, and batch() omits
// it in testing. With jpeg = "gpu", throw an Error if `device` is not a GPU or nvJPEG is missing.
DatasetPair tiny_imagenet(const std::filesystem::path& data_dir, const ImageOptions& options = {});
DatasetPair imagenet(const std::filesystem::path& data_dir, const ImageOptions& options = {});

// Token windows for next-token prediction. Sample i consists of `length` tokens, int64; the target
// is the same window shifted by one token. Windows do not overlap. The tokens at the end of a file
// that do not fill a window are not used.
//
// Reads files of lockstep-tokens and llm.c, and files of plain 16-bit numbers as nanoGPT writes
// them. Files are mapped into memory and shared by all workers of a machine. Throws an Error with
// the byte offset at which a file is invalid.
DatasetPtr token_windows(const std::vector<std::filesystem::path>& files, int64_t length);

// token_windows() of the files that lockstep-tokens wrote with the prefix `prefix`:
// PREFIX_train_000000.bin and so on for training, PREFIX_val_000000.bin and so on for testing.
// `test` is null if there are no validation files. Throws an Error if there are no training files.
DatasetPair texts(const std::filesystem::path& prefix, int64_t length);

}  // namespace lockstep
