// SPDX-License-Identifier: Apache-2.0
#include "contract/pace.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <string>
#include <string_view>

#include "contract/event.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

constexpr size_t kLastOnes = 10;

// Nothing for a line that a killed worker has left unfinished.
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
    // A run that was started again goes back a few steps.
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
  // Days of training are millions of lines: only those that may tell are parsed.
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
