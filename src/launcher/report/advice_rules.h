// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "launcher/report/advice.h"

// The rules of advise(), one function each. A rule that does not apply returns nothing.
namespace lockstep::report {

// advice_run.cpp: the end of the run
std::optional<Advice> see_out_of_memory(const RunFacts& facts);
std::optional<Advice> see_failure(const RunFacts& facts);
std::optional<Advice> see_time_limit(const RunFacts& facts);
std::optional<Advice> see_lost_launcher(const RunFacts& facts);
std::optional<Advice> see_restarts(const RunFacts& facts);
std::optional<Advice> see_bad_loss(const RunFacts& facts);

// advice_gpu.cpp
std::optional<Advice> see_gpu_errors(const RunFacts& facts);
std::optional<Advice> see_throttling(const RunFacts& facts);
std::optional<Advice> see_unused_gpus(const RunFacts& facts);
std::optional<Advice> see_loader_bound(const RunFacts& facts);
std::optional<Advice> see_host_bound(const RunFacts& facts);
std::optional<Advice> see_idle_gpus(const RunFacts& facts);
std::optional<Advice> see_gpu_memory(const RunFacts& facts);

// advice_host.cpp
std::optional<Advice> see_exchange(const RunFacts& facts);
std::optional<Advice> see_slow_rank(const RunFacts& facts);
std::optional<Advice> see_checkpoint_stalls(const RunFacts& facts);
std::optional<Advice> see_full_memory(const RunFacts& facts);
std::optional<Advice> see_unused_memory(const RunFacts& facts);
std::optional<Advice> see_full_cores(const RunFacts& facts);
std::optional<Advice> see_foreign_load(const RunFacts& facts);
std::optional<Advice> see_idle_cores(const RunFacts& facts);

// Formats a share: 0.804 is "80 %".
std::string percent(double share);

}  // namespace lockstep::report
