// SPDX-License-Identifier: Apache-2.0
#include "agent/failure.h"

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>

#include "os/files.h"
#include "support/golden.h"

namespace lockstep::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Failure some_failure() {
  Failure failure;
  failure.who = "rank 3";
  failure.rank = 3;
  failure.local_rank = 1;
  failure.node = "node-a";
  failure.pid = 4711;
  failure.status = {.code = 3, .signal = 0};
  failure.log = "runs/a/logs/attempt-0/rank-3.log";
  failure.last_lines = {"epoch 1", "cannot allocate \"x\""};
  return failure;
}

std::string death_of(os::ExitStatus status, bool may_be_out_of_memory = false) {
  Failure failure = some_failure();
  failure.status = status;
  failure.may_be_out_of_memory = may_be_out_of_memory;
  return describe_death(failure);
}

TEST(DescribeDeath, TellsEveryMode) {
  EXPECT_EQ(death_of({.code = 3, .signal = 0}), "left with code 3");
  EXPECT_EQ(death_of({.code = 64, .signal = 0}), "left with code 64 (usage)");
  EXPECT_EQ(death_of({.code = 69, .signal = 0}),
            "left with code 69 (something it needs is unavailable)");
  EXPECT_EQ(death_of({.code = 70, .signal = 0}), "left with code 70 (a bug of lockstep)");
  EXPECT_EQ(death_of({.code = 74, .signal = 0}), "left with code 74 (input or output)");
  EXPECT_EQ(death_of({.code = 75, .signal = 0}), "left with code 75 (it asks to be started again)");
  EXPECT_EQ(death_of({.code = 0, .signal = SIGSEGV}), "died by SIGSEGV");
  EXPECT_EQ(death_of({.code = 0, .signal = SIGKILL}), "was killed by SIGKILL");
  EXPECT_EQ(death_of({.code = 0, .signal = SIGKILL}, true),
            "was killed by SIGKILL, perhaps by the kernel's OOM killer: out of memory");
}

TEST(FailureBox, SaysWhoHowWhereAndTheLastWords) {
  testing::expect_golden(to_box(some_failure()), "failure_box.txt");
}

TEST(FailureBox, SaysWhenAWorkerSaidNothing) {
  Failure failure = some_failure();
  failure.who = "the seed of ranks 0-3";
  failure.note = "it left before every worker was forked and handed over";
  failure.last_lines.clear();

  testing::expect_golden(to_box(failure), "failure_box_of_seed.txt");
}

TEST(FailureJson, HasTheFormThatIsDocumented) {
  Failure failure = some_failure();
  failure.status = {.code = 0, .signal = SIGKILL};

  testing::expect_golden(to_json(failure), "failure.json");
}

TEST(ReadLastLines, TakesAtMostSoManyOfALongFile) {
  const os::TemporaryDirectory directory;
  const auto path = directory.path() / "log";
  std::ofstream file(path);
  for (int i = 0; i < 100000; ++i) {
    file << "line " << i << '\n';
  }
  file << "no end";
  file.close();

  EXPECT_THAT(read_last_lines(path, 3), ElementsAre("line 99998", "line 99999", "no end"));
  EXPECT_THAT(read_last_lines(directory.path() / "absent", 3), IsEmpty());
}

}  // namespace
}  // namespace lockstep::agent
