// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/image/store.h"

namespace lockstep::image {

// Images as files in folders. All files are added before the store is shared. Names are stored in
// one string, because there can be millions of them.
class FolderStore : public Store {
 public:
  explicit FolderStore(std::vector<ClassName> classes) : classes_(std::move(classes)) {}

  // Sets the folder of the files that are added next.
  void enter(const std::filesystem::path& folder);
  void add(std::string_view file, int64_t label);

  int64_t size() const override { return static_cast<int64_t>(items_.size()); }
  int64_t label(int64_t index) const override { return item(index).label; }
  std::string name(int64_t index) const override;
  std::span<const std::byte> read(int64_t index, std::vector<std::byte>& buffer) const override;
  const std::vector<ClassName>& classes() const override { return classes_; }

 private:
  struct Item {
    uint64_t name;  // offset in names_
    int32_t folder;
    int32_t label;
  };
  const Item& item(int64_t index) const { return items_.at(static_cast<size_t>(index)); }

  std::vector<ClassName> classes_;
  std::vector<std::string> folders_;
  std::vector<Item> items_;
  std::string names_;  // each terminated by a zero byte
};

}  // namespace lockstep::image
