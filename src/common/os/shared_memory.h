// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep::os {

// Memory shared by several processes of a machine; freed when its name is removed and the last
// process unmaps it.
class SharedMemory {
 public:
  // Creates a new zeroed segment and allocates its pages. Nothing if there is not enough memory,
  // for example with a small /dev/shm.
  static std::optional<SharedMemory> create(const std::string& name, size_t bytes);

  // Maps a segment of another process; nothing if the name does not exist.
  static std::optional<SharedMemory> open(const std::string& name, size_t bytes);

  // Removes the name; processes that have mapped it keep the memory.
  static void remove_name(const std::string& name);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  SharedMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  size_t bytes_;
};

}  // namespace lockstep::os
