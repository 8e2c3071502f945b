// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "image/folder_store.h"
#include "image/store.h"
#include "lockstep/error.h"

// What the folders of TinyImageNet and ImageNet have in common.
namespace lockstep::image {

// Classes in the order of their ids, and the way back.
class Classes {
 public:
  explicit Classes(std::vector<std::string> ids);

  // Takes words from lines "ID<separator>WORDS"; those of other classes are passed over. A file
  // that is not there changes nothing.
  void read_words(const std::filesystem::path& file, char separator);

  const std::vector<ClassName>& names() const { return names_; }

  // -1 where there is no such class.
  int64_t find(std::string_view id) const;

 private:
  std::vector<ClassName> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

// .JPEG, .jpg or .jpeg, in small or large letters.
bool is_jpeg_name(std::string_view file);

// Those of a sorted list of names that are JPEGs.
std::vector<std::string> jpegs_of(std::vector<std::string> files);

bool has_folder(const std::filesystem::path& path);
bool has_file(const std::filesystem::path& path);

// A text file, line by line, that knows where it is.
class Lines {
 public:
  explicit Lines(std::filesystem::path file);

  // The next line that is not empty, without blanks and line ends around it; false at the end.
  bool next(std::string& line);

  int64_t number() const { return number_; }

  // "cannot read FILE: REASON" at the line read last.
  Error refusal(std::string_view reason) const;

 private:
  std::filesystem::path file_;
  std::string text_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

// FOLDER/ID/*.JPEG or FOLDER/ID/images/*.JPEG, class by class, every class with an image. Throws
// where FOLDER has a folder that is no class.
std::shared_ptr<FolderStore> list_class_folders(const std::filesystem::path& folder,
                                                const Classes& classes);

// The classes of images, by file name, and where that was learnt.
struct Labels {
  struct Label {
    std::string id;
    int64_t line = 0;  // 0: not from a line
  };
  std::map<std::string, Label> of;
  std::filesystem::path source;
};

// The images of one folder; throws where they and the labels do not match.
std::shared_ptr<FolderStore> list_labelled(const std::filesystem::path& folder,
                                           const Labels& labels,
                                           const Classes& classes);

}  // namespace lockstep::image
