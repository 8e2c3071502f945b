// SPDX-License-Identifier: Apache-2.0
#include "common/os/process_identity.h"

#include <csignal>
#include <gtest/gtest.h>

#include "common/os/process.h"

namespace lockstep::os {
namespace {

// The identity of a child of this test.
ProcessIdentity identity_of(int pid) {
  ProcessIdentity identity = own_identity();
  identity.pid = pid;
  for (identity.start_time = own_identity().start_time;
       !is_alive(identity) && identity.start_time < own_identity().start_time + 100000;
       ++identity.start_time) {
  }
  return identity;
}

Child start_sleep() {
  return start({.executable = "/bin/sleep",
                .arguments = {"sleep", "60"},
                .environment = {},
                .stdout_fd = 1,
                .stderr_fd = 2,
                .inherited = {},
                .directory = ""});
}

TEST(ProcessIdentity, KnowsThisProcess) {
  const ProcessIdentity own = own_identity();

  EXPECT_TRUE(is_of_this_machine(own));
  EXPECT_TRUE(is_alive(own));
  EXPECT_GT(own.start_time, 0);
}

TEST(ProcessIdentity, IsNotAnotherProcessOfTheSameNumber) {
  ProcessIdentity other = own_identity();
  --other.start_time;
  EXPECT_FALSE(is_alive(other));
  EXPECT_FALSE(send_signal(other, SIGKILL));

  ProcessIdentity elsewhere = own_identity();
  elsewhere.machine += "x";
  EXPECT_FALSE(is_of_this_machine(elsewhere));
  EXPECT_FALSE(send_signal(elsewhere, SIGKILL));
}

TEST(ProcessIdentity, GetsSignalsAndIsDeadAfterwards) {
  Child child = start_sleep();
  const ProcessIdentity identity = identity_of(child.pid());

  EXPECT_TRUE(send_signal(identity, SIGTERM));
  EXPECT_EQ(child.wait().signal, SIGTERM);

  EXPECT_FALSE(is_alive(identity));
  EXPECT_FALSE(send_signal(identity, SIGTERM));
}

}  // namespace
}  // namespace lockstep::os
