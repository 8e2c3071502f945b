// SPDX-License-Identifier: Apache-2.0
// Workers that are forked by the fork server of a program with the fork note.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ForkServer : public ::testing::Test {
 protected:
  Result run(int workers, const std::string& behaviour) {
    return launcher.run({"run",
                         "--nproc-per-node",
                         std::to_string(workers),
                         "--run-dir",
                         "run",
                         "--",
                         LOCKSTEP_FORK_SERVER_PROGRAM,
                         behaviour});
  }
  nlohmann::json failure() const {
    return nlohmann::json::parse(read_text(launcher.run_directory().failure()));
  }

  Launcher launcher;
};

TEST_F(ForkServer, HandsItsChildrenToTheAgent) {
  const Result result = run(3, "well");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_THAT(result.output,
                HasSubstr(std::string("[") + rank + "]: I am rank " + rank +
                          " of 3, parent is the agent, group is my own: yes\n"));
  }
}

TEST_F(ForkServer, IsNotNeededForOneWorker) {
  EXPECT_EQ(run(1, "well").output, "no offer came\n");
}

TEST_F(ForkServer, LeavesWorkersThatAreWatchedLikeAnyOther) {
  const Result result = run(3, "fail-rank-1");

  EXPECT_EQ(result.status.code, 5);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("rank 1 exited with code 5; stopping 2 workers"),
                    HasSubstr("rank 1 failed")));
  EXPECT_EQ(failure().at("rank"), 1);
}

TEST_F(ForkServer, IsTheCauseWhenItDiesBeforeTheHandover) {
  const Result result = run(2, "die");

  EXPECT_EQ(result.status.code, 9);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("the fork server of ranks 0-1 failed"),
                    HasSubstr("exited with code 9"),
                    HasSubstr("it exited before all workers were forked and handed over"),
                    HasSubstr("a library is missing")));
  EXPECT_EQ(failure().at("who"), "the fork server of ranks 0-1");
}

TEST_F(ForkServer, IsTheCauseWhenItForgetsAWorker) {
  const Result result = run(2, "forget");

  EXPECT_EQ(result.status.code, 70);
  EXPECT_THAT(result.errors, HasSubstr("the fork server of ranks 0-1 failed"));
}

}  // namespace
}  // namespace lockstep::testing
