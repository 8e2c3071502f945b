// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "contract/node_sample.h"

namespace lockstep::cluster {

// NVIDIA's management library, where this machine has it: how each GPU is doing. What a GPU or an
// older driver does not tell is absent from its sample. A sick driver may make a call wait for
// ever; so this is for a thread of its own.
class Nvml {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  // Never throws: where there is no library, no driver or no GPU, why_not() says so.
  explicit Nvml(const std::string& library = kLibrary);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  // In words, why there is nothing to sample; empty when there are GPUs.
  const std::string& why_not() const { return why_not_; }

  // Rates are since the call before: absent in the first.
  std::vector<contract::GpuSample> sample(Clock::time_point now = Clock::now());

 private:
  class Driver;

  std::string why_not_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace lockstep::cluster
