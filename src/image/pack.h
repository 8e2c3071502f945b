// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "image/store.h"

namespace lockstep::image {

// The images of a pack, mapped and shared by all processes that use it. Throws an Error (74) that
// names the byte at which the file is not as it should be; the images themselves are not looked at.
StorePtr open_pack(const std::filesystem::path& file);

// Both packs of a set, if they lie in the directory: train.lspack and val.lspack, or
// WORD-train.lspack and WORD-val.lspack.
std::optional<Sets> find_packs(const std::filesystem::path& directory, const std::string& word);

}  // namespace lockstep::image
