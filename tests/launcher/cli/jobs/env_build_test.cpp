// SPDX-License-Identifier: Apache-2.0
// An environment that is built on this machine with the real python.
#include <gtest/gtest.h>

#include "support/launcher.h"
#include "support/wheel.h"

namespace lockstep::testing {
namespace {

TEST(EnvBuildHere, WorksWithTheRealPython) {
  if (!os::run_command({"/usr/bin/python3", "-c", "import ensurepip"}).status.is_success()) {
    GTEST_SKIP() << "python3-venv is not installed";
  }
  Launcher launcher;
  make_wheel(launcher.path(""));
  std::ofstream(launcher.path("env.yaml"))
      << ("path: envs/real\npython: /usr/bin/python3\nwhere: local\nsystem_site_packages: true\n"
          "packages: [tiny]\npip_options: [--no-index, --find-links wheels]\n");

  const Result result = launcher.run({"env", "build", "-c", "env.yaml"});

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  const os::CommandResult answer = os::run_command(
      {launcher.path("envs/real/bin/python").string(), "-c", "import tiny; print(tiny.answer)"});
  EXPECT_EQ(answer.output, "42\n") << answer.errors;
}

}  // namespace
}  // namespace lockstep::testing
