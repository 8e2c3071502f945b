// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>

#include "common/os/fd.h"
#include "lockstep/trainer.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {

// Measures the time of the steps after the warm-up; the device is idle at both ends.
class StepTimer {
 public:
  StepTimer(torch::Device device, int64_t warmup, int64_t steps)
      : device_(device), first_(warmup), last_(warmup + steps) {}

  void after_step(int64_t step) {
    if (step == first_ || step == last_) {
      wait_for(device_);
      (step == first_ ? begin_ : end_) = std::chrono::steady_clock::now();
    }
  }

  double microseconds_per_step() const {
    return std::chrono::duration<double, std::micro>(end_ - begin_).count() /
           static_cast<double>(last_ - first_);
  }

 private:
  torch::Device device_;
  int64_t first_;
  int64_t last_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point end_;
};

class TimerCallback final : public Callback {
 public:
  explicit TimerCallback(StepTimer& timer) : timer_(timer) {}
  void on_step(const TrainState& state) override { timer_.after_step(state.step); }

 private:
  StepTimer& timer_;
};

// Runs a training without its output, which would mix with the results.
template <typename Model, typename Callable = CrossEntropy>
void fit_silently(Trainer& trainer,
                  Model& net,
                  torch::optim::Optimizer& optimizer,
                  const DatasetPtr& train,
                  Callable loss = {}) {
  std::fflush(stdout);
  const os::Silence silence(1);
  trainer.fit(net, optimizer, train, nullptr, loss);
  std::fflush(stdout);
}

}  // namespace lockstep::bench
