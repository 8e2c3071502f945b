// SPDX-License-Identifier: Apache-2.0
#include "common/contract/pace.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <string>
#include <string_view>

#include "common/contract/event.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

// The recent maximum of several checkpoints: their duration depends on the load of the file system.
constexpr size_t kLastOnes = 10;

// Nothing for the incomplete line of a killed worker.
std::optional<Event> find_event(const std::string& line) {
  try {
    return parse_event(line);
  } catch (const Error&) {
    return std::nullopt;
  }
}

struct Moment {
  double time = 0;
  double step = 0;
};

class Measure {
 public:
  void take(const Event& event) {
    if (const auto seconds = find_number(event, "seconds"); event.kind == "checkpoint" && seconds) {
      checkpoints_.push_back(*seconds);
      if (checkpoints_.size() > kLastOnes) {
        checkpoints_.pop_front();
      }
    }
    if (const auto step = find_number(event, "step"); event.kind == "step" && step) {
      before_ = last_;
      last_ = Moment{.time = event.time, .step = *step};
    }
  }

  Pace pace() const {
    Pace pace;
    if (!checkpoints_.empty()) {
      pace.checkpoint_seconds = *std::max_element(checkpoints_.begin(), checkpoints_.end());
    }
    // After a restart, a run repeats some steps.
    if (before_ && last_->step > before_->step && last_->time > before_->time) {
      pace.step_seconds = (last_->time - before_->time) / (last_->step - before_->step);
    }
    return pace;
  }

 private:
  std::deque<double> checkpoints_;
  std::optional<Moment> before_;
  std::optional<Moment> last_;
};

}  // namespace

Pace find_pace(const RunDirectory& run) {
  Measure measure;
  std::ifstream file(run.events(0));
  // Days of training produce millions of lines: parse only those of the relevant kinds.
  for (std::string line; std::getline(file, line);) {
    const std::string_view head = std::string_view(line).substr(0, 24);
    if (head.find("\"checkpoint\"") != head.npos || head.find("\"step\"") != head.npos) {
      if (const auto event = find_event(line)) {
        measure.take(*event);
      }
    }
  }
  return measure.pace();
}

}  // namespace lockstep::contract
