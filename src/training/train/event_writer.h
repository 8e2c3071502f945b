// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common/contract/event.h"
#include "common/os/rotating_file.h"

namespace lockstep::train {

// Appends the events of a worker to its file, one JSON line each. A full file is rotated
// (os::RotatingFile). If the file cannot be written, write() logs one warning and training
// continues; if the disk is full, only rank 0 logs it. Use a writer from one thread.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& file) : file_(file) {}

  void write(const contract::Event& event);

 private:
  os::RotatingFile file_;
  bool warned_ = false;
};

}  // namespace lockstep::train
