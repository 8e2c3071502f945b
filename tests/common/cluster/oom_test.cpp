// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/oom.h"

#include <gmock/gmock.h>

#include "common/cluster/cgroup_tree.h"

namespace lockstep::cluster {
namespace {

using contract::OutOfMemory;
using ::testing::Optional;

TEST(OomKills, AreReadFromTheKernelsCounters) {
  EXPECT_EQ(find_oom_kills_in("pgfault 12\noom_kill 3\nnr_x 1\n"), 3);
  EXPECT_EQ(find_oom_kills_in("pgfault 12\n"), std::nullopt);
}

TEST(OomKills, AreReadFromACgroupsCounters) {
  EXPECT_EQ(find_oom_kills_in("low 0\nhigh 0\nmax 41\noom 2\noom_kill 1\noom_group_kill 0\n"), 1);
  EXPECT_EQ(find_oom_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), 4);
  EXPECT_EQ(find_oom_kills_in("oom_kill_disable 0\nunder_oom 0\n"), std::nullopt);
  EXPECT_EQ(find_oom_kills_in("oom_kill x\n"), std::nullopt);
  EXPECT_EQ(find_oom_kills_in(""), std::nullopt);
}

using GroupOomKills = lockstep::testing::CgroupTree;

TEST_F(GroupOomKills, AreThoseOfTheProcesssOwnGroup) {
  write("slice/memory.events", "oom_kill 7\n");
  write("slice/job/memory.events", "oom 3\noom_kill 2\n");

  EXPECT_THAT(find_group_oom_kills("0::/slice/job\n", mount()), Optional(2));
}

TEST_F(GroupOomKills, AreThoseOfTheNearestGroupThatCounts) {
  write("slice/memory.events", "oom_kill 7\n");
  write("slice/job/cgroup.procs", "1\n");

  EXPECT_THAT(find_group_oom_kills("0::/slice/job/step\n", mount()), Optional(7));
}

TEST_F(GroupOomKills, AreReadFromVersionOne) {
  write("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");

  EXPECT_THAT(find_group_oom_kills("5:cpu:/\n4:memory:/job\n0::/\n", mount()), Optional(5));
}

TEST_F(GroupOomKills, AreTheContainersOwnWhereThePathIsNotMounted) {
  write("memory/memory.oom_control", "oom_kill 1\n");
  EXPECT_THAT(find_group_oom_kills("4:memory:/docker/abc\n", mount()), Optional(1));

  write("memory.events", "oom_kill 2\n");
  EXPECT_THAT(find_group_oom_kills("0::/../outside/abc\n", mount()), Optional(2));
}

TEST_F(GroupOomKills, AreAbsentWithoutACounter) {
  write("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n");

  EXPECT_EQ(find_group_oom_kills("4:memory:/\n0::/\n", mount()), std::nullopt);
  EXPECT_EQ(find_group_oom_kills("nonsense", mount()), std::nullopt);
  EXPECT_EQ(find_group_oom_kills("", mount()), std::nullopt);
}

TEST(OomVerdict, IsSureWhereTheCgroupCounts) {
  EXPECT_EQ(judge_oom({.group = 1, .machine = 5}, {.group = 2, .machine = 6}), OutOfMemory::Yes);
  // The process of another user was killed.
  EXPECT_EQ(judge_oom({.group = 1, .machine = 5}, {.group = 1, .machine = 6}), OutOfMemory::No);
}

TEST(OomVerdict, IsAGuessWhereOnlyTheMachineCounts) {
  EXPECT_EQ(judge_oom({.group = {}, .machine = 5}, {.group = {}, .machine = 6}),
            OutOfMemory::Perhaps);
  EXPECT_EQ(judge_oom({.group = {}, .machine = 5}, {.group = {}, .machine = 5}), OutOfMemory::No);
  EXPECT_EQ(judge_oom({.group = {}, .machine = 5}, {.group = 3, .machine = 5}), OutOfMemory::No);
}

TEST(OomVerdict, IsOpenWithoutACount) {
  EXPECT_EQ(judge_oom({}, {}), OutOfMemory::Perhaps);
}

TEST(OomVerdict, IsNoWhileNothingHappens) {
  const OomKills before = count_oom_kills();

  EXPECT_EQ(find_oom_kills(), before.machine);
  if (before.group || before.machine) {
    EXPECT_EQ(judge_oom(before, before), OutOfMemory::No);
  }
}

}  // namespace
}  // namespace lockstep::cluster
