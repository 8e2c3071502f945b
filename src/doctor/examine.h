// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "doctor/facts.h"
#include "plan/request.h"

namespace lockstep::doctor {

struct ExamineOptions {
  std::string version;                // lockstep's
  bool is_quick = false;              // start no other program, but srun
  std::chrono::seconds patience{20};  // for the nodes to come
};

// Gathers all facts: of every node of the job in which this process is, else of this machine. Ends
// within about a minute, whatever hangs.
Facts examine(const plan::Surroundings& here, const ExamineOptions& options);

}  // namespace lockstep::doctor
