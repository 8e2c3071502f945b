// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::os {

// The names in a directory, sorted, without "." and "..".
struct Listing {
  std::vector<std::string> folders;
  std::vector<std::string> files;  // everything that is not a directory
};

// Does not examine each file, unless it is a link or the file system does not report types. Throws
// an Error (74) that names the directory and the reason.
Listing list_directory(const std::filesystem::path& directory);

// The names of all entries, sorted; none if the directory cannot be read.
std::vector<std::string> find_names(const std::filesystem::path& directory);

// Whether the path exists and can be examined.
bool exists(const std::filesystem::path& path);

}  // namespace lockstep::os
