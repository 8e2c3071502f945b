// SPDX-License-Identifier: Apache-2.0
#include "common/contract/requeue_record.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

RequeueRecord some_record() {
  return {.job = "12_3",
          .requeues = 2,
          .without_progress = 1,
          .step = 400,
          .time = 1706693400.5,
          .is_again = true,
          .text = "time limit near: stopped at step 400, requeued as job 12_3 (restart 2)"};
}

class RequeueFile : public ::testing::Test {
 protected:
  os::TemporaryDirectory directory{"requeue-record-test"};
  RunDirectory run{directory.path() / "run"};
};

TEST_F(RequeueFile, ComesBackAsItWasWritten) {
  write_requeue_record(run, some_record());

  EXPECT_EQ(find_requeue_record(run, "12_3"), some_record());
}

TEST_F(RequeueFile, OfAnotherJobDoesNotCount) {
  write_requeue_record(run, some_record());

  RequeueRecord fresh;
  fresh.job = "13";
  EXPECT_EQ(find_requeue_record(run, "13"), fresh);
}

TEST_F(RequeueFile, ThatIsDamagedBeginsAnew) {
  write_requeue_record(run, some_record());
  std::ofstream(run.requeue()) << "{\"job\": 1";

  EXPECT_EQ(find_requeue_record(run, "12_3").requeues, 0);
  EXPECT_THAT([] { parse_requeue_record("{}"); },
              ThrowsMessage<Error>(HasSubstr("cannot read the requeue record")));
}

TEST_F(RequeueFile, StandsNextToCheckpointsOfWhichOnlyCompleteOnesCount) {
  EXPECT_EQ(find_saved_step(run), 0);
  for (const char* name : {"step-00000009", "step-00000100", ".step-00000200.partial"}) {
    os::make_directories(run.checkpoints() / name);
  }
  std::ofstream(run.checkpoints() / "step-00000009/COMPLETE") << "x";
  std::ofstream(run.checkpoints() / ".step-00000200.partial/COMPLETE") << "x";

  EXPECT_EQ(find_saved_step(run), 9);
}

}  // namespace
}  // namespace lockstep::contract
