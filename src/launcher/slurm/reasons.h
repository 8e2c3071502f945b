// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Explanations of the pending reasons of Slurm.
namespace lockstep::slurm {

struct Explanation {
  std::string meaning;  // clause: "all suitable nodes are busy"
  std::string advice;   // next step; empty: only wait
};

// Explains why a job is pending: "Resources", "QOSMaxGRESPerUser", "ReqNodeNotAvail,
// UnavailableNodes:n2". An unknown reason is returned unchanged.
Explanation explain_reason(std::string_view reason);

// Advice for a job id; empty: only wait.
std::string advice_for(std::string_view reason, std::string_view job);

// "all suitable nodes are busy (Resources)"; an unknown reason unchanged.
std::string describe_reason(std::string_view reason);

// Whether a job with this reason never starts without user action.
bool is_hopeless(std::string_view reason);

}  // namespace lockstep::slurm
