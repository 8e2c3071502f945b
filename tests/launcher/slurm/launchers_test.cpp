// SPDX-License-Identifier: Apache-2.0
// All launchers of a job file train with the same result, on two nodes with two workers each.
#include <gmock/gmock.h>
#include <map>
#include <optional>
#include <regex>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Words& launchers() {
  static const Words kNames = {"lockstep",
                               "torchrun",
                               "mpirun-torchrun",
                               "srun",
                               "mpirun",
                               "horovodrun",
                               "loop",
                               "tensorflow"};
  return kNames;
}

// Training program in Python; rank 0 prints the loss.
constexpr const char* kDdp = R"(import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
for step in range(10):
    optimizer.zero_grad()
    loss = model(data[rank::world]).pow(2).mean()
    loss.backward()
    optimizer.step()
total = loss.detach().clone()
dist.all_reduce(total)
if rank == 0:
    print(f"loss {total.item() / world:.7f} of {world} workers", flush=True)
dist.destroy_process_group()
)";

bool uses_torchrun(const std::string& launcher) {
  return launcher.ends_with("torchrun") || launcher == "loop";
}

class Launchers : public LaunchOnLab {
 protected:
  void SetUp() override {
    LaunchOnLab::SetUp();
    if (!IsSkipped()) {
      torchrun_fault_ = find_torchrun_fault(lab());
      // Horovod installs horovodrun; lockstep also runs under that name.
      os::replace_link(lab().home() / "bin/horovodrun", "lockstep");
      lab().write("job.yaml",
                  "num_nodes: 2\nworkers_per_node: 2\ngpus_per_node: 0\ncpus_per_task: 2\n"
                  "memory: 500M\ntime: 5\n"
                  "job_name: ${launcher}\n"
                  "std_out: ${launcher}-%j.log\nerr_out: ${launcher}-%j.log\n");
    }
  }

  // Submits a job with lockstep submit. Returns its id.
  std::string submit(const std::string& launcher, const std::string& program) {
    std::string line = "PATH=$HOME/bin:$PATH lockstep submit -c job.yaml --no-save-script" +
                       (" --launcher " + launcher) + " --training-cmd '" + program + "'";
    if (uses_torchrun(launcher)) {
      // torchrun 1.13 of Debian cannot parse its own defaults of -r and -t; these are equivalent.
      line += " --launcher-args=-r --launcher-args=9:1 --launcher-args=-t --launcher-args=9:1";
    }
    const Result result = lab().shell("ctl", line);
    EXPECT_EQ(result.status.code, 0) << result.errors;
    std::smatch found;
    const bool is_found =
        std::regex_search(result.errors, found, std::regex("submitted job ([0-9]+)"));
    EXPECT_TRUE(is_found) << result.errors;
    return is_found ? found[1].str() : "0";
  }

  // Runs the program with every launcher, all at once. Returns the output by launcher.
  std::map<std::string, std::string> run_all(
      const std::function<std::string(std::string)>& program) {
    std::map<std::string, std::string> jobs;
    for (const std::string& launcher : launchers()) {
      if (torchrun_fault_ && uses_torchrun(launcher)) {
        continue;
      }
      jobs[launcher] = submit(launcher, program(launcher));
    }
    std::map<std::string, std::string> logs;
    for (const auto& [launcher, id] : jobs) {
      const JobEnd end = lab().wait_for_job(id, seconds(240));
      logs[launcher] = read_text(lab().path(launcher + "-" + id + ".log"));
      EXPECT_EQ(end.state, "COMPLETED") << launcher << ": " << logs[launcher];
    }
    return logs;
  }

  // Reports the launchers that run_all() left out, after all that it started were compared.
  void skip_torchrun() {
    if (torchrun_fault_) {
      GTEST_SKIP() << "torchrun, mpirun-torchrun and loop were left out: " << *torchrun_fault_;
    }
  }

 private:
  std::optional<std::string> torchrun_fault_;
};

TEST_F(Launchers, RunAPythonProgramToTheSameLoss) {
  lab().write("ddp.py", kDdp);

  const auto logs = run_all([](const std::string&) { return "ddp.py"; });

  std::smatch expected;
  const std::string& ours = logs.at("lockstep");
  ASSERT_TRUE(std::regex_search(ours, expected, std::regex("loss [0-9.]+ of 4 workers"))) << ours;
  for (const auto& [launcher, log] : logs) {
    EXPECT_THAT(log, HasSubstr(expected.str())) << launcher;
  }
  skip_torchrun();
}

TEST_F(Launchers, RunMnistToTheSameLoss) {
  const fs::path mnist = fs::path(LOCKSTEP_BIN_DIR) / "mnist";
  if (!fs::exists(mnist)) {
    GTEST_SKIP() << "mnist is not built here (LOCKSTEP_TRAINING=OFF)";
  }
  fs::copy_file(mnist, lab().path("mnist"), fs::copy_options::overwrite_existing);

  const auto logs = run_all([](const std::string& launcher) {
    return "./mnist -s ddp --net mlp --generated-digits --steps 12 --global-batch 64 --seed 3 "
           "--validate-every 12 --no-checkpoint --run-dir run-" +
           launcher;
  });

  const auto expected = losses_of(lab().path("run-lockstep"));
  ASSERT_FALSE(expected.empty()) << logs.at("lockstep");
  for (const auto& [launcher, log] : logs) {
    const auto losses = losses_of(lab().path("run-" + launcher));
    ASSERT_FALSE(losses.empty()) << launcher << ": " << log;
    const auto last = *losses.rbegin();
    ASSERT_EQ(last.first, expected.rbegin()->first) << launcher;
    EXPECT_NEAR(last.second, expected.rbegin()->second, 1e-6) << launcher;
  }
  skip_torchrun();
}

}  // namespace
}  // namespace lockstep::testing
