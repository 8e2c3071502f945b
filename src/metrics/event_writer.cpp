// SPDX-License-Identifier: Apache-2.0
#include "metrics/event_writer.h"

#include "base/log.h"

namespace lockstep::metrics {

void EventWriter::write(const contract::Event& event) {
  if (!file_.append(contract::to_json(event) + '\n') && !warned_) {
    warned_ = true;
    log::warn("cannot write events to {} ({}); training goes on without them",
              file_.path().string(),
              file_.fault());
  }
}

}  // namespace lockstep::metrics
