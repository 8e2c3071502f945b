// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster/node_sampler.h"
#include "contract/node_sample.h"

namespace lockstep::agent {

// Looks at this node every so often, on a thread of its own: a driver that hangs, a file system
// that is slow, a fault of ours in here costs the samples and nothing else.
class Sampler {
 public:
  using Workers = std::vector<cluster::WatchedWorker>;
  using Look = std::function<contract::NodeSample(const Workers&)>;

  // `make_look` is called on the thread, once; the look that it makes, for every sample.
  Sampler(std::chrono::duration<double> every, std::function<Look()> make_look);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  // Waits for a look that is under way, but not for one that hangs.
  ~Sampler();

  // Who is to be looked at from now on.
  void set_workers(Workers workers);

  // Readable when there may be lines.
  int fd() const;

  // The samples since the last call, a line each. Those that nobody takes are dropped in time, the
  // oldest first.
  std::string take_lines();

  // Why there will be no more samples; empty while there are. Told once.
  std::string take_fault();

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace lockstep::agent
