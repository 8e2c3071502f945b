// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <torch/types.h>

#include "lockstep/communicator.h"
#include "training/comm/stream_waits.h"
#include "training/train/loop/phase_times.h"
#include "training/train/loop/stream_times.h"

namespace lockstep::train {

// How this worker spent its time. `exchange` is absent if it cannot be measured.
struct TimeSplit {
  double data = 0;
  double compute = 0;
  double update = 0;
  double checkpoint = 0;
  std::optional<double> exchange = {};
};

// Measures how this worker spends its time, on the host and on the GPU.
class StepTimer {
 public:
  using Clock = PhaseTimes::Clock;

  // `communicator` must outlive this.
  StepTimer(const Communicator& communicator, torch::Device device)
      : communicator_(communicator), device_(device) {}

  // Measures the time of the GPU as well, from the next step on.
  void measure_stream() { stream_times_.emplace(device_); }

  // The phases of a step, in this order. begin_update() is omitted if the update is not separate,
  // as in a CUDA graph.
  void begin_data() { phase_times_.enter(PhaseTimes::Data); }
  void begin_step();
  void begin_update();
  void end_update();  // requires begin_update()
  void end_step();

  // Adds time for which training was suspended by a checkpoint.
  void add_checkpoint(Clock::duration time) { phase_times_.add(PhaseTimes::Checkpoint, time); }

  // Excludes the time until the next step from the idle time of the GPU.
  void pause();

  // Returns the times since the last call. `are_all_done`: the GPU has completed all steps.
  TimeSplit take(bool are_all_done);

  // Returns the mean times per step since the last call, as text (PhaseTimes::take()).
  std::string take_text(int64_t steps) { return phase_times_.take(steps); }

 private:
  void set_waits_part(comm::StreamWaits::Part part) const;
  Clock::duration waited() const;  // for other workers

  const Communicator& communicator_;
  torch::Device device_;
  PhaseTimes phase_times_;
  std::optional<StreamTimes> stream_times_;
  Clock::duration waited_before_phase_ = {};
};

}  // namespace lockstep::train
