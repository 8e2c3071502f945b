// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/signal_classifier.h"

#include "common/os/process.h"

namespace lockstep::supervisor {
namespace {

constexpr std::chrono::seconds kSameCall(1);

}  // namespace

bool is_from_slurm(const os::SignalFd::Arrival& arrival) {
  return arrival.sender != 0 && os::process_name(arrival.sender).starts_with("slurmstepd");
}

SignalClassifier::Meaning SignalClassifier::read(const os::SignalFd::Arrival& arrival,
                                                 Clock::time_point now) {
  const auto told = told_.find(arrival.number);
  const bool was_told = told != told_.end() && now - told->second < kSameCall;
  if (arrival.word == kFromSlurm) {
    return was_told ? Meaning::Again : Meaning::OnlyHere;
  }
  if (is_from_slurm(arrival)) {
    told_[arrival.number] = now;
    return Meaning::Told;
  }
  return Meaning::Ask;
}

}  // namespace lockstep::supervisor
