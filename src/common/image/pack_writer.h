// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/image/store.h"

namespace lockstep::image {

// Called with the number of finished images and the total, on the thread of the caller.
using Progress = std::function<void(int64_t done, int64_t of)>;

struct PackOptions {
  int short_side = 0;       // scale down images whose short side is longer; 0: none
  int quality = 90;         // JPEG quality of scaled images, 1 to 100
  std::string source = {};  // name of the source folder, for messages
  int threads = 1;
  Progress progress = [](int64_t, int64_t) {
  };
};

// A corrupt image.
struct Problem {
  std::string name;
  std::string reason;  // "ends early"
};

struct PackReport {
  int64_t images = 0;
  int64_t shrunk = 0;
  uint64_t bytes = 0;             // size of the pack
  std::vector<Problem> problems;  // images that were copied although they cannot be decoded
};

// Writes all images of `store` into a pack, in order. Images that need no scaling are copied
// unchanged. So are corrupt images, to keep the numbers of the samples. The file appears when it is
// complete. Throws an Error (74) and leaves no file on failure.
PackReport write_pack(const Store& store,
                      const std::string& split,
                      const std::filesystem::path& file,
                      const PackOptions& options);

}  // namespace lockstep::image
