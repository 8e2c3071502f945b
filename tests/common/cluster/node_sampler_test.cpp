// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/node_sampler.h"

#include <csignal>
#include <gmock/gmock.h>
#include <thread>

#include "common/cluster/cores.h"
#include "common/os/host.h"
#include "common/os/process.h"

namespace lockstep::cluster {
namespace {

using contract::GpuSample;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

os::Child start(const char* script) {
  return os::start({.executable = "/bin/sh",
                    .arguments = {"sh", "-c", script},
                    .environment = os::environment(),
                    .inherited = {},
                    .directory = "",
                    .has_own_group = true});
}

TEST(NodeSampler, SeesAWorkerAndTheNode) {
  os::Child busy = start("sh -c 'while :; do :; done' & wait");
  NodeSampler sampler({.node = 3, .root = "/", .nvml = "libno-such-thing.so"});
  const std::vector<WatchedWorker> workers = {{.rank = 6, .pid = busy.pid(), .visible_gpus = {}}};

  // The worker may have to wait for a processor. The time used is counted in ticks of 10 ms.
  contract::NodeSample sample = sampler.sample(workers);
  for (int turn = 0; turn < 300 && (sample.workers.empty() || sample.workers[0].cores == 0);
       ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    sample = sampler.sample(workers);
  }
  busy.signal_group(SIGKILL);
  busy.wait();

  EXPECT_EQ(sample.node, 3);
  EXPECT_EQ(sample.host, os::host_name());
  EXPECT_EQ(sample.granted, granted_cores());
  EXPECT_GT(sample.memory_limit_bytes, 0);
  EXPECT_THAT(sample.gpus, IsEmpty());
  EXPECT_THAT(sample.no_gpus, HasSubstr("was not found: no NVIDIA driver"));
  ASSERT_THAT(sample.workers, SizeIs(1));
  EXPECT_EQ(sample.workers[0].rank, 6);
  EXPECT_EQ(sample.workers[0].pid, busy.pid());
  EXPECT_THAT(sample.workers[0].cores, AllOf(Gt(0.0), Le(1.5)));
  EXPECT_THAT(sample.workers[0].memory_bytes, Gt(10'000));
  EXPECT_EQ(sample.memory_bytes, sample.workers[0].memory_bytes);
}

TEST(NodeSampler, HasNoWordOfAWorkerThatDiedBetweenTwoSamples) {
  os::Child brief = start("exec sleep 60");
  NodeSampler sampler({.node = 0, .root = "/", .nvml = "libno-such-thing.so"});
  const std::vector<WatchedWorker> workers = {{.rank = 0, .pid = brief.pid(), .visible_gpus = {}}};
  EXPECT_THAT(sampler.sample(workers).workers, SizeIs(1));
  brief.signal_group(SIGKILL);
  brief.wait();

  EXPECT_THAT(sampler.sample(workers).workers, IsEmpty());
}

TEST(NodeSampler, ReportsWhatIsKnownOfANodeWithoutProcAndSys) {
  NodeSampler sampler({.node = 0, .root = "/there/is/none", .nvml = "libno-such-thing.so"});

  const contract::NodeSample sample = sampler.sample({});

  EXPECT_THAT(sample.interfaces, IsEmpty());
  EXPECT_EQ(sample.memory_limit_bytes, 0);
}

TEST(NodeSampler, ReadsGpusFromTheDriver) {
  NodeSampler sampler({.node = 0, .root = "/", .nvml = LOCKSTEP_FAKE_NVML});

  const contract::NodeSample sample = sampler.sample({});

  EXPECT_THAT(sample.gpus, SizeIs(1));
  EXPECT_THAT(sample.no_gpus, IsEmpty());
}

TEST(NameGpus, ReadsWhatCudaReads) {
  const std::vector<GpuSample> gpus = {{.index = 0, .uuid = "GPU-aa"},
                                       {.index = 1, .uuid = "GPU-bb"}};

  EXPECT_THAT(name_gpus(std::nullopt, gpus), ElementsAre(0, 1));
  EXPECT_THAT(name_gpus("1", gpus), ElementsAre(1));
  EXPECT_THAT(name_gpus("1,0", gpus), ElementsAre(1, 0));
  EXPECT_THAT(name_gpus("GPU-b", gpus), ElementsAre(1));
  EXPECT_THAT(name_gpus("", gpus), IsEmpty());
  EXPECT_THAT(name_gpus("0,-1,1", gpus), ElementsAre(0));
}

}  // namespace
}  // namespace lockstep::cluster
