// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>

#include "contract/event.h"

namespace lockstep::metrics {

// Appends a worker's events to its file, one JSON line each. A file that cannot be written costs a
// warning, once, not the training.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& file);

  void write(const contract::Event& event);

 private:
  std::filesystem::path file_;
  std::ofstream stream_;
  bool warned_ = false;
};

}  // namespace lockstep::metrics
