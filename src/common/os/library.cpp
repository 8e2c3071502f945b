// SPDX-License-Identifier: Apache-2.0
#include "common/os/library.h"

#include <dlfcn.h>
#include <utility>

namespace lockstep::os {

// RTLD_NOW: a library with a missing dependency fails here and not at its first call. RTLD_LOCAL:
// its symbols do not replace those of libraries that are loaded later.
std::optional<Library> Library::find(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return std::nullopt;
  }
  return Library(handle);
}

std::filesystem::path Library::directory_of(const void* symbol) {
  Dl_info info = {};
  if (::dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  return std::filesystem::path(info.dli_fname).parent_path();
}

Library::Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Library::~Library() {
  if (handle_ != nullptr) {
    ::dlclose(handle_);
  }
}

void* Library::symbol(const char* name) const {
  return ::dlsym(handle_, name);
}

}  // namespace lockstep::os
