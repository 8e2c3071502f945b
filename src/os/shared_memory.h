// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep::os {

// A piece of memory that several processes of one machine map; given back when the last one unmaps
// it and its name is removed.
class SharedMemory {
 public:
  // Makes a new one, zeroed, with its memory set aside. Nothing when the machine has no room for it
  // (a small /dev/shm, say).
  static std::optional<SharedMemory> create(const std::string& name, size_t bytes);

  // Maps one that another process made; nothing when there is none of this name.
  static std::optional<SharedMemory> open(const std::string& name, size_t bytes);

  // Takes the name away; those who have it mapped keep the memory.
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
