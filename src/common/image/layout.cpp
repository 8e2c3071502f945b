// SPDX-License-Identifier: Apache-2.0
#include "common/image/layout.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "common/os/directory.h"
#include "common/os/files.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;

Error cannot_use(const fs::path& folder, std::string_view reason) {
  return {ExitCode::Io, fmt::format("cannot use {}: {}", folder.string(), reason)};
}

Error with_source(Error error, const Labels& labels, const Labels::Label& label) {
  return std::move(error).fact("source",
                               labels.source.string(),
                               label.line > 0 ? fmt::format("line {}", label.line) : std::string());
}

}  // namespace

// Labels are positions in the sorted ids, as in torchvision's ImageFolder, so that models agree.
Classes::Classes(std::vector<std::string> ids) {
  std::ranges::sort(ids);
  for (std::string& id : ids) {
    numbers_.emplace(id, static_cast<int64_t>(names_.size()));
    names_.push_back({.id = id, .words = id});
  }
}

// words.txt of ImageNet describes all of WordNet; most of its lines belong to other classes.
void Classes::read_words(const fs::path& file, char separator) {
  if (!has_file(file)) {
    return;
  }
  Lines lines(file);
  for (std::string line; lines.next(line);) {
    const size_t end = line.find(separator);
    const int64_t number = end == std::string::npos ? -1 : find(line.substr(0, end));
    if (number >= 0) {
      names_[static_cast<size_t>(number)].words = trim(std::string_view(line).substr(end + 1));
    }
  }
}

int64_t Classes::find(std::string_view id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? -1 : found->second;
}

bool is_jpeg_name(std::string_view file) {
  const size_t dot = file.rfind('.');
  if (dot == std::string_view::npos || dot == 0) {
    return false;
  }
  const std::string ending = to_lower(file.substr(dot));
  return ending == ".jpeg" || ending == ".jpg";
}

std::vector<std::string> jpegs_of(std::vector<std::string> files) {
  std::erase_if(files, [](const std::string& file) { return !is_jpeg_name(file); });
  return files;
}

bool has_folder(const fs::path& path) {
  std::error_code ignored;  // an inaccessible path counts as missing
  return fs::is_directory(path, ignored);
}

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Lines::Lines(fs::path file) : file_(std::move(file)), text_(os::read_file(file_)) {}

// trim() also removes the carriage return of files that were edited on Windows.
bool Lines::next(std::string& line) {
  while (at_ < text_.size()) {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line = trim(std::string_view(text_).substr(at_, end - at_));
    at_ = end + 1;
    ++number_;
    if (!line.empty()) {
      return true;
    }
  }
  return false;
}

Error Lines::refusal(std::string_view reason) const {
  return Error(ExitCode::Io, fmt::format("cannot read {}: {}", file_.string(), reason))
      .fact("line", std::to_string(number_));
}

// A folder that is not a class is an error, not skipped: usually it is a misplaced archive, and
// images would be missing without notice.
std::shared_ptr<FolderStore> list_class_folders(const fs::path& folder, const Classes& classes) {
  auto store = std::make_shared<FolderStore>(classes.names());
  for (const std::string& id : os::list_directory(folder).folders) {
    if (classes.find(id) < 0) {
      throw cannot_use(folder, fmt::format("its folder {} does not belong to any class", id))
          .fact("classes", std::to_string(classes.names().size()));
    }
  }
  for (size_t label = 0; label < classes.names().size(); ++label) {
    const std::string& id = classes.names()[label].id;
    const fs::path directory =
        has_folder(folder / id / "images") ? folder / id / "images" : folder / id;
    if (!has_folder(directory)) {
      throw cannot_use(folder, fmt::format("class {} has no folder", id));
    }
    const std::vector<std::string> files = jpegs_of(os::list_directory(directory).files);
    if (files.empty()) {
      throw cannot_use(folder, fmt::format("class {} has no images", id))
          .fact("searched", directory.string(), "for .JPEG, .jpeg and .jpg");
    }
    store->enter(directory);
    for (const std::string& file : files) {
      store->add(file, static_cast<int64_t>(label));
    }
  }
  return store;
}

// Labels and files must match in both directions: a partly unpacked archive is detected.
std::shared_ptr<FolderStore> list_labelled(const fs::path& folder,
                                           const Labels& labels,
                                           const Classes& classes) {
  const std::vector<std::string> files = jpegs_of(os::list_directory(folder).files);
  for (const auto& [file, label] : labels.of) {
    if (!std::ranges::binary_search(files, file)) {
      throw with_source(cannot_use(folder, fmt::format("{} is missing", file)), labels, label);
    }
  }
  auto store = std::make_shared<FolderStore>(classes.names());
  store->enter(folder);
  for (const std::string& file : files) {
    const auto found = labels.of.find(file);
    if (found == labels.of.end()) {
      throw cannot_use(folder, fmt::format("the class of {} is unknown", file))
          .fact("searched", labels.source.string());
    }
    const int64_t number = classes.find(found->second.id);
    if (number < 0) {
      throw with_source(cannot_use(folder,
                                   fmt::format("{} belongs to {}, which is not a class of this set",
                                               file,
                                               found->second.id)),
                        labels,
                        found->second);
    }
    store->add(file, number);
  }
  return store;
}

}  // namespace lockstep::image
