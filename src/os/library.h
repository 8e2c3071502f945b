// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lockstep::os {

// A shared library that this machine may or may not have, loaded for as long as this object lives.
class Library {
 public:
  // Nothing when it is not found or cannot be loaded.
  static std::optional<Library> find(const std::string& name);

  Library(Library&& other) noexcept;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  // A function by its name; null when the library has none. `Function` is a pointer's type.
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
