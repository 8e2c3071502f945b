// SPDX-License-Identifier: Apache-2.0
#include "common/os/signals.h"

#include <condition_variable>
#include <gmock/gmock.h>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "common/os/pipe.h"

namespace lockstep::os {
namespace {

using ::testing::Optional;

TEST(SignalFd, HoldsSignalsUntilTheyAreRead) {
  SignalFd signals({SIGTERM, SIGUSR1});
  EXPECT_EQ(signals.find_pending(), std::nullopt);

  ::raise(SIGUSR1);
  ::raise(SIGTERM);
  Watch watch{.fd = signals.fd()};
  wait_for({&watch, 1}, std::chrono::seconds(5));

  EXPECT_TRUE(watch.is_ready);
  EXPECT_THAT(signals.find_pending(), Optional(SIGUSR1));
  EXPECT_THAT(signals.find_pending(), Optional(SIGTERM));
  EXPECT_EQ(signals.find_pending(), std::nullopt);
}

TEST(SignalFd, GivesTheFormerMaskBack) {
  { const SignalFd signals({SIGUSR2}); }
  sigset_t mask;
  ::sigemptyset(&mask);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);

  EXPECT_EQ(::sigismember(&mask, SIGUSR2), 0);
}

TEST(SignalFd, LeavesIgnoredWhatTheProcessWasStartedToIgnore) {
  ignore_signal(SIGHUP);
  SignalFd signals({SIGHUP, SIGUSR1});

  ::raise(SIGHUP);
  EXPECT_EQ(signals.find_pending(), std::nullopt);

  restore_signal(SIGHUP);
  SignalFd afterwards({SIGHUP});
  ::raise(SIGHUP);
  EXPECT_THAT(afterwards.find_pending(), Optional(SIGHUP));
}

// Without OlderThreads, the signal would end this process.
TEST(OlderThreads, HandOnWhatTheyAreGiven) {
  std::jthread older([](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    ended.wait(lock, stop, [] { return false; });
  });
  SignalFd signals({SIGUSR1});
  {
    const OlderThreads handing_on({SIGUSR1});
    ::kill(::getpid(), SIGUSR1);
    Watch watch{.fd = signals.fd()};
    wait_for({&watch, 1}, std::chrono::seconds(5));

    EXPECT_TRUE(watch.is_ready);
    EXPECT_THAT(signals.find_pending(), Optional(SIGUSR1));
  }
  struct sigaction now {};
  ::sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST(SignalName, IsTheUsualOne) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(60), "signal 60");
}

}  // namespace
}  // namespace lockstep::os
