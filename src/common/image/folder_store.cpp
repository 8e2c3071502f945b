// SPDX-License-Identifier: Apache-2.0
#include "common/image/folder_store.h"

#include "common/os/files.h"

namespace lockstep::image {

void FolderStore::enter(const std::filesystem::path& folder) {
  folders_.push_back(folder.string() + "/");
}

// 16 bytes per image and one byte array for all names: 1.3 million strings with their folders would
// take several times as much memory in every worker.
void FolderStore::add(std::string_view file, int64_t label) {
  items_.push_back({.name = names_.size(),
                    .folder = static_cast<int32_t>(folders_.size()) - 1,
                    .label = static_cast<int32_t>(label)});
  names_.append(file).push_back('\0');
}

std::string FolderStore::name(int64_t index) const {
  const Item& item = this->item(index);
  return folders_[static_cast<size_t>(item.folder)] + (names_.data() + item.name);
}

std::span<const std::byte> FolderStore::read(int64_t index, std::vector<std::byte>& buffer) const {
  const os::InputFile file(name(index));
  // Never shrink the buffer: a vector clears the new elements when it grows again.
  if (buffer.size() < file.size()) {
    buffer.resize(file.size());
  }
  file.read(0, buffer.data(), file.size());
  return {buffer.data(), file.size()};
}

}  // namespace lockstep::image
