// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "launcher/doctor/facts.h"
#include "launcher/plan/request.h"

namespace lockstep::doctor {

struct ExamineOptions {
  std::string version;                // version of lockstep
  bool is_quick = false;              // start no external program except srun
  std::chrono::seconds patience{20};  // maximum time to wait for the nodes
};

// Collects the facts of all nodes of the surrounding job, or of this machine outside of a job. Ends
// within about a minute even if a node or program hangs.
Facts examine(const plan::HostEnvironment& here, const ExamineOptions& options);

}  // namespace lockstep::doctor
