// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/collect.h"

#include <chrono>
#include <fstream>
#include <gmock/gmock.h>

#include "common/base/clock.h"
#include "common/os/files.h"
#include "launcher/doctor/questions.h"
#include "launcher/doctor/run_with_timeout.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(Collect, ReadsGpusThroughTheDriversLibrary) {
  const doctor::GpuFacts facts = doctor::collect_gpus(
      {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_GPUS_ON_NODE", "2"}}, LOCKSTEP_FAKE_NVML);
  EXPECT_TRUE(facts.has_nvml);
  EXPECT_EQ(facts.driver, "550.54.15");
  EXPECT_EQ(facts.cuda_of_driver, 12040);
  ASSERT_EQ(facts.gpus.size(), 2U);
  EXPECT_EQ(facts.gpus[1].name, "Fake GPU");
  EXPECT_EQ(facts.gpus[1].uncorrected_errors, 3);
  EXPECT_EQ(facts.gpus[1].persistence, std::nullopt);  // not supported by this driver
  EXPECT_EQ(facts.granted, 2);
}

TEST(Collect, DoesWithoutADriver) {
  EXPECT_FALSE(doctor::collect_gpus({}, "libno-such-library.so.1").has_nvml);
}

TEST(Collect, ReadsRdmaPortsAndTheirGids) {
  const os::TemporaryDirectory root;
  const fs::path port = root.path() / "class/infiniband/mlx5_0/ports/1";
  write(port / "state", "4: ACTIVE\n");
  write(port / "link_layer", "Ethernet\n");
  write(port / "rate", "100 Gb/sec (4X EDR)\n");
  write(port / "gid_attrs/types/3", "RoCE v2\n");
  write(port / "gid_attrs/ndevs/3", "eth0\n");
  write(port / "gids/3", "0000:0000:0000:0000:0000:ffff:0a0c:0001\n");
  write(port / "gid_attrs/types/4", "RoCE v2\n");
  write(port / "gids/4", "0000:0000:0000:0000:0000:0000:0000:0000\n");

  const auto ports = doctor::collect_rdma(root.path());

  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].state, "4: ACTIVE");
  ASSERT_EQ(ports[0].gids.size(), 1U);  // empty entries are skipped
  EXPECT_EQ(ports[0].gids[0].interface, "eth0");
}

TEST(Collect, FindsVersionsInWhatProgramsSay) {
  EXPECT_EQ(doctor::find_version("mpirun (Open MPI) 4.1.4\n\nReport bugs"), "4.1.4");
  EXPECT_EQ(doctor::find_version("slurm-wlm 22.05.8"), "22.05.8");
  EXPECT_EQ(doctor::find_version("release 12.4, V12.4.131"), "12.4");
  EXPECT_EQ(doctor::find_version("version 7"), "");
  EXPECT_EQ(doctor::find_version(""), "");
}

TEST(Collect, KeepsNoPassword) {
  EXPECT_EQ(doctor::without_password("http://me:se@cret@proxy:3128"), "http://***@proxy:3128");
  EXPECT_EQ(doctor::without_password("http://proxy:3128"), "http://proxy:3128");
  const doctor::EnvironmentFacts place = doctor::collect_environment(
      {{"https_proxy", "http://me:secret@proxy:1"}}, {.is_quick = true});
  EXPECT_EQ(place.proxies.at("https_proxy"), "http://***@proxy:1");
}

// Quick means that no other program is started. All that could be are fakes that leave a file.
TEST(Collect, OfANodeIsQuickAndContainsNoSecrets) {
  const os::TemporaryDirectory directory;
  const fs::path started = directory.path() / "started";
  for (const char* name : {"apptainer",
                           "bash",
                           "getent",
                           "ldconfig",
                           "mpirun",
                           "nvcc",
                           "python3",
                           "scontrol",
                           "sinfo",
                           "singularity",
                           "srun"}) {
    const fs::path program = directory.path() / "bin" / name;
    write(program, "#!/bin/sh\n: >" + started.string() + "\n");
    fs::permissions(program, fs::perms::owner_all);
  }
  const os::Environment environment = {
      {"PATH", (directory.path() / "bin").string()}, {"MY_TOKEN", "very-secret"}, {"HOME", "/"}};

  const std::string text =
      doctor::to_json_text(doctor::collect_node(environment, {.is_quick = true}));

  EXPECT_FALSE(fs::exists(started));
  EXPECT_THAT(text, Not(HasSubstr("very-secret")));
  doctor::collect_node(environment, {.is_quick = false});
  EXPECT_TRUE(fs::exists(started));
}

TEST(Question, AboutTheClockIsAnsweredWithTheTime) {
  const double before = wall_time();
  const auto reported = doctor::find_clock(doctor::answer(doctor::clock_question()));
  ASSERT_TRUE(reported);
  EXPECT_GE(*reported, before - 0.001);
  EXPECT_LE(*reported, wall_time() + 0.001);
}

TEST(Question, ThatIsUnknownHasNoAnswer) {
  EXPECT_EQ(doctor::answer("what?"), "");
  EXPECT_EQ(doctor::answer("{\"what\": \"else\"}"), "");
  EXPECT_EQ(doctor::find_gid(doctor::answer(doctor::gid_question("lo"))), std::nullopt);
}

TEST(CommandWithALimit, EndsWhenItIsOver) {
  // Both commands would last longer than the time limit of the test.
  EXPECT_FALSE(doctor::run_with_timeout(
      {"sleep", "1000"}, os::environment(), std::chrono::milliseconds(100)));
  // The grandchild keeps the pipe open; its group is killed with it.
  EXPECT_FALSE(doctor::run_with_timeout(
      {"sh", "-c", "sleep 1000 & wait"}, os::environment(), std::chrono::milliseconds(100)));
}

TEST(CommandWithALimit, KeepsWhatWasSaid) {
  const auto result = doctor::run_with_timeout(
      {"sh", "-c", "echo out; echo err >&2; exit 3"}, os::environment(), std::chrono::seconds(20));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "out\n");
  EXPECT_EQ(result->errors, "err\n");
  EXPECT_EQ(result->status.code, 3);
  EXPECT_FALSE(
      doctor::run_with_timeout({"no-such-program"}, os::environment(), std::chrono::seconds(1)));
}

}  // namespace
}  // namespace lockstep::testing
