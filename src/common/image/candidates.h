// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/image/store.h"

namespace lockstep::image {

// A data set and its possible directories.
struct Search {
  std::string title;                               // "TinyImageNet"
  std::string word;                                // "tiny-imagenet", the name on the command line
  std::vector<std::filesystem::path> directories;  // in search order

  // The reason why a directory does not contain the data set; empty if it does.
  std::function<std::string(const std::filesystem::path&)> objection;
  std::function<Sets(const std::filesystem::path&)> open;
  std::vector<std::string> hints;  // shown if the data set is not found
};

// The packs in any of the directories, otherwise the folders of the first that contains them.
Sets find_sets(const Search& search, const std::filesystem::path& data_dir, Look look);

}  // namespace lockstep::image
