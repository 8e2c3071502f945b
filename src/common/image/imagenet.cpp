// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/image/candidates.h"
#include "common/image/layout.h"
#include "common/image/store.h"
#include "common/os/directory.h"
#include "common/os/files.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSolution = "LOC_val_solution.csv";
constexpr const char* kGroundTruth = "ILSVRC2012_validation_ground_truth.txt";

// The parent directory of train/ and val/: the directory itself, or as in the challenge archives.
fs::path images_of(const fs::path& directory) {
  const fs::path below = directory / "Data" / "CLS-LOC";
  return has_folder(below / "train") ? below : directory;
}

std::string objection_to(const fs::path& directory) {
  const fs::path images = images_of(directory);
  if (!has_folder(images / "train")) {
    return "neither train/ nor Data/CLS-LOC/train/";
  }
  if (!has_folder(images / "val")) {
    return fmt::format("no {}/", (images / "val").lexically_relative(directory).string());
  }
  return {};
}

// In or next to val/, in the directory of the set, or above it, as in the archive of Kaggle.
fs::path find_next_to(const fs::path& directory, std::string_view name) {
  const fs::path images = images_of(directory);
  for (const fs::path& place :
       {images / "val", images, directory, directory / "devkit" / "data", directory / ".."}) {
    if (has_file(place / name)) {
      return (place / name).lexically_normal();
    }
  }
  return {};
}

// The list of Kaggle has a header and lines such as
// "ILSVRC2012_val_00048981,n03995372 85 1 499 272".
Labels read_solution(const fs::path& file) {
  Labels labels;
  labels.source = file;
  Lines lines(file);
  for (std::string line; lines.next(line);) {
    const std::vector<std::string> fields = split(line, ',');
    if (lines.number() == 1 && line.starts_with("ImageId")) {
      continue;
    }
    if (fields.size() != 2) {
      throw lines.refusal("expected lines of IMAGE,CLASS and boxes").fact("found", line);
    }
    const std::string id = fields[1].substr(0, fields[1].find(' '));
    if (!labels.of.try_emplace(fields[0] + ".JPEG", Labels::Label{id, lines.number()}).second) {
      throw lines.refusal(fmt::format("{} appears twice", fields[0]));
    }
  }
  return labels;
}

// One XML file per image. All objects of an image have the same class, in <name>.
Labels read_annotations(const fs::path& directory) {
  Labels labels;
  labels.source = directory;
  for (const std::string& file : os::list_directory(directory).files) {
    const fs::path path = directory / file;
    if (path.extension() != ".xml") {
      continue;
    }
    const std::string text = os::read_file(path);
    const size_t begin = text.find("<name>");
    const size_t end = text.find("</name>");
    if (begin == std::string::npos || end == std::string::npos || end < begin + 6) {
      throw Error(ExitCode::Io,
                  fmt::format("cannot read {}: it has no class in <name>", path.string()));
    }
    const std::string_view id = std::string_view(text).substr(begin + 6, end - begin - 6);
    labels.of.emplace(path.stem().string() + ".JPEG", Labels::Label{std::string(trim(id))});
  }
  return labels;
}

[[noreturn]] void refuse_unlabelled(const fs::path& directory, const fs::path& val) {
  Error error(ExitCode::Io,
              fmt::format("cannot use {}: the classes of its images are unknown", val.string()));
  error.fact("missing", kSolution, "next to or above the images");
  error.fact("missing", (directory / "Annotations" / "CLS-LOC" / "val").string());
  const fs::path numbers = find_next_to(directory, kGroundTruth);
  if (!numbers.empty()) {
    error.fact("unusable", numbers.string(), "its class numbers require meta.mat");
  }
  error.hint("add LOC_val_solution.csv from Kaggle, or move the images to val/CLASS/");
  throw Error(error);
}

// Three common layouts, in this order: one folder per class (as torchvision needs it), the list of
// Kaggle, the XML annotations of the challenge. The ground truth list of the development kit is not
// usable, since its numbers refer to a MATLAB file.
StorePtr open_val(const fs::path& directory, const Classes& classes) {
  const fs::path val = images_of(directory) / "val";
  if (!os::list_directory(val).folders.empty()) {
    return list_class_folders(val, classes);
  }
  if (const fs::path solution = find_next_to(directory, kSolution); !solution.empty()) {
    return list_labelled(val, read_solution(solution), classes);
  }
  const fs::path annotations = directory / "Annotations" / "CLS-LOC" / "val";
  if (!has_folder(annotations)) {
    refuse_unlabelled(directory, val);
  }
  return list_labelled(val, read_annotations(annotations), classes);
}

Sets open_folders(const fs::path& directory) {
  const fs::path train = images_of(directory) / "train";
  Classes classes(os::list_directory(train).folders);
  if (classes.names().empty()) {
    throw Error(ExitCode::Io, fmt::format("cannot use {}: it has no folders", train.string()))
        .hint("also unpack the archives in ILSVRC2012_img_train.tar, each into its own folder");
  }
  classes.read_words(find_next_to(directory, "words.txt"), '\t');
  classes.read_words(find_next_to(directory, "LOC_synset_mapping.txt"), ' ');
  Sets sets;
  sets.train = list_class_folders(train, classes);
  sets.test = open_val(directory, classes);
  return sets;
}

}  // namespace

Sets find_imagenet(const fs::path& data_dir, Look look) {
  return find_sets({.title = "ImageNet",
                    .word = "imagenet",
                    .directories = {data_dir / "imagenet",
                                    data_dir / "ILSVRC",
                                    data_dir / "imagenet" / "ILSVRC",
                                    data_dir},
                    .objection = objection_to,
                    .open = open_folders,
                    .hints = {fmt::format("put train/ and val/ of ImageNet into {}",
                                          (data_dir / "imagenet").string())}},
                   data_dir,
                   look);
}

}  // namespace lockstep::image
