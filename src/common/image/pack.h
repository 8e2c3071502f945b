// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "common/image/store.h"

namespace lockstep::image {

// The images of a pack. The file is mapped and shared by all processes that use it. Throws an Error
// (74) with the offset of the first invalid byte; the images themselves are not checked.
StorePtr open_pack(const std::filesystem::path& file);

// Both packs of a set, if they are in the directory: train.lspack and val.lspack, or
// WORD-train.lspack and WORD-val.lspack.
std::optional<Sets> find_packs(const std::filesystem::path& directory, const std::string& word);

}  // namespace lockstep::image
