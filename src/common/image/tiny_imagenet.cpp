// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/image/candidates.h"
#include "common/image/layout.h"
#include "common/image/store.h"
#include "common/os/directory.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;

std::string objection_to(const fs::path& directory) {
  if (!has_folder(directory / "train")) {
    return "no train/";
  }
  if (!has_folder(directory / "val")) {
    return "no val/";
  }
  return {};
}

// The classes are in wnids.txt. If it is missing, the folders of train/ are the classes. wnids.txt
// is not sorted in the original archive; Classes sorts it, so that labels agree with those of
// torchvision's ImageFolder.
Classes classes_of(const fs::path& directory) {
  std::vector<std::string> ids;
  if (!has_file(directory / "wnids.txt")) {
    ids = os::list_directory(directory / "train").folders;
  } else {
    Lines lines(directory / "wnids.txt");
    std::set<std::string> known;
    for (std::string line; lines.next(line);) {
      if (line.find_first_of(" \t/") != std::string::npos) {
        throw lines.refusal("expected one class per line, such as n01443537").fact("found", line);
      }
      if (!known.insert(line).second) {
        throw lines.refusal(fmt::format("{} appears twice", line));
      }
      ids.push_back(line);
    }
  }
  Classes classes(std::move(ids));
  classes.read_words(directory / "words.txt", '\t');
  return classes;
}

// val_annotations.txt: file, class and box, separated by tabs.
Labels read_annotations(const fs::path& file) {
  Labels labels;
  labels.source = file;
  Lines lines(file);
  for (std::string line; lines.next(line);) {
    const std::vector<std::string> fields = split(line, '\t');
    if (fields.size() < 2) {
      throw lines.refusal("expected lines of FILE, CLASS and a box, separated by tabs")
          .fact("found", line);
    }
    if (!labels.of.try_emplace(fields[0], Labels::Label{fields[1], lines.number()}).second) {
      throw lines.refusal(fmt::format("{} appears twice", fields[0]));
    }
  }
  return labels;
}

Sets open_folders(const fs::path& directory) {
  const Classes classes = classes_of(directory);
  Sets sets;
  sets.train = list_class_folders(directory / "train", classes);
  const fs::path annotations = directory / "val" / "val_annotations.txt";
  // Rearranged for torchvision as val/CLASS/. The list can still exist.
  if (!has_folder(directory / "val" / "images")) {
    sets.test = list_class_folders(directory / "val", classes);
  } else if (has_file(annotations)) {
    sets.test = list_labelled(directory / "val" / "images", read_annotations(annotations), classes);
  } else {
    throw Error(ExitCode::Io,
                fmt::format("cannot use {}: the classes of its images are unknown",
                            (directory / "val").string()))
        .fact("missing", annotations.string())
        .hint("restore the file from tiny-imagenet-200.zip, or move the images to val/CLASS/");
  }
  return sets;
}

}  // namespace

Sets find_tiny_imagenet(const fs::path& data_dir, Look look) {
  if (data_dir.filename() == "tiny-imagenet-like") {
    const std::string above = quote_for_shell(data_dir.parent_path().string());
    return find_sets(
        {.title = "generated images",
         .word = "tiny-imagenet",
         .directories = {data_dir},
         .objection = objection_to,
         .open = open_folders,
         .hints = {fmt::format("lockstep data make tiny-imagenet-like --data-dir {}", above)}},
        data_dir,
        look);
  }
  return find_sets(
      {.title = "TinyImageNet",
       .word = "tiny-imagenet",
       .directories = {data_dir / "tiny-imagenet-200",
                       data_dir / "tiny-imagenet",
                       data_dir / "tiny-imagenet-like",
                       data_dir},
       .objection = objection_to,
       .open = open_folders,
       .hints = {fmt::format("unpack tiny-imagenet-200.zip in {}", data_dir.string()),
                 fmt::format("lockstep data make tiny-imagenet-like --data-dir {}, to train on "
                             "generated images",
                             quote_for_shell(data_dir.string()))}},
      data_dir,
      look);
}

}  // namespace lockstep::image
