// SPDX-License-Identifier: Apache-2.0
// No process is left behind, whichever dies first.
#include <csignal>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

const std::string kScripts = LOCKSTEP_SOURCE_DIR "/tests/launcher/supervisor/scripts/";

class LeftBehind : public ::testing::Test {
 protected:
  // Starts two workers that write the process ids of their family, and waits for these.
  void start(const std::string& script, const std::vector<std::string>& arguments = {}) {
    std::vector<std::string> words = {
        "run", "--nproc-per-node", "2", "--run-dir", "run", "--grace", "0.2", kScripts + script};
    words.insert(words.end(), arguments.begin(), arguments.end());
    launcher.start(words);
    for (const char* name : {"family-0", "family-1"}) {
      for (const std::string& word : split(launcher.wait_for_file(name), ' ')) {
        family.push_back(std::stoi(word));
      }
    }
  }

  void expect_no_process_left() const {
    for (const int pid : family) {
      EXPECT_TRUE(ends_soon(pid)) << pid;
    }
  }

  int agent() const { return family.at(3); }

  Launcher launcher;
  std::vector<int> family;
};

TEST_F(LeftBehind, IsNoProcessWhenAWorkerFails) {
  start("fail_on_request.sh");
  std::ofstream(launcher.path("go")) << "now\n";

  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 3);
  EXPECT_THAT(result.errors, HasSubstr("that the workers had left behind"));
  expect_no_process_left();
}

TEST_F(LeftBehind, IsNoProcessWhenTheRunIsStopped) {
  start("family.sh", {"stay"});

  launcher.process().signal(SIGTERM);

  EXPECT_EQ(launcher.wait().status.code, 143);
  expect_no_process_left();
}

TEST_F(LeftBehind, OrphansThatEndAreNotZombiesForTheRestOfTheRun) {
  const Result result = launcher.run({"run", kScripts + "count_zombies.py"});

  EXPECT_EQ(result.output, "zombies: 0\n") << result.errors;
}

TEST_F(LeftBehind, IsNoProcessWhenTheLauncherIsKilled) {
  start("family.sh", {"stay"});

  launcher.process().signal(SIGKILL);

  EXPECT_EQ(launcher.wait().status.signal, SIGKILL);
  expect_no_process_left();
}

TEST_F(LeftBehind, IsNoProcessWhenTheAgentIsKilled) {
  start("family.sh", {"stay"});

  os::Child(agent()).signal(SIGKILL);
  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 128 + SIGKILL);
  EXPECT_THAT(result.errors, HasSubstr("lockstep: error: the agent was killed by SIGKILL"));
  expect_no_process_left();
}

TEST_F(LeftBehind, IsNoProcessWhenAWorkerLeavesWithZero) {
  start("family.sh", {"leave"});

  EXPECT_EQ(launcher.wait().status.code, 0);
  expect_no_process_left();
}

}  // namespace
}  // namespace lockstep::testing
