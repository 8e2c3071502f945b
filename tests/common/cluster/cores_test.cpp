// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/cores.h"

#include <gmock/gmock.h>

#include "common/cluster/cgroup_tree.h"
#include "common/os/processors.h"

namespace lockstep::cluster {
namespace {

using ::testing::Optional;

using CpuQuota = lockstep::testing::CgroupTree;

TEST_F(CpuQuota, IsReadFromVersionTwo) {
  write("job/cpu.max", "150000 100000\n");

  EXPECT_THAT(find_cpu_quota("0::/job\n", mount()), Optional(1.5));
}

TEST_F(CpuQuota, IsTheMinimumOfAllParentGroups) {
  write("slice/cpu.max", "200000 100000\n");
  write("slice/job/cpu.max", "max 100000\n");
  write("slice/job/step/cpu.max", "400000 100000\n");

  EXPECT_THAT(find_cpu_quota("0::/slice/job/step\n", mount()), Optional(2.0));
}

TEST_F(CpuQuota, IsReadFromVersionOne) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");

  EXPECT_THAT(find_cpu_quota("5:memory:/job\n4:cpu,cpuacct:/job\n", mount()), Optional(3.0));
}

TEST_F(CpuQuota, IsTheContainersOwnWhereThePathIsNotMounted) {
  write("cpu.max", "100000 100000\n");

  EXPECT_THAT(find_cpu_quota("0::/../outside/docker/abc\n", mount()), Optional(1.0));
}

TEST_F(CpuQuota, IsAbsentIfNotSet) {
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  write("cpu.max", "max 100000\n");

  EXPECT_EQ(find_cpu_quota("1:cpu:/\n0::/\n", mount()), std::nullopt);
  EXPECT_EQ(find_cpu_quota("nonsense", mount()), std::nullopt);
  EXPECT_EQ(find_cpu_quota("", mount()), std::nullopt);
}

TEST(GrantedCores, AreAtLeastOneAndAtMostTheAffinityMask) {
  EXPECT_GE(granted_cores(), 1);
  EXPECT_LE(granted_cores(), os::usable_processors());
}

}  // namespace
}  // namespace lockstep::cluster
