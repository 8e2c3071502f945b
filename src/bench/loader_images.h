// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "bench/commands.h"
#include "image/store.h"

// The images that `lockstep-bench loader` reads.
namespace lockstep::bench {

// Some images, and where they came from, for people.
struct LoaderImages {
  image::StorePtr store;
  std::string origin;
  bool is_packed = false;
};

// options.images of the training set, evenly spread; drawn ones, below `scratch`, if asked for.
LoaderImages find_images(const LoaderBenchOptions& options, const std::filesystem::path& scratch);

// The same images below `scratch` in the other form: in a pack, or as files.
LoaderImages copy_images(const LoaderImages& images, const std::filesystem::path& scratch);

// One line each, for the peer: label, tab, path.
void write_list(const image::Store& store, const std::filesystem::path& file);

}  // namespace lockstep::bench
