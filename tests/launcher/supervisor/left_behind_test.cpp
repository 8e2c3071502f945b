// SPDX-License-Identifier: Apache-2.0
// No process is left behind, whichever dies first.
#include <csignal>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

// Each worker starts one child in its process group and one in a new session. It writes four
// process ids: its own, those of both children, and that of its parent, the agent.
constexpr const char* kFamily =
    "sleep 61 & a=$!; setsid sleep 62 & b=$!\n"
    "echo $$ $a $b $PPID > writing-$RANK; mv writing-$RANK family-$RANK\n"
    "trap '' TERM; while :; do sleep 0.05; done";

class LeftBehind : public ::testing::Test {
 protected:
  void start(const std::string& script) {
    launcher.start(
        {"run", "--nproc-per-node", "2", "--run-dir", "run", "--grace", "0.2", "sh", "-c", script});
    for (const char* name : {"family-0", "family-1"}) {
      for (const std::string& word : split(launcher.wait_for_file(name), ' ')) {
        family.push_back(std::stoi(word));
      }
    }
  }

  void expect_nobody_left() const {
    for (const int pid : family) {
      EXPECT_TRUE(ends_soon(pid)) << pid;
    }
  }

  int agent() const { return family.at(3); }

  Launcher launcher;
  std::vector<int> family;
};

TEST_F(LeftBehind, IsNobodyWhenAWorkerFails) {
  start(std::string("[ $RANK = 0 ] || { sleep 63 & echo $$ $! $! $PPID > w; mv w family-1;"
                    "while [ ! -e go ]; do sleep 0.02; done; exit 3; }\n") +
        kFamily);
  std::ofstream(launcher.path("go")) << "now\n";

  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 3);
  EXPECT_THAT(result.errors, HasSubstr("that the workers had left behind"));
  expect_nobody_left();
}

TEST_F(LeftBehind, IsNobodyWhenTheRunIsStopped) {
  start(kFamily);

  launcher.process().signal(SIGTERM);

  EXPECT_EQ(launcher.wait().status.code, 143);
  expect_nobody_left();
}

TEST_F(LeftBehind, OrphansThatEndAreNotZombiesForTheRestOfTheRun) {
  launcher.write_script("count.py", R"(import glob, sys
zombies = 0
for path in glob.glob("/proc/[0-9]*/stat"):
    try:
        state, parent = open(path).read().rpartition(") ")[2].split()[:2]
    except OSError:
        continue
    zombies += state == "Z" and parent == sys.argv[1]
print("zombies:", zombies)
)");

  const Result result = launcher.run({"run",
                                      "sh",
                                      "-c",
                                      "for i in 1 2 3; do sh -c 'sleep 0.1 &'; done; sleep 1.5;"
                                      "python3 count.py $PPID"});

  EXPECT_EQ(result.output, "zombies: 0\n") << result.errors;
}

TEST_F(LeftBehind, IsNobodyWhenTheLauncherIsKilled) {
  start(kFamily);

  launcher.process().signal(SIGKILL);

  EXPECT_EQ(launcher.wait().status.signal, SIGKILL);
  expect_nobody_left();
}

TEST_F(LeftBehind, IsNobodyWhenTheAgentIsKilled) {
  start(kFamily);

  os::Child(agent()).signal(SIGKILL);
  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 128 + SIGKILL);
  EXPECT_THAT(result.errors, HasSubstr("lockstep: error: the agent was killed by SIGKILL"));
  expect_nobody_left();
}

TEST_F(LeftBehind, IsNobodyWhenAWorkerLeavesWithZero) {
  start(
      "sleep 61 & a=$!; setsid sleep 62 & b=$!\n"
      "echo $$ $a $b $PPID > writing-$RANK; mv writing-$RANK family-$RANK; exit 0");

  EXPECT_EQ(launcher.wait().status.code, 0);
  expect_nobody_left();
}

}  // namespace
}  // namespace lockstep::testing
