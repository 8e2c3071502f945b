// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/failure/verdict.h"

#include <csignal>
#include <gmock/gmock.h>

namespace lockstep::supervisor {
namespace {

using ::testing::Optional;

constexpr int kUnasked = 0;

ProcessId rank(int number) {
  return ProcessId::worker(number);
}
os::ExitStatus code(int number) {
  return {.code = number, .signal = 0};
}
os::ExitStatus death(int signal) {
  return {.code = 0, .signal = signal};
}

TEST(Verdict, IsDoneWhenEveryWorkerLeftWithZero) {
  Verdict verdict;
  verdict.record_exit(rank(0), code(0), kUnasked);
  verdict.record_exit(rank(1), code(0), kUnasked);

  EXPECT_FALSE(verdict.is_over());
  EXPECT_EQ(verdict.cause(), std::nullopt);
  EXPECT_EQ(verdict.exit_code(), 0);
}

TEST(Verdict, BlamesTheFirstFailureAndNotThoseStoppedAfterIt) {
  Verdict verdict;
  verdict.record_exit(rank(2), code(3), kUnasked);
  verdict.record_exit(rank(0), death(SIGTERM), SIGTERM);
  verdict.record_exit(rank(1), death(SIGKILL), SIGKILL);
  verdict.record_exit(rank(3), code(1), SIGTERM);

  EXPECT_THAT(verdict.cause(), Optional(rank(2)));
  EXPECT_EQ(verdict.exit_code(), 3);
}

TEST(Verdict, ReportsASignalAsAShellDoes) {
  Verdict verdict;
  verdict.record_exit(rank(0), death(SIGSEGV), kUnasked);

  EXPECT_EQ(verdict.exit_code(), 139);
}

TEST(Verdict, BlamesADeathRatherThanThePeerThatNoticedIt) {
  Verdict together;
  together.record_exit(rank(0), code(75), kUnasked);
  together.record_exit(rank(1), code(3), kUnasked);
  together.record_exit(rank(2), death(SIGBUS), kUnasked);
  EXPECT_THAT(together.cause(), Optional(rank(2)));

  Verdict killed;
  killed.record_exit(rank(0), code(1), kUnasked);
  killed.record_exit(rank(1), death(SIGKILL), SIGTERM);
  EXPECT_THAT(killed.cause(), Optional(rank(1)));
  EXPECT_EQ(killed.exit_code(), 137);

  Verdict crashed;
  crashed.record_exit(rank(0), code(75), kUnasked);
  crashed.record_exit(rank(1), death(SIGSEGV), SIGTERM);
  EXPECT_THAT(crashed.cause(), Optional(rank(1)));
}

TEST(Verdict, KnowsThatALostPeerHasAnotherCause) {
  Verdict verdict;
  EXPECT_FALSE(verdict.may_have_another_cause());
  verdict.record_exit(rank(0), code(75), kUnasked);
  EXPECT_TRUE(verdict.may_have_another_cause());
  verdict.record_exit(rank(1), code(0), kUnasked);
  EXPECT_TRUE(verdict.may_have_another_cause());

  verdict.record_exit(rank(2), code(1), kUnasked);

  EXPECT_FALSE(verdict.may_have_another_cause());
  EXPECT_THAT(verdict.cause(), Optional(rank(2)));
}

TEST(Verdict, DoesNotBlameWhoCrashedOnBeingStopped) {
  Verdict verdict;
  verdict.record_exit(rank(0), code(1), kUnasked);
  verdict.record_exit(rank(1), death(SIGABRT), SIGTERM);

  EXPECT_THAT(verdict.cause(), Optional(rank(0)));
}

TEST(Verdict, BlamesNoWorkerWhenTheUserStopped) {
  Verdict verdict;
  verdict.record_stop(SIGINT);
  verdict.record_exit(rank(0), death(SIGTERM), SIGTERM);
  verdict.record_exit(rank(1), code(1), SIGTERM);

  EXPECT_TRUE(verdict.is_over());
  EXPECT_EQ(verdict.cause(), std::nullopt);
  EXPECT_EQ(verdict.exit_code(), 130);
}

TEST(Verdict, LeavesWithTryAgainWhenAWorkerDid) {
  Verdict verdict;
  verdict.record_stop(SIGTERM);
  verdict.record_exit(rank(0), code(75), SIGTERM);
  verdict.record_exit(rank(1), death(SIGKILL), SIGKILL);

  EXPECT_EQ(verdict.exit_code(), 75);
}

TEST(Verdict, TreatsTerminationAndHangupAlike) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    Verdict verdict;
    verdict.record_stop(signal);
    verdict.record_exit(rank(0), death(SIGTERM), SIGTERM);
    EXPECT_EQ(verdict.exit_code(), 143);
  }
}

TEST(Verdict, KeepsTheFailureThatCameBeforeTheStop) {
  Verdict verdict;
  verdict.record_exit(rank(0), code(3), kUnasked);
  verdict.record_stop(SIGINT);

  EXPECT_EQ(verdict.exit_code(), 3);
}

}  // namespace
}  // namespace lockstep::supervisor
