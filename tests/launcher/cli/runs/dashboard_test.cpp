// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/dashboard.h"

#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

cli::DashboardAddress dashboard() {
  return {.address = "127.0.0.1",
          .port = 8265,
          .token = "0123",
          .host = "gpu-07",
          .user = "ada",
          .submit_host = ""};
}

TEST(DashboardAddress, IsAnAddressAndTheTunnelToIt) {
  EXPECT_EQ(cli::describe(dashboard()),
            "dashboard: http://127.0.0.1:8265/?token=0123\n"
            "  from your own machine, first: ssh -N -L 8265:127.0.0.1:8265 ada@gpu-07\n");
}

TEST(DashboardAddress, IsReachedThroughTheNodeThatSubmittedTheJob) {
  cli::DashboardAddress in_a_job = dashboard();
  in_a_job.submit_host = "login1";

  EXPECT_THAT(cli::describe(in_a_job),
              HasSubstr("ssh -N -L 8265:127.0.0.1:8265 -J login1 ada@gpu-07\n"));
}

TEST(DashboardAddress, SaysWhatListeningForOthersMeans) {
  cli::DashboardAddress open = dashboard();
  open.address = "0.0.0.0";

  EXPECT_THAT(cli::describe(open), HasSubstr("http://gpu-07:8265/"));
  EXPECT_THAT(cli::describe(open), HasSubstr("without encryption"));
  EXPECT_THAT(cli::describe(open), Not(HasSubstr("-L")));
}

TEST(Dashboard, RefusesWhatItCannotShow) {
  const Result no_run = Launcher().run({"dashboard", "nothing"});
  EXPECT_EQ(no_run.status.code, 64);
  EXPECT_THAT(no_run.errors, HasSubstr("cannot find the run 'nothing'"));

  const Result no_port = Launcher().run({"dashboard", "--port", "70000"});
  EXPECT_EQ(no_port.status.code, 64);
  EXPECT_THAT(no_port.errors, HasSubstr("invalid value '70000' for --port"));
}

}  // namespace
}  // namespace lockstep::testing
