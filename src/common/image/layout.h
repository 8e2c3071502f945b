// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/image/folder_store.h"
#include "common/image/store.h"
#include "lockstep/error.h"

// Reading of the folders of TinyImageNet and ImageNet.
namespace lockstep::image {

// Classes in the order of their ids, and the lookup by id.
class Classes {
 public:
  explicit Classes(std::vector<std::string> ids);

  // Reads descriptions from lines "ID<separator>WORDS" and ignores other classes. A missing file
  // changes nothing.
  void read_words(const std::filesystem::path& file, char separator);

  const std::vector<ClassName>& names() const { return names_; }

  // -1 if there is no such class.
  int64_t find(std::string_view id) const;

 private:
  std::vector<ClassName> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

// Whether the name ends in .jpeg or .jpg, in lower or upper case.
bool is_jpeg_name(std::string_view file);

// The JPEG files in a sorted list of names.
std::vector<std::string> jpegs_of(std::vector<std::string> files);

bool has_folder(const std::filesystem::path& path);
bool has_file(const std::filesystem::path& path);

// Reads a text file line by line, with line numbers for errors.
class Lines {
 public:
  explicit Lines(std::filesystem::path file);

  // The next non-empty line, trimmed; false at the end.
  bool next(std::string& line);

  int64_t number() const { return number_; }

  // The Error "cannot read FILE: REASON" with the current line number.
  Error refusal(std::string_view reason) const;

 private:
  std::filesystem::path file_;
  std::string text_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

// The images FOLDER/ID/*.JPEG or FOLDER/ID/images/*.JPEG, class by class. Throws an Error if a
// class has no images or if FOLDER contains a folder that is not a class.
std::shared_ptr<FolderStore> list_class_folders(const std::filesystem::path& folder,
                                                const Classes& classes);

// The classes of images by file name, and the source of this information.
struct Labels {
  struct Label {
    std::string id;
    int64_t line = 0;  // 0: not from a list
  };
  std::map<std::string, Label> of;
  std::filesystem::path source;
};

// The images of one folder; throws an Error if files and labels do not match.
std::shared_ptr<FolderStore> list_labelled(const std::filesystem::path& folder,
                                           const Labels& labels,
                                           const Classes& classes);

}  // namespace lockstep::image
