// SPDX-License-Identifier: Apache-2.0
#include "common/contract/run_state.h"

#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::contract {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

RunState some_state() {
  RunState state;
  state.run_id = "train-20240131-093000-beef";
  state.phase = RunPhase::Running;
  state.host = "node-a";
  state.launcher = {.machine = "6c3b/4026531836/24:1", .pid = 4711, .start_time = 123456};
  state.attempt = 1;
  state.nodes = {{.name = "node-a", .workers = 4, .interface = "ib0", .address = "10.0.0.1"},
                 {.name = "node-b", .workers = 4, .interface = "ib0", .address = "10.0.0.2"}};
  state.world_size = 8;
  state.grace_seconds = 30;
  state.started = 1706693400.125;
  state.updated = 1706693460.5;
  return state;
}

TEST(RunState, IsAFileForPrograms) {
  testing::expect_golden(to_json(some_state()), "state.json");
}

TEST(RunState, ComesBackAsItWas) {
  RunState state = some_state();
  EXPECT_EQ(parse_run_state(to_json(state)), state);

  for (const RunPhase phase : {RunPhase::Starting,
                               RunPhase::Stopping,
                               RunPhase::Restarting,
                               RunPhase::Done,
                               RunPhase::Failed,
                               RunPhase::Cancelled,
                               RunPhase::Requeued}) {
    state.phase = phase;
    state.ended = 1706693999.5;
    state.exit_code = 137;
    state.slurm_job = "815";
    EXPECT_EQ(parse_run_state(to_json(state)), state);
  }
}

TEST(RunState, SaysWhatIsWrongWithAFile) {
  const os::TemporaryDirectory directory;
  const RunDirectory run(directory.path());
  EXPECT_EQ(find_state(run), std::nullopt);

  os::write_file(run.state(), "{}");
  EXPECT_THAT([&] { find_state(run); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("cannot read the state of a run"), HasSubstr("state.json"))));
  std::string text = to_json(some_state());
  text.replace(text.find("running"), 7, "dancing");
  os::write_file(run.state(), text);
  EXPECT_THAT([&] { find_state(run); },
              ThrowsMessage<Error>(HasSubstr("cannot read the state 'dancing' of a run")));

  write_state(run, some_state());
  EXPECT_EQ(find_state(run), some_state());
}

TEST(RunState, DistinguishesLivingFromLostProcesses) {
  RunState state = some_state();
  EXPECT_EQ(sign_of(state, state.updated + 29), Sign::Alive);
  EXPECT_EQ(sign_of(state, state.updated + 31), Sign::Silent);

  state.launcher = os::own_identity();
  EXPECT_EQ(sign_of(state, state.updated + 1000), Sign::Alive);
  state.launcher.start_time += 1;
  EXPECT_EQ(sign_of(state, state.updated), Sign::Gone);

  state.phase = RunPhase::Done;
  EXPECT_EQ(sign_of(state, state.updated), Sign::Ended);
}

TEST(CancelRequest, ComesBackAsItWas) {
  const os::TemporaryDirectory directory;
  const RunDirectory run(directory.path());
  EXPECT_EQ(find_cancel(run), std::nullopt);

  const CancelRequest gentle{
      .who = "me@node-a", .time = 1706693400, .is_now = false, .grace_seconds = 5};
  write_cancel(run, gentle);
  EXPECT_EQ(find_cancel(run), gentle);

  const CancelRequest firm{
      .who = "me@node-a", .time = 1706693400, .is_now = true, .grace_seconds = std::nullopt};
  write_cancel(run, firm);
  EXPECT_EQ(find_cancel(run), firm);
}

TEST(CancelRequest, StandsEvenIfItCannotBeRead) {
  const os::TemporaryDirectory directory;
  const RunDirectory run(directory.path());

  os::write_file(run.cancel(), "");

  ASSERT_TRUE(find_cancel(run).has_value());
  EXPECT_FALSE(find_cancel(run)->is_now);
}

}  // namespace
}  // namespace lockstep::contract
