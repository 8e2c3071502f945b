// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "contract/event.h"
#include "os/rotating_file.h"

namespace lockstep::metrics {

// Appends a worker's events to its file, one JSON line each; a full file becomes an old part, as
// os::RotatingFile does it. A file that cannot be written costs a warning, once, not the training;
// of a full disk rank 0 warns for all.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& file) : file_(file) {}

  void write(const contract::Event& event);

 private:
  os::RotatingFile file_;
  bool warned_ = false;
};

}  // namespace lockstep::metrics
