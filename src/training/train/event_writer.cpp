// SPDX-License-Identifier: Apache-2.0
#include "training/train/event_writer.h"

#include "common/base/log.h"

namespace lockstep::train {

// Each event is one write() to a file of this worker, so that no lock and no other worker is
// involved. A failure is reported once; later events are still attempted, since a full disk can be
// cleared.
void EventWriter::write(const contract::Event& event) {
  if (file_.append(contract::to_json(event) + '\n') || warned_) {
    return;
  }
  warned_ = true;
  // A full disk affects all workers alike: only rank 0 warns of it. Other faults may concern this
  // worker alone.
  if (event.rank == 0 || !file_.is_out_of_room()) {
    log::warn("cannot write events to {} ({}); training continues without them",
              file_.path().string(),
              file_.fault());
  }
}

}  // namespace lockstep::train
