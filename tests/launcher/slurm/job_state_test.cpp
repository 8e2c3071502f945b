// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/job_state.h"

#include <gmock/gmock.h>

namespace lockstep::slurm {
namespace {

TEST(JobState, IsReadFromEveryWordOfSlurms) {
  EXPECT_EQ(parse_job_state("PENDING"), JobState::Pending);
  EXPECT_EQ(parse_job_state("CONFIGURING"), JobState::Configuring);
  EXPECT_EQ(parse_job_state("COMPLETING"), JobState::Completing);
  EXPECT_EQ(parse_job_state("CANCELLED by 2001"), JobState::Cancelled);
  EXPECT_EQ(parse_job_state("CANCELLED+"), JobState::Cancelled);
  EXPECT_EQ(parse_job_state("TIMEOUT"), JobState::TimedOut);
  EXPECT_EQ(parse_job_state("NODE_FAIL"), JobState::NodeFailed);
  EXPECT_EQ(parse_job_state("OUT_OF_ME+"), JobState::OutOfMemory);
  EXPECT_EQ(parse_job_state("PREEMPTED"), JobState::Preempted);
  EXPECT_EQ(parse_job_state("REQUEUE_HOLD"), JobState::Requeued);
  EXPECT_EQ(parse_job_state("SPECIAL_EXIT"), JobState::Requeued);
  EXPECT_EQ(parse_job_state("BOOT_FAIL"), JobState::BootFailed);
  EXPECT_EQ(parse_job_state("DEADLINE"), JobState::MissedDeadline);
  EXPECT_EQ(parse_job_state("SOMETHING_NEW"), JobState::Unknown);
}

TEST(JobState, IsAnEndOrNot) {
  for (const std::string_view word : {"COMPLETED",
                                      "FAILED",
                                      "CANCELLED",
                                      "TIMEOUT",
                                      "NODE_FAIL",
                                      "OUT_OF_MEMORY",
                                      "PREEMPTED",
                                      "BOOT_FAIL",
                                      "DEADLINE"}) {
    EXPECT_TRUE(is_end(parse_job_state(word))) << word;
  }
  for (const std::string_view word :
       {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "SOMETHING_NEW"}) {
    EXPECT_FALSE(is_end(parse_job_state(word))) << word;
  }
}

TEST(JobsEnd, IsTheCodeThatAShellWouldTell) {
  const auto code = [](const char* state, const char* exit) {
    return shell_code(parse_job_state(state), parse_exit_code(exit));
  };
  EXPECT_EQ(code("COMPLETED", "0:0"), 0);
  EXPECT_EQ(code("FAILED", "5:0"), 5);
  EXPECT_EQ(code("FAILED", "0:9"), 137);
  EXPECT_EQ(code("FAILED", "0:53"), 74);  // Slurm could not open the output file
  EXPECT_EQ(code("FAILED", "0:0"), 1);
  EXPECT_EQ(code("CANCELLED", "0:15"), 130);
  EXPECT_EQ(code("TIMEOUT", "0:9"), 124);
  EXPECT_EQ(code("DEADLINE", "0:9"), 124);
  EXPECT_EQ(code("OUT_OF_MEMORY", "0:125"), 137);
  EXPECT_EQ(code("NODE_FAIL", "0:15"), 69);
  EXPECT_EQ(code("BOOT_FAIL", "0:0"), 69);
  EXPECT_EQ(code("PREEMPTED", "0:15"), 75);
  EXPECT_EQ(code("RUNNING", "0:0"), 0);
}

}  // namespace
}  // namespace lockstep::slurm
