// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::os {

// An optional shared library, loaded for the lifetime of this object.
class Library {
 public:
  // Nothing if it is not found or cannot be loaded.
  static std::optional<Library> find(const std::string& name);

  // The directory of the loaded library that contains `symbol`; empty if it is unknown.
  static std::filesystem::path directory_of(const void* symbol);

  Library(Library&& other) noexcept;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  // A function of the library; null if there is none. `Function` is a pointer type.
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(symbol(name));
  }

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* symbol(const char* name) const;

  void* handle_;
};

}  // namespace lockstep::os
