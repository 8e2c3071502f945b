// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/cluster/node_sampler.h"
#include "common/contract/node_sample.h"

namespace lockstep::supervisor {

// Samples this node periodically on its own thread. A driver that hangs, a slow file system or an
// exception affects only the samples, not the run.
class SampleThread {
 public:
  using Workers = std::vector<cluster::WatchedWorker>;
  using Look = std::function<contract::NodeSample(const Workers&)>;

  // `make_look` is called once, on the thread. The function that it returns is called per sample.
  SampleThread(std::chrono::duration<double> every, std::function<Look()> make_look);
  SampleThread(const SampleThread&) = delete;
  SampleThread& operator=(const SampleThread&) = delete;
  // Waits for a sample in progress, but not for one that hangs.
  ~SampleThread();

  // The workers to include from now on.
  void set_workers(Workers workers);

  // Readable if there may be lines.
  int fd() const;

  // The samples since the last call, one per line. If they are not taken, the oldest are dropped.
  std::string take_lines();

  // The error that ended sampling; empty if there is none. Returned once.
  std::string take_fault();

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace lockstep::supervisor
