// SPDX-License-Identifier: Apache-2.0
#include "agent/guard.h"

#include <csignal>
#include <gtest/gtest.h>

#include "os/process.h"

namespace lockstep::agent {
namespace {

// Leaves as a launcher does whose run has ended with 75 when `signal` comes.
[[noreturn]] void end_beside(int signal) {
  const auto code = guard([signal] { std::raise(signal); });
  os::leave(code.value_or(75));
}

// Slurm sends SIGTERM to a run that has just put its job back, and a script that hands its signals
// on sends it once more.
TEST(GuardDeathTest, LeavesWithTheCodeOfARunThatHasEndedBeforeASignalCame) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    EXPECT_EXIT(end_beside(signal), ::testing::ExitedWithCode(75), "") << signal;
  }
}

}  // namespace
}  // namespace lockstep::agent
