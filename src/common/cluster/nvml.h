// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/contract/node_sample.h"

namespace lockstep::cluster {

// The state of each GPU from NVIDIA's management library, if it is installed. Values that a GPU or
// an old driver does not report are absent from the sample. A call can block forever if the driver
// hangs, so use it in a thread of its own.
class Nvml {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  // Never throws. why_not() explains why no library, driver or GPU is available.
  explicit Nvml(const std::string& library = kLibrary);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  // Why there are no samples; empty if there are GPUs.
  const std::string& why_not() const { return why_not_; }

  // Rates cover the time since the previous call and are absent in the first.
  std::vector<contract::GpuSample> sample(Clock::time_point now = Clock::now());

 private:
  class Driver;

  std::string why_not_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace lockstep::cluster
