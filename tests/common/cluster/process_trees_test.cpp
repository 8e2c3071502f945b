// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/process_trees.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

// A fake /proc with processes that start and end.
class ProcessTreesTest : public ::testing::Test {
 protected:
  struct Process {
    int pid = 0;
    int parent = 0;
    int group = 0;
    double cpu_seconds = 0;
    int pages = 1;
    int64_t written_bytes = 0;
    int began = 1;
    int share_kib = 0;
    char state = 'S';
  };
  void put(const Process& one) const {
    const fs::path folder = proc() / std::to_string(one.pid);
    fs::create_directories(folder);
    std::ofstream(folder / "stat")
        << fmt::format("{} (p) {} {} {} 0 0 0 0 0 0 0 0 {} 0 0 0 20 0 1 0 {} 0 {} 0\n",
                       one.pid,
                       one.state,
                       one.parent,
                       one.group,
                       static_cast<int64_t>(one.cpu_seconds * os::ticks_per_second()),
                       one.began,
                       one.pages);
    std::ofstream(folder / "io") << fmt::format("rchar: 0\nread_bytes: 0\nwrite_bytes: {}\n",
                                                one.written_bytes);
    if (one.share_kib > 0) {
      std::ofstream(folder / "smaps_rollup") << fmt::format("x\nPss: {} kB\n", one.share_kib);
    }
  }
  void remove(int pid) const { fs::remove_all(proc() / std::to_string(pid)); }
  TreeUse look(int root) {
    const std::vector<int> roots = {root};
    return trees_.look(roots).at(0);
  }
  const fs::path& proc() const { return directory_.path(); }

  os::TemporaryDirectory directory_;
  ProcessTrees trees_{directory_.path()};
};

TEST_F(ProcessTreesTest, HoldAWorkerAndAllThatItHasStarted) {
  put({.pid = 10, .parent = 1, .group = 10, .cpu_seconds = 2, .written_bytes = 100});
  put({.pid = 11, .parent = 10, .group = 10, .cpu_seconds = 3, .written_bytes = 200});
  put({.pid = 12,
       .parent = 11,
       .group = 12,
       .cpu_seconds = 4});  // a grandchild with its own process group
  put({.pid = 20, .parent = 1, .group = 20, .cpu_seconds = 50});
  put({.pid = 21, .parent = 20, .group = 20, .cpu_seconds = 1});

  const std::vector<int> roots = {10, 20};
  const std::vector<TreeUse> uses = trees_.look(roots);

  EXPECT_EQ(uses[0].processes, 3);
  EXPECT_DOUBLE_EQ(uses[0].cpu_seconds, 9);
  EXPECT_EQ(uses[0].written_bytes, 300);
  EXPECT_DOUBLE_EQ(uses[1].cpu_seconds, 51);
}

TEST_F(ProcessTreesTest, KeepAnOrphan) {
  put({.pid = 10, .parent = 1, .group = 10});
  put({.pid = 11, .parent = 10, .group = 10});
  put({.pid = 12, .parent = 11, .group = 12, .cpu_seconds = 4});
  look(10);
  remove(11);
  put({.pid = 12, .parent = 1, .group = 12, .cpu_seconds = 5});

  EXPECT_EQ(look(10).processes, 2);
  EXPECT_DOUBLE_EQ(look(10).cpu_seconds, 5);
}

TEST_F(ProcessTreesTest, DoNotTakeANewProcessForAnOldOne) {
  put({.pid = 10, .parent = 1, .group = 10});
  put({.pid = 12, .parent = 10, .group = 12, .began = 5});
  look(10);
  put({.pid = 12, .parent = 1, .group = 12, .began = 77});

  EXPECT_EQ(look(10).processes, 1);
}

TEST_F(ProcessTreesTest, SeeChildrenThatComeLater) {
  put({.pid = 5, .parent = 1, .group = 5});
  put({.pid = 10, .parent = 1, .group = 10});
  look(10);
  put({.pid = 30, .parent = 10, .group = 10});

  EXPECT_EQ(look(10).processes, 2);
}

TEST_F(ProcessTreesTest, FindAWorkerThatWasAStrangerBefore) {
  put({.pid = 10, .parent = 1, .group = 10});
  put({.pid = 20, .parent = 1, .group = 20});
  look(10);

  EXPECT_EQ(look(20).processes, 1);
}

TEST_F(ProcessTreesTest, NeverCountBackwards) {
  put({.pid = 10, .parent = 1, .group = 10, .cpu_seconds = 1, .written_bytes = 5});
  put({.pid = 11, .parent = 10, .group = 10, .cpu_seconds = 9, .written_bytes = 7});
  EXPECT_DOUBLE_EQ(look(10).cpu_seconds, 10);
  remove(11);
  EXPECT_DOUBLE_EQ(look(10).cpu_seconds, 10);
  put({.pid = 10, .parent = 1, .group = 10, .cpu_seconds = 2, .written_bytes = 6});

  EXPECT_DOUBLE_EQ(look(10).cpu_seconds, 11);
  EXPECT_EQ(look(10).written_bytes, 13);
}

TEST_F(ProcessTreesTest, AreEmptyWhenAWorkerHasEnded) {
  put({.pid = 10, .parent = 1, .group = 10, .cpu_seconds = 1});
  look(10);
  remove(10);

  const TreeUse use = look(10);

  EXPECT_EQ(use.processes, 0);
  EXPECT_EQ(use.memory_bytes, 0);
  EXPECT_DOUBLE_EQ(use.cpu_seconds, 1);
}

TEST_F(ProcessTreesTest, DoNotCountOneThatWaitsForItsEndToBeTaken) {
  put({.pid = 10, .parent = 1, .group = 10, .cpu_seconds = 3, .pages = 0, .state = 'Z'});

  EXPECT_EQ(look(10).processes, 0);
  EXPECT_DOUBLE_EQ(look(10).cpu_seconds, 3);
}

TEST_F(ProcessTreesTest, CountSharedMemoryOnce) {
  put({.pid = 10, .parent = 1, .group = 10, .pages = 1000, .share_kib = 16});
  const int64_t alone = look(10).memory_bytes;
  put({.pid = 11, .parent = 10, .group = 10, .pages = 1000, .share_kib = 8});

  EXPECT_GT(alone, 1'000'000);
  EXPECT_NEAR(static_cast<double>(look(10).memory_bytes), 24 * 1024, 2);
}

}  // namespace
}  // namespace lockstep::cluster
