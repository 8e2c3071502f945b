// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "image/store.h"

namespace lockstep::image {

// Told how many images of how many are done; called by the thread that asked for the work.
using Progress = std::function<void(int64_t done, int64_t of)>;

struct PackOptions {
  int short_side = 0;       // images with a longer one are made smaller; 0: none are
  int quality = 90;         // of those, 1 to 100
  std::string source = {};  // for people: the name of the folder that the images lie in
  int threads = 1;
  Progress progress = [](int64_t, int64_t) {
  };
};

// What a file turned out to be.
struct Problem {
  std::string name;
  std::string reason;  // "ends early"
};

struct PackReport {
  int64_t images = 0;
  int64_t shrunk = 0;
  uint64_t bytes = 0;             // of the pack
  std::vector<Problem> problems;  // images that are copied though they cannot be decoded
};

// Writes all images of `store` into a pack, in their order. Those that need not be smaller are
// copied byte for byte, and so are corrupt ones, so that numbers stay what they were. The file
// appears when it is whole; a failure is an Error (74) and leaves nothing.
PackReport write_pack(const Store& store,
                      const std::string& split,
                      const std::filesystem::path& file,
                      const PackOptions& options);

}  // namespace lockstep::image
