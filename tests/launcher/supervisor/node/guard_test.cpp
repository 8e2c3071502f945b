// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/node/guard.h"

#include <csignal>
#include <gtest/gtest.h>

#include "common/os/process.h"

namespace lockstep::supervisor {
namespace {

// Exits like a launcher whose run has ended with 75 when `signal` arrives.
[[noreturn]] void end_next_to(int signal) {
  const auto code = guard([signal] { std::raise(signal); });
  os::leave(code.value_or(75));
}

// Slurm sends SIGTERM to a run that has just requeued its job, and a script that forwards signals
// sends it again.
TEST(GuardDeathTest, LeavesWithTheCodeOfARunThatHasEndedBeforeASignalCame) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    EXPECT_EXIT(end_next_to(signal), ::testing::ExitedWithCode(75), "") << signal;
  }
}

}  // namespace
}  // namespace lockstep::supervisor
