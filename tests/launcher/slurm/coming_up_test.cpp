// SPDX-License-Identifier: Apache-2.0
// All launch modes on several nodes. The first network drops packets between nodes.
#include <gmock/gmock.h>

#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ComingUp : public LaunchOnLab {
 protected:
  // Runs a batch job that must succeed. In `line`, $L is the launcher and $P is meet.py.
  JobEnd job(const Words& options, const std::string& line) {
    JobEnd end = lab().run_job(
        options, "#!/bin/bash\nL=" + lockstep() + "\nP=" + meet() + "\n" + line + "\n");
    EXPECT_EQ(end.state, "COMPLETED") << end.output;
    return end;
  }
};

TEST_F(ComingUp, StartsItsAgentsInAnAllocationMadeWithSalloc) {
  const Result result = lab().on(
      "ctl", {"salloc", "-N4", lockstep(), "run", "--nproc-per-node", "2", meet(), "a b", "--c"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  expect_workers(lab(), {{"n1", 2}, {"n2", 2}, {"n3", 2}, {"n4", 2}});
  EXPECT_EQ(fact_of(lab(), 7).at("argv"), (Words{"a b", "--c"}));
  EXPECT_THAT(result.output, HasSubstr("rank 7 met 8 on n4"));
}

TEST_F(ComingUp, StartsItsAgentsInABatchJob) {
  const JobEnd end = job({"-N3"}, "$L run --nproc-per-node 2 $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}, {"n3", 2}});
  EXPECT_THAT(end.output, AllOf(HasSubstr("rank 0 met 6 on n1"), HasSubstr("rank 5 met 6 on n3")));
}

// A step gets the GPUs of its own tasks, which can be fewer than those of the job.
TEST_F(ComingUp, TakesOneWorkerForEachGpuHoweverTheyWereAskedFor) {
  const std::vector<Words> requests = {{"-N2", "--gpus-per-node=2"},
                                       {"-N2", "--gres=gpu:2"},
                                       {"-N2", "--gpus=4", "--ntasks=2"},
                                       {"-N2", "--ntasks-per-node=2", "--gpus-per-task=1"}};
  for (const Words& request : requests) {
    SCOPED_TRACE(request.back());
    lab().work_in(request.back());

    job(request, "$L run --nproc-per-node gpu $P");

    expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
    EXPECT_EQ(fact_of(lab(), 0).value("CUDA_VISIBLE_DEVICES", ""), "0,1");
    EXPECT_EQ(fact_of(lab(), 3).value("CUDA_VISIBLE_DEVICES", ""), "0,1");
  }
}

TEST_F(ComingUp, GivesEveryWorkerAGpuOfItsOwnOnRequest) {
  job({"-N2", "--gpus-per-node=2"}, "$L run --nproc-per-node gpu --bind gpu $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
  EXPECT_EQ(fact_of(lab(), 2).value("CUDA_VISIBLE_DEVICES", ""), "0");
  EXPECT_EQ(fact_of(lab(), 3).value("CUDA_VISIBLE_DEVICES", ""), "1");
}

TEST_F(ComingUp, UsesPartOfAnAllocation) {
  job({"-N3"}, "$L run --nnodes 2 --nproc-per-node 2 $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
}

TEST_F(ComingUp, ComesUpAfterAnExportOfNothing) {
  job({"-N2", "--export=NONE"}, "$L run --nproc-per-node 2 $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
}

TEST_F(ComingUp, IsAnAgentInEachOfOneTaskPerNode) {
  const Result result =
      lab().on("ctl", {"srun", "-N4", lockstep(), "run", "--nproc-per-node", "2", meet()});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  expect_workers(lab(), {{"n1", 2}, {"n2", 2}, {"n3", 2}, {"n4", 2}});
}

TEST_F(ComingUp, IsAnAgentInAStepOfABatchJob) {
  job({"-N2", "--ntasks-per-node=1"}, "srun $L run --nproc-per-node 2 $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
}

TEST_F(ComingUp, BecomesTheWorkerInOneTaskPerWorker) {
  const Result result =
      lab().on("ctl", {"srun", "-N2", "--ntasks-per-node=2", lockstep(), "run", meet()});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
  EXPECT_EQ(fact_of(lab(), 3).value("SLURM_PROCID", ""), "3");
}

TEST_F(ComingUp, BecomesTheWorkerOfUnequalNodes) {
  job({"-N2", "--ntasks=3"}, "srun $L run $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 1}});
}

// mpirun itself needs its network as an option here; lockstep cannot change that.
TEST_F(ComingUp, IsAnAgentUnderMpirunWithOneProcessPerNode) {
  job({"-N2", "--ntasks-per-node=2"},
      "export OMPI_MCA_oob_tcp_if_include=fab0\n"
      "mpirun --map-by ppr:1:node $L run --nproc-per-node 2 $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
}

TEST_F(ComingUp, BecomesTheWorkerUnderMpirun) {
  job({"-N2", "--ntasks-per-node=2"}, "export OMPI_MCA_oob_tcp_if_include=fab0\nmpirun $L run $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
}

TEST_F(ComingUp, StartsItsAgentsOverSsh) {
  const Result result =
      lab().on("ctl", {lockstep(), "run", "-H", "n1-fab:2,n2-fab:2", meet(), "it's", "$HOME"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
  EXPECT_EQ(fact_of(lab(), 3).at("argv"), (Words{"it's", "$HOME"}));
}

TEST_F(ComingUp, ReadsItsHostsFromAFile) {
  lab().write("hosts", "n3-fab slots=1\nn1-fab slots=2\n");

  const Result result = lab().on("ctl", {lockstep(), "run", "--hostfile", "hosts", meet()});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  expect_workers(lab(), {{"n3", 1}, {"n1", 2}});
}

TEST_F(ComingUp, SaysWhichHostCannotBeReachedOverSsh) {
  const Result result = lab().on(
      "ctl", {lockstep(), "run", "--start-timeout", "20", "-H", "n1-fab:1,n9-fab:1", meet()});

  EXPECT_NE(result.status.code, 0);
  EXPECT_THAT(result.errors, HasSubstr("n9-fab"));
}

TEST_F(ComingUp, ComesUpByHandWithNodeRanks) {
  std::vector<Running> agents;
  for (const char* number : {"1", "0"}) {
    agents.push_back(lab().start(std::string(number) == "0" ? "n1" : "n2",
                                 {lockstep(),
                                  "run",
                                  "--nnodes=2",
                                  std::string("--node_rank=") + number,
                                  "--master_addr=n1-fab",
                                  "--master_port=29500",
                                  "--nproc_per_node=2",
                                  meet()}));
  }

  for (Running& agent : agents) {
    const Result result = agent.wait();
    EXPECT_EQ(result.status.code, 0) << result.errors;
  }
  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
}

TEST_F(ComingUp, ComesUpByHandAtAnEndpoint) {
  std::vector<Running> agents;
  for (const char* node : {"n3", "n1", "n2"}) {
    agents.push_back(lab().start(node,
                                 {lockstep(),
                                  "run",
                                  "--nnodes=3",
                                  "--rdzv-backend=c10d",
                                  "--rdzv-endpoint=n1-fab:29511",
                                  "--rdzv-id=job1",
                                  "--nproc-per-node=1",
                                  meet()}));
  }

  for (Running& agent : agents) {
    const Result result = agent.wait();
    EXPECT_EQ(result.status.code, 0) << result.errors;
  }
  EXPECT_EQ(fact_of(lab(), 2).value("WORLD_SIZE", ""), "3");
  EXPECT_EQ(fact_of(lab(), 0).value("host", ""), "n1");
}

// As in many job scripts: the name of the first node, which resolves to the blocked network.
TEST_F(ComingUp, NeedsNoWorkingNameOfTheHeadNode) {
  job({"-N2", "--ntasks-per-node=1"},
      "head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
      "srun $L run --nnodes 2 --nproc-per-node 2 --rdzv-id $SLURM_JOB_ID --rdzv-backend c10d "
      "--rdzv-endpoint $head:29500 $P");

  expect_workers(lab(), {{"n1", 2}, {"n2", 2}});
}

TEST_F(ComingUp, KeepsItsOwnRunApartFromTheOneItRunsIn) {
  lab().write(
      "outer.sh",
      "#!/bin/bash\n[ $RANK != 1 ] || " + lockstep() + " run --nproc-per-node 2 " + meet() + "\n");

  job({"-N2"}, "$L run ./outer.sh");

  expect_workers(lab(), {{"n2", 2}});
}

TEST_F(ComingUp, ShowsWhereEveryValueOfThePlanIsFrom) {
  const JobEnd end = job({"-N2", "--ntasks-per-node=2"}, "$L run --dry-run --nproc-per-node 2 $P");

  EXPECT_THAT(end.output,
              AllOf(HasSubstr("agents started by one srun"),
                    HasSubstr("Slurm job"),
                    HasSubstr("n[1-2]: 2 workers each")));
  EXPECT_FALSE(std::filesystem::exists(lab().path("fact-0.json")));
}

TEST_F(ComingUp, PassesEveryLineOn) {
  lab().write("talk.sh", "#!/bin/bash\nfor i in $(seq 2000); do echo $RANK says $i; done\n");

  const JobEnd end = job({"-N2"}, "$L run --nproc-per-node 2 --run-dir run ./talk.sh");

  for (const char* rank : {"0", "1", "2", "3"}) {
    const std::string last = std::string(rank) + " says 2000\n";
    EXPECT_THAT(end.output, HasSubstr(last));
    const std::string log =
        read_text(lab().path("run") / ("logs/attempt-0/rank-" + std::string(rank) + ".log"));
    EXPECT_THAT(log, AllOf(HasSubstr(std::string(rank) + " says 1\n"), HasSubstr(last)));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2000);
  }
}

// Two runs in one allocation, at the same time.
TEST_F(ComingUp, ShareAnAllocation) {
  job({"-N2"},
      "mkdir one two; cp $P one; cp $P two\n"
      "$L run --nproc-per-node 2 one/meet.py & first=$!\n"
      "$L run --nproc-per-node 2 two/meet.py && wait $first");

  EXPECT_TRUE(lab().has_file("one/fact-3.json"));
  EXPECT_TRUE(lab().has_file("two/fact-3.json"));
}

// A Python program without lockstep, with the command lines of three launchers.
constexpr const char* kDdp = R"(#!/usr/bin/python3
import argparse, os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
steps = parser.parse_args().steps
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(steps):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
mine = torch.cat([p.detach().flatten() for p in model.parameters()])
everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(everyones, mine)
assert all(torch.equal(mine, other) for other in everyones)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} agrees after {steps} steps")
dist.destroy_process_group()
)";

TEST_F(ComingUp, RunsAnUnmodifiedDdpProgramUnderEveryonesCommandLine) {
  if (!lab().on("n1", {"/usr/bin/python3", "-c", "import torch.distributed"}).status.is_success()) {
    GTEST_SKIP() << "python3-torch is not installed";
  }
  const std::string program = lab().write("ddp.py", kDdp);
  struct Case {
    const char* what;
    const char* line;
  };
  const std::vector<Case> cases = {
      {"salloc", "$L run --nproc-per-node 2 $D --steps 4"},
      {"torchrun",
       "srun -n2 --ntasks-per-node=1 $L run --nnodes=2 --nproc_per_node=2 --rdzv_id=7 "
       "--rdzv_backend=c10d --rdzv_endpoint=n1:29507 $D --steps 4"},
      {"torch.distributed.launch",
       "srun -n2 --ntasks-per-node=1 bash -c '$L run --nnodes=2 --node_rank=$SLURM_NODEID "
       "--nproc_per_node=2 --master_addr=n1-fab --master_port=29508 --use_env $D --steps 4'"},
      {"srun", "srun -n4 $L run $D --steps 4"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const JobEnd end = lab().run_job({"-N2", "--cpus-per-task=2", "--ntasks-per-node=2"},
                                     "#!/bin/bash\nexport OMP_NUM_THREADS=1 L=" + lockstep() +
                                         " D=" + program + "\n" + one.line + "\n",
                                     seconds(240));
    EXPECT_EQ(end.state, "COMPLETED") << end.output;
    for (const char* rank : {"0", "1", "2", "3"}) {
      EXPECT_THAT(end.output,
                  HasSubstr(std::string("rank ") + rank + " of 4 agrees after 4 steps"));
    }
  }
}

}  // namespace
}  // namespace lockstep::testing
