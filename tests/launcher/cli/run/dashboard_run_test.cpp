// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <optional>

#include "launcher/monitor/http_server.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The process id of the dashboard among the children of a launcher.
std::optional<int> find_dashboard(int launcher) {
  const std::string children = read_text(fmt::format("/proc/{0}/task/{0}/children", launcher));
  for (const std::string& word : split(children, ' ')) {
    const std::string command = read_text(fmt::format("/proc/{}/cmdline", word));
    if (command.find(std::string("dashboard\0--wait", 16)) != std::string::npos) {
      return static_cast<int>(find_integer(word).value_or(0));
    }
  }
  return std::nullopt;
}

class RunWithDashboard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!monitor::has_http_server()) {
      GTEST_SKIP() << "built without cpp-httplib";
    }
    launcher_.write_script("train.sh",
                           "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\necho trained\n");
    launcher_.start({"run", "--dashboard", "--run-dir", "run", "./train.sh"});
  }

  std::string wait_for_address() {
    std::string said;
    comes_true([&] {
      said = read_text(launcher_.path("stderr"));
      return said.find("ssh -N -L") != std::string::npos;
    });
    return said;
  }

  Result finish() {
    std::ofstream(launcher_.path("go")) << "";
    return launcher_.wait();
  }

  Launcher launcher_;
};

TEST_F(RunWithDashboard, PrintsItsAddressAndEndsWithTheRun) {
  EXPECT_THAT(wait_for_address(), HasSubstr("dashboard: http://127.0.0.1:"));
  const auto dashboard = find_dashboard(launcher_.process().pid());
  ASSERT_TRUE(dashboard);

  EXPECT_EQ(finish().status.code, 0);
  EXPECT_THAT(read_text(fmt::format("/proc/{}/cmdline", *dashboard)), IsEmpty());
}

TEST_F(RunWithDashboard, GoesOnWhenTheDashboardIsKilled) {
  wait_for_address();
  const auto dashboard = find_dashboard(launcher_.process().pid());
  ASSERT_TRUE(dashboard);
  ASSERT_EQ(::kill(*dashboard, SIGKILL), 0);
  ASSERT_TRUE(ends_soon(*dashboard));

  const Result result = finish();

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, HasSubstr("trained"));
  EXPECT_THAT(result.errors, Not(HasSubstr("error")));
}

TEST(Dashboard, LeavesWithNothingWrongWhenItIsEnded) {
  if (!monitor::has_http_server()) {
    GTEST_SKIP() << "built without cpp-httplib";
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Launcher launcher;
    ASSERT_EQ(launcher.run({"run", "--run-dir", "runs/one", "true"}).status.code, 0);
    launcher.start({"dashboard", "one"});
    ASSERT_TRUE(comes_true([&] { return !read_text(launcher.path("stdout")).empty(); }));

    launcher.process().signal(signal);

    const Result result = launcher.wait();
    EXPECT_EQ(result.status.signal, 0);
    EXPECT_EQ(result.status.code, 0) << result.errors;
  }
}

}  // namespace
}  // namespace lockstep::testing
