// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/process_group_choice.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Flags horovod() {
  Flags flags;
  flags.strategy = "horovod";
  return flags;
}

TEST(ProcessGroupChoice, TakesHorovodsTransportInterfaceAndTimeout) {
  const ProcessGroupChoice choice = choose_process_group(horovod(),
                                                         {{"HOROVOD_CONTROLLER", "mpi"},
                                                          {"HOROVOD_CPU_OPERATIONS", "GLOO"},
                                                          {"HOROVOD_GLOO_IFACE", "eth7"},
                                                          {"HOROVOD_GLOO_TIMEOUT_SECONDS", "30"}},
                                                         {});

  EXPECT_EQ(choice.join.transport, "gloo");
  EXPECT_EQ(choice.placement.worker.interface, "eth7");
  EXPECT_EQ(choice.join.timeout, std::chrono::seconds(30));
  EXPECT_EQ(choose_process_group(horovod(), {{"HOROVOD_CONTROLLER", "mpi"}}, {}).join.transport,
            "mpi");
}

TEST(ProcessGroupChoice, PutsFlagsAndOurOwnVariablesAboveHorovods) {
  Flags flags = horovod();
  flags.transport = "shared-memory";
  flags.timeout = 7;
  flags.stall_warning = 3;
  cluster::Placement placement;
  placement.worker.interface = "eth0";

  const ProcessGroupChoice choice = choose_process_group(flags,
                                                         {{"HOROVOD_CONTROLLER", "mpi"},
                                                          {"HOROVOD_GLOO_IFACE", "eth7"},
                                                          {"HOROVOD_STALL_CHECK_DISABLE", "1"},
                                                          {"HOROVOD_GLOO_TIMEOUT_SECONDS", "30"}},
                                                         placement);

  EXPECT_EQ(choice.join.transport, "shared-memory");
  EXPECT_EQ(choice.placement.worker.interface, "eth0");
  EXPECT_EQ(choice.join.timeout, std::chrono::seconds(7));
  EXPECT_EQ(choice.stall.warning, 3);
}

TEST(ProcessGroupChoice, LeavesTheTransportToOtherStrategiesAndToOurLauncher) {
  Flags ddp;
  ddp.strategy = "ddp";
  cluster::Placement launched;
  launched.launched_by = cluster::LaunchedBy::Launcher;

  EXPECT_EQ(choose_process_group(ddp, {{"HOROVOD_CONTROLLER", "mpi"}}, {}).join.transport, "auto");
  EXPECT_EQ(choose_process_group(
                horovod(), {{"HOROVOD_CONTROLLER", "gloo"}, {"LOCKSTEP_RUN_ID", "a"}}, launched)
                .join.transport,
            "auto");
}

TEST(ProcessGroupChoice, WarnsAfterTenSecondsOrWhenHorovodsVariablesSay) {
  EXPECT_EQ(choose_process_group({}, {}, {}).stall.warning, 10);
  EXPECT_EQ(choose_process_group({}, {{"HOROVOD_STALL_CHECK_DISABLE", "1"}}, {}).stall.warning, 0);
  EXPECT_EQ(choose_process_group({}, {{"HOROVOD_STALL_CHECK_DISABLE", "0"}}, {}).stall.warning, 10);
  const ProcessGroupChoice choice = choose_process_group(
      {},
      {{"HOROVOD_STALL_CHECK_TIME_SECONDS", "60"}, {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "90"}},
      {});
  EXPECT_EQ(choice.stall.warning, 60);
  EXPECT_EQ(choice.stall.shutdown, 90);
}

TEST(ProcessGroupChoice, NamesTheVariableOrFlagThatMakesNoSense) {
  EXPECT_THAT(
      [] {
        choose_process_group(horovod(), {{"HOROVOD_CONTROLLER", "ccl"}}, {});
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("invalid value 'ccl' for HOROVOD_CONTROLLER"), HasSubstr("mpi, gloo"))));
  EXPECT_THAT(
      [] {
        choose_process_group({}, {{"HOROVOD_STALL_CHECK_TIME_SECONDS", "soon"}}, {});
      },
      ThrowsMessage<Error>(HasSubstr("invalid HOROVOD_STALL_CHECK_TIME_SECONDS")));
  Flags flags;
  flags.stall_warning = -1;
  EXPECT_THAT([&] { choose_process_group(flags, {}, {}); },
              ThrowsMessage<Error>(HasSubstr("--stall-warning")));
}

}  // namespace
}  // namespace lockstep::train
