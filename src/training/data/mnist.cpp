// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fmt/format.h>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "training/data/byte_images.h"
#include "training/data/idx.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFiles = {"train-images-idx3-ubyte",
                               "train-labels-idx1-ubyte",
                               "t10k-images-idx3-ubyte",
                               "t10k-labels-idx1-ubyte"};

// The four files in one directory; uncompressed files have precedence.
struct Shelf {
  std::vector<fs::path> found;
  std::vector<std::string> missing;
};

Shelf look_in(const fs::path& directory) {
  Shelf shelf;
  for (const std::string file : kFiles) {
    std::error_code ignored;  // an inaccessible file counts as missing
    if (fs::exists(directory / file, ignored)) {
      shelf.found.push_back(directory / file);
    } else if (fs::exists(directory / (file + ".gz"), ignored)) {
      shelf.found.push_back(directory / (file + ".gz"));
    } else {
      shelf.missing.push_back(file);
    }
  }
  return shelf;
}

std::string describe(const Shelf& shelf, const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) {
    return "no such directory";
  }
  if (shelf.found.empty()) {
    return "none of the four files";
  }
  return fmt::format("missing {}", join(shelf.missing, ", "));
}

}  // namespace

DatasetPair mnist(const fs::path& data_dir) {
  Error nowhere(ExitCode::Io, fmt::format("cannot find MNIST in {}", data_dir.string()));
  // MNIST/raw is where torchvision.datasets.MNIST stores the files.
  for (const auto& directory : {data_dir / "mnist", data_dir, data_dir / "MNIST" / "raw"}) {
    const Shelf shelf = look_in(directory);
    if (shelf.missing.empty()) {
      return {data::byte_images(data::read_idx_pair(shelf.found[0], shelf.found[1])),
              data::byte_images(data::read_idx_pair(shelf.found[2], shelf.found[3])),
              fmt::format("MNIST in {}", directory.string())};
    }
    nowhere.fact("searched", directory.string(), describe(shelf, directory));
  }
  nowhere.hint(
      fmt::format("lockstep data fetch mnist --data-dir {}", quote_for_shell(data_dir.string())));
  nowhere.hint("--generated-digits, to train on generated digits without a download");
  throw nowhere;
}

}  // namespace lockstep
