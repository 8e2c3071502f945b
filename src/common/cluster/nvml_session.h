// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/cluster/nvml_calls.h"
#include "common/os/library.h"

namespace lockstep::cluster {

// NVML, initialized for a few questions by name. class Nvml samples repeatedly.
class NvmlSession {
 public:
  // Null if the library is not installed or cannot reach the driver.
  static std::unique_ptr<NvmlSession> open(const std::string& library) {
    auto found = os::Library::find(library);
    if (!found) {
      return nullptr;
    }
    std::unique_ptr<NvmlSession> session(new NvmlSession(std::move(*found)));
    session->is_ready_ = session->call("nvmlInit_v2") == nvml::kSuccess;
    return session->is_ready_ ? std::move(session) : nullptr;
  }
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;
  ~NvmlSession() {
    if (is_ready_) {
      call("nvmlShutdown");
    }
  }

  // kNotSupported if this version of the library lacks the function.
  template <typename... Arguments>
  nvml::Result call(const char* name, Arguments... arguments) const {
    const auto function = library_.function<nvml::Result (*)(Arguments...)>(name);
    return function != nullptr ? function(arguments...) : nvml::kNotSupported;
  }

 private:
  explicit NvmlSession(os::Library library) : library_(std::move(library)) {}

  os::Library library_;
  bool is_ready_ = false;
};

}  // namespace lockstep::cluster
