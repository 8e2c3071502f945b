// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "image/store.h"

namespace lockstep::image {

// A data set and the directories where it may lie.
struct Search {
  std::string title;                               // "TinyImageNet"
  std::string word;                                // "tiny-imagenet", as it is typed
  std::vector<std::filesystem::path> directories;  // in the order in which they are looked at

  // The reason why a directory is not the set's; none when it is.
  std::function<std::string(const std::filesystem::path&)> objection;
  std::function<Sets(const std::filesystem::path&)> open;
  std::vector<std::string> hints;  // for who has it nowhere
};

// The packs of any of the directories, else the folders of the first that has them.
Sets find_sets(const Search& search, const std::filesystem::path& data_dir, Look look);

}  // namespace lockstep::image
