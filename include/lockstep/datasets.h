// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep {

// What one trains on, what one tests on, and where both came from, for people.
struct DatasetPair {
  DatasetPtr train;
  DatasetPtr test;
  std::string origin;
  std::vector<std::string> classes = {};  // what each target stands for, where that has a name
};

// The handwritten digits of MNIST: input float32 [N, 1, 28, 28] with the usual normalisation
// (x / 255 - 0.1307) / 0.3081, target int64 [N] from 0 to 9.
//
// Looks for the four IDX files, plain or .gz, in data_dir/mnist, data_dir and data_dir/MNIST/raw.
// Plain files are mapped and shared by all workers of a machine. Throws an Error that lists where
// it looked, or that names the byte at which a file is not what it should be.
DatasetPair mnist(const std::filesystem::path& data_dir);

// Images of digits drawn by this program, in the format of mnist(), for machines without data.
//
// Sample i depends on `seed` and i alone, to the bit, on every platform; train and test differ.
DatasetPair generated_digits(int64_t train_count, int64_t test_count, uint64_t seed);

struct ImageOptions {
  int64_t size = 0;      // of both sides, in pixels; 0: 64 of TinyImageNet, 224 of ImageNet
  uint64_t seed = 1;     // of what is cut out and mirrored, together with epoch and sample number
  bool augments = true;  // the training's: a random part, mirrored or not
  std::string corrupt = "refuse";  // files that are no image: refuse, or skip with a warning
};

// TinyImageNet and ImageNet, decoded from JPEG files or packs of them whenever a batch is made:
// input uint8 [N, 3, size, size] with the channels last in memory, target int64 [N]; classes are
// WordNet's names (n01443537). Throws an Error that lists where it looked.
//
// A file that is no image is an Error that names it. With corrupt = "skip" the next sample takes
// its place in training; in testing batch() leaves it out.
DatasetPair tiny_imagenet(const std::filesystem::path& data_dir, const ImageOptions& options = {});
DatasetPair imagenet(const std::filesystem::path& data_dir, const ImageOptions& options = {});

// Texts as tokens, for what comes next: sample i is `length` tokens, int64, and the target the same
// one further on. Windows lie end to end; what is left of a file at its end is not used.
//
// Files as lockstep-tokens and llm.c write them, or of bare 16-bit numbers as nanoGPT's. They are
// mapped and shared by all workers of a machine. Throws an Error that names the byte at which a
// file is not what it should be.
DatasetPtr token_windows(const std::vector<std::filesystem::path>& files, int64_t length);

// The same of what lockstep-tokens wrote under `prefix`: PREFIX_train_000000.bin and so on, and
// PREFIX_val_000000.bin for the test, which is null where there is none. Throws an Error where
// there is nothing to train on.
DatasetPair texts(const std::filesystem::path& prefix, int64_t length);

}  // namespace lockstep
