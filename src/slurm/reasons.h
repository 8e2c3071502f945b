// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Slurm's words in a researcher's.
namespace lockstep::slurm {

struct Explanation {
  std::string meaning;  // half a sentence: "all suitable nodes are busy"
  std::string advice;   // what one can do; empty: nothing but wait
};

// Why a job waits: "Resources", "QOSMaxGRESPerUser", "ReqNodeNotAvail, UnavailableNodes:n2". What
// is not known is passed on as it is.
Explanation explain_reason(std::string_view reason);

// What can be done about it, with the job's number in it; empty: nothing but wait.
std::string advice_for(std::string_view reason, std::string_view job);

// "all suitable nodes are busy (Resources)"; an unknown reason alone.
std::string describe_reason(std::string_view reason);

// Whether a job with this reason never starts unless somebody does something.
bool is_hopeless(std::string_view reason);

}  // namespace lockstep::slurm
