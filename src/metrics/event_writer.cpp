// SPDX-License-Identifier: Apache-2.0
#include "metrics/event_writer.h"

#include <system_error>

#include "base/log.h"

namespace lockstep::metrics {

EventWriter::EventWriter(const std::filesystem::path& file) : file_(file) {
  std::error_code fault;
  std::filesystem::create_directories(file.parent_path(), fault);
  stream_.open(file, std::ios::app);
}

void EventWriter::write(const contract::Event& event) {
  stream_ << contract::to_json(event) << '\n' << std::flush;
  if (!stream_ && !warned_) {
    warned_ = true;
    log::warn("cannot write events to {}; training goes on without them", file_.string());
  }
}

}  // namespace lockstep::metrics
