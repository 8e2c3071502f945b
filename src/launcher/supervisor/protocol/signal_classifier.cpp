// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/signal_classifier.h"

#include "common/os/process.h"

namespace lockstep::supervisor {
namespace {

// Much longer than the delay of the guard (kAfterSlurm, 30 ms), so that a loaded machine does not
// turn one signal into two, and shorter than two signals that a user sends on purpose.
constexpr std::chrono::seconds kSameCall(1);

}  // namespace

// The name of the sender is the only mark. The kernel reports sender 0 for a process outside of the
// process namespace, as in some containers; such a signal counts as one from a user.
bool is_from_slurm(const os::SignalFd::Arrival& arrival) {
  return arrival.sender != 0 && os::process_name(arrival.sender).starts_with("slurmstepd");
}

// The sequences for one signal of Slurm, as an agent sees them:
//
//   proctrack/cgroup      guard only:           forwarded copy             -> OnlyHere
//   proctrack/linuxproc   all processes:        direct, then forwarded     -> Direct, Again
SignalClassifier::Meaning SignalClassifier::read(const os::SignalFd::Arrival& arrival,
                                                 Clock::time_point now) {
  const auto found = received_.find(arrival.number);
  const bool is_copy = found != received_.end() && now - found->second < kSameCall;
  if (arrival.word == kFromSlurm) {
    return is_copy ? Meaning::Again : Meaning::OnlyHere;
  }
  if (is_from_slurm(arrival)) {
    received_[arrival.number] = now;
    return Meaning::Direct;
  }
  return Meaning::Ask;
}

}  // namespace lockstep::supervisor
