// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/counters.h"

#include <gmock/gmock.h>

#include "common/cluster/available_memory.h"
#include "common/cluster/cgroup_tree.h"
#include "common/os/process_table.h"

namespace lockstep::cluster {
namespace {

using contract::InterfaceSample;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// User, nice, system, idle, iowait, irq, softirq, steal, guest.
constexpr const char* kStat =
    "cpu  999 999 999 999 999 999 999 999 0 0\n"
    "cpu0 100 10 20 5000 70 3 4 50 0 0\n"
    "cpu1 1 1 1 9000 1 1 1 1 0 0\n"
    "cpu10 1000 0 0 10 0 0 0 0 0 0\n"
    "intr 12345 0 0\n";

TEST(BusySeconds, CountTheGrantedProcessorsAlone) {
  const std::vector<int> granted = {0, 10};

  EXPECT_DOUBLE_EQ(busy_seconds(kStat, granted), (137 + 1000) / os::ticks_per_second());
  EXPECT_DOUBLE_EQ(busy_seconds("", granted), 0);
}

class Counters : public testing::CgroupTree {};

TEST_F(Counters, OfACgroupAreReadInBothVersions) {
  write("job/cpu.stat", "usage_usec 2500000\nuser_usec 1\n");
  write("cpu,cpuacct/old/cpuacct.usage", "1500000000\n");

  EXPECT_EQ(find_cgroup_cpu_seconds("0::/job\n", mount()), 2.5);
  EXPECT_EQ(find_cgroup_cpu_seconds("4:cpu,cpuacct:/old\n", mount()), 1.5);
  EXPECT_EQ(find_cgroup_cpu_seconds("", mount()), std::nullopt);
}

TEST_F(Counters, OfNetworksNameInterfacesAndPortsOfAdapters) {
  write("class/net/eth0/statistics/rx_bytes", "1000\n");
  write("class/net/eth0/statistics/tx_bytes", "2000\n");
  write("class/net/idle0/statistics/rx_bytes", "0\n");
  write("class/net/idle0/statistics/tx_bytes", "0\n");
  write("class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "10\n");
  write("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "20\n");
  write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");

  EXPECT_THAT(
      read_interfaces(mount()),
      ElementsAre(InterfaceSample{.name = "eth0", .received_bytes = 1000, .sent_bytes = 2000},
                  InterfaceSample{.name = "mlx5_0/1", .received_bytes = 40, .sent_bytes = 80}));
  EXPECT_THAT(read_interfaces(mount() / "nowhere"), IsEmpty());
}

TEST_F(Counters, OfMemoryHaveTheMinimumOfAllLimits) {
  constexpr const char* kMeminfo = "MemTotal:       24000 kB\nMemAvailable:   16000 kB\n";
  write("job/memory.max", "8000000\n");
  write("job/step/memory.max", "max\n");
  write("memory/old/memory.limit_in_bytes", "7000000\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");

  EXPECT_EQ(memory_limit_bytes(kMeminfo, "0::/job/step\n", mount()), 8'000'000);
  EXPECT_EQ(memory_limit_bytes(kMeminfo, "4:memory:/old\n", mount()), 7'000'000);
  EXPECT_EQ(memory_limit_bytes(kMeminfo, "0::/other\n", mount()), 24000 * 1024);
}

}  // namespace
}  // namespace lockstep::cluster
