// SPDX-License-Identifier: Apache-2.0
#include "common/os/process_table.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "common/os/peer_watch.h"
#include "common/os/process.h"

namespace lockstep::os {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Gt;

// /proc/PID/stat of a process with spaces and parentheses in its name.
class FakeProc {
 public:
  FakeProc() {
    fs::create_directories(root.path() / "42");
    std::ofstream(root.path() / "42/stat")
        << "42 (a (b) c) S 7 41 5 0 -1 4194560 100 0 0 0 150 50 20 30 20 0 4 0 987654 1000 "
           "25 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";
    std::ofstream(root.path() / "42/io")
        << "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\n"
           "cancelled_write_bytes: 5\n";
    std::ofstream(root.path() / "42/smaps_rollup")
        << "00400000-7ffd00000000 ---p 00000000 00:00 0 [rollup]\nRss:  100 kB\nPss:   60 kB\n"
           "Pss_Dirty: 7 kB\n";
    fs::create_directories(root.path() / "self");
  }
  TemporaryDirectory root;
};

TEST(ProcessTable, ReadsTheValuesOfTheKernel) {
  const FakeProc proc;

  const auto reading = find_process(42, proc.root.path());
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->parent, 7);
  EXPECT_EQ(reading->group, 41);
  EXPECT_EQ(reading->began, 987654U);
  EXPECT_DOUBLE_EQ(reading->cpu_seconds, 250 / ticks_per_second());
  EXPECT_THAT(reading->resident_bytes, Gt(0));
  EXPECT_EQ(reading->resident_bytes % 25, 0);
  EXPECT_EQ(find_disk_bytes(42, proc.root.path()), (DiskBytes{.read = 4096, .written = 8192}));
  EXPECT_EQ(find_proportional_bytes(42, proc.root.path()), 60 * 1024);
  EXPECT_THAT(list_processes(proc.root.path()), ::testing::ElementsAre(42));
}

TEST(ProcessTable, HasNothingOfAProcessThatHasEnded) {
  const FakeProc proc;

  EXPECT_FALSE(find_process(43, proc.root.path()));
  EXPECT_FALSE(find_disk_bytes(43, proc.root.path()));
  EXPECT_FALSE(find_proportional_bytes(43, proc.root.path()));
  EXPECT_THAT(list_processes("/there/is/none"), ::testing::IsEmpty());
}

TEST(ProcessTable, KnowsThisProcess) {
  const int self = process_id();

  EXPECT_THAT(list_processes(), Contains(self));
  const auto reading = find_process(self);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->parent, parent_process_id());
  EXPECT_THAT(reading->resident_bytes, Gt(100'000));
}

}  // namespace
}  // namespace lockstep::os
