// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/image/store.h"
#include "tools/bench/commands.h"

// The images for `lockstep-bench loader`.
namespace lockstep::bench {

// A set of images and a description of their origin.
struct LoaderImages {
  image::StorePtr store;
  std::string origin;
  bool is_packed = false;
};

// options.images images, evenly spread over the training set, or generated images below `scratch`.
LoaderImages find_images(const LoaderBenchOptions& options, const std::filesystem::path& scratch);

// The same images below `scratch` in the other form: as a pack or as files.
LoaderImages copy_images(const LoaderImages& images, const std::filesystem::path& scratch);

// The list of images for the peer: one line per image with label, tab and path.
void write_list(const image::Store& store, const std::filesystem::path& file);

}  // namespace lockstep::bench
