// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/available_memory.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::cluster {
namespace {

constexpr const char* kMeminfo = "MemTotal:       24000 kB\nMemAvailable:   16000 kB\n";

class AvailableMemory : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((mount_.path() / name).parent_path());
    std::ofstream(mount_.path() / name) << text;
  }

  os::TemporaryDirectory mount_;
};

TEST_F(AvailableMemory, IsTheKernelsWithoutALimit) {
  write("job/memory.max", "max\n");
  EXPECT_EQ(available_memory_bytes(kMeminfo, "0::/job\n", mount_.path()), 16000 * 1024);
}

TEST_F(AvailableMemory, IsWhatTheGroupLeavesWithoutCachedFiles) {
  write("job/memory.max", "8000000\n");
  write("job/memory.current", "5000000\n");
  write("job/memory.stat", "anon 1\nactive_file 7\ninactive_file 1000000\n");
  EXPECT_EQ(available_memory_bytes(kMeminfo, "0::/job\n", mount_.path()), 4000000);
}

TEST_F(AvailableMemory, IsCutByALimitAboveToo) {
  write("job/memory.max", "2000000\n");
  write("job/memory.current", "2500000\n");
  write("job/step/memory.max", "8000000\n");
  write("job/step/memory.current", "1\n");
  EXPECT_EQ(available_memory_bytes(kMeminfo, "0::/job/step\n", mount_.path()), 0);
}

TEST_F(AvailableMemory, IsReadFromVersionOneAsWell) {
  write("memory/job/memory.limit_in_bytes", "8000000\n");
  write("memory/job/memory.usage_in_bytes", "3000000\n");
  write("memory/job/memory.stat", "total_inactive_file 500000\n");
  EXPECT_EQ(available_memory_bytes(kMeminfo, "4:memory:/job\n", mount_.path()), 5500000);
}

TEST(AvailableMemoryHere, IsSomething) {
  EXPECT_GT(available_memory_bytes(), 0);
}

}  // namespace
}  // namespace lockstep::cluster
