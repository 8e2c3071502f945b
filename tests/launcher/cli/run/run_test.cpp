// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "launcher/plan/plan.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

plan::LaunchPlan plan_of(Launcher& launcher, std::vector<std::string> words) {
  words.insert(words.begin(), {"--dry-run", "--json"});
  if (launcher.called == "lockstep") {
    words.insert(words.begin(), "run");
  }
  const Result result = launcher.run(words);
  EXPECT_EQ(result.errors, "");
  return contract::parse_plan(result.output);
}

TEST(DryRun, PrintsThePlanAndStartsNothing) {
  Launcher launcher;
  launcher.environment["CUDA_VISIBLE_DEVICES"] = "";

  const Result result =
      launcher.run({"run", "--dry-run", "--nproc_per_node=2", "touch", "started"});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, HasSubstr("touch started"));
  EXPECT_THAT(result.output, HasSubstr("(flag --nproc-per-node)"));
  EXPECT_THAT(result.output, HasSubstr("a free port on node 0"));
  EXPECT_FALSE(std::filesystem::exists(launcher.path("started")));
  EXPECT_FALSE(std::filesystem::exists(launcher.path("runs")));
}

TEST(Secrets, AreGivenToWorkersAndWrittenNowhere) {
  Launcher launcher;
  launcher.environment["HF_TOKEN"] = "hf_abc";
  const std::vector<std::string> options = {"-x",
                                            "HF_TOKEN",
                                            "--env",
                                            "http_proxy=http://me:abc@proxy",
                                            "--env",
                                            "TOKENIZERS_PARALLELISM=abc"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& program) {
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), program.begin(), program.end());
    return words;
  };

  const Result run = launcher.run(with({"run", "--verbose", "--run-dir", "run"},
                                       {"sh", "-c", "echo ${#HF_TOKEN} ${#http_proxy}"}));
  EXPECT_THAT(run.output, HasSubstr("6 19"));
  for (const std::string& text :
       {run.errors,
        read_text(launcher.run_directory().plan()),
        launcher.run(with({"run", "--dry-run"}, {"true"})).output,
        launcher.run(with({"run", "--dry-run", "--json"}, {"true"})).output}) {
    EXPECT_THAT(text, AllOf(HasSubstr("HF_TOKEN"), HasSubstr("(hidden)"), HasSubstr("TOKENIZERS")));
    EXPECT_THAT(text, AllOf(Not(HasSubstr("hf_abc")), Not(HasSubstr("me:abc"))));
  }
}

TEST(DryRun, PrintsThePlanForMachines) {
  Launcher launcher;
  const plan::LaunchPlan plan = plan_of(launcher,
                                        {"--env",
                                         "A=1",
                                         "--env",
                                         "B=2",
                                         "--grace=3",
                                         "--grace",
                                         "4",
                                         "echo",
                                         "--dry-run",
                                         "--",
                                         "x"});

  EXPECT_THAT(plan.command, ElementsAre("echo", "--dry-run", "--", "x"));
  EXPECT_EQ(plan.variables.at("A").value, "1");
  EXPECT_EQ(plan.variables.at("B").value, "2");
  EXPECT_EQ(plan.grace_seconds, plan::from_flag(4.0, "--grace"));
}

TEST(DryRun, TakesWhatFollowsTheDashesAsTheProgram) {
  Launcher launcher;
  EXPECT_THAT(plan_of(launcher, {"--", "echo", "a b", "--"}).command,
              ElementsAre("echo", "a b", "--"));
}

TEST(DryRun, ReadsTorchrunsVariables) {
  Launcher launcher;
  launcher.environment["CUDA_VISIBLE_DEVICES"] = "";
  launcher.environment["PET_NPROC_PER_NODE"] = "3";
  const plan::Sourced<int> expected{3, {plan::ValueSource::Variable, "PET_NPROC_PER_NODE"}};
  EXPECT_EQ(plan_of(launcher, {"true"}).nodes.at(0).workers, expected);
  EXPECT_EQ(plan_of(launcher, {"--nproc-per-node", "2", "true"}).nodes.at(0).workers.value, 2);

  launcher.called = "horovodrun";
  EXPECT_EQ(plan_of(launcher, {"true"}).nodes.at(0).workers.value, 1);
}

TEST(DryRun, SeesTheSlurmJobAroundIt) {
  Launcher launcher;
  launcher.environment["SLURM_JOB_ID"] = "4711";
  launcher.environment["SLURM_JOB_NODELIST"] = "n[1-2]";
  launcher.environment["SLURM_JOB_NUM_NODES"] = "2";
  launcher.environment["SLURM_NTASKS_PER_NODE"] = "4";

  const plan::LaunchPlan plan = plan_of(launcher, {"true"});

  EXPECT_EQ(plan.mode.value, plan::LaunchMode::Srun);
  EXPECT_EQ(plan.nodes.at(1).name, "n2");
  EXPECT_EQ(plan.nodes.at(1).workers.value, 4);
}

TEST(DryRun, ReadsHostFiles) {
  Launcher launcher;
  std::ofstream(launcher.path("hosts")) << "n1 slots=2\nn2 slots=1  # small\n";

  const plan::LaunchPlan plan = plan_of(launcher, {"--hostfile", "hosts", "true"});

  EXPECT_EQ(plan.mode.value, plan::LaunchMode::Ssh);
  EXPECT_EQ(plan.nodes.at(1).workers.value, 1);
}

TEST(DropIn, SearchesALongCallWithoutEnd) {
  Launcher launcher;
  launcher.called = "torch.distributed.launch";
  std::ofstream(launcher.path("long.py"))
      << "add_argument(" << std::string(200'000, 'a') << "'--local-rank'";

  EXPECT_EQ(plan_of(launcher, {"long.py"}).local_rank_option, "--local-rank");
}

TEST(DropIn, SpeaksTheDialectOfItsName) {
  Launcher launcher;
  launcher.environment["CUDA_VISIBLE_DEVICES"] = "";
  std::ofstream(launcher.path("train.py")) << "add_argument('--local-rank', '--local_rank')\n";
  std::ofstream(launcher.path("new.py")) << "add_argument('--local-rank')\n";

  launcher.called = "/usr/bin/torchrun";
  plan::LaunchPlan plan = plan_of(launcher, {"--nproc_per_node=2", "train.py", "--lr", "1"});
  EXPECT_THAT(plan.command, ElementsAre("python3", "train.py", "--lr", "1"));
  EXPECT_EQ(plan.nodes.at(0).workers.value, 2);
  EXPECT_FALSE(plan.passes_local_rank);

  launcher.called = "torch.distributed.launch";
  plan = plan_of(launcher, {"--nproc_per_node", "2", "train.py"});
  EXPECT_TRUE(plan.passes_local_rank);
  EXPECT_EQ(plan.local_rank_option, "--local_rank");
  EXPECT_EQ(plan_of(launcher, {"new.py"}).local_rank_option, "--local-rank");
  EXPECT_FALSE(plan_of(launcher, {"--use_env", "train.py"}).passes_local_rank);

  launcher.called = "horovodrun";
  plan = plan_of(launcher, {"-np", "4", "-H", "localhost:4", "python3", "train.py"});
  EXPECT_EQ(plan.mode.value, plan::LaunchMode::Local);
  EXPECT_EQ(plan.nodes.at(0).workers.value, 4);

  plan = plan_of(launcher,
                 {"-np",
                  "2",
                  "--gloo",
                  "--fusion-threshold-mb",
                  "32",
                  "--timeline_filename=t.json",
                  "--autotune",
                  "python3",
                  "train.py",
                  "--gloo"});
  EXPECT_THAT(plan.command, ElementsAre("python3", "train.py", "--gloo"));
  EXPECT_EQ(plan.variables.at("HOROVOD_CONTROLLER").value, "gloo");
  EXPECT_EQ(plan.variables.at("HOROVOD_FUSION_THRESHOLD").value, "33554432");
  EXPECT_EQ(plan.variables.at("HOROVOD_TIMELINE").value, "t.json");
  EXPECT_EQ(plan.variables.at("HOROVOD_AUTOTUNE").value, "1");

  launcher.called = "deepspeed";
  plan = plan_of(launcher, {"--num_gpus", "2", "train.py", "--deepspeed"});
  EXPECT_TRUE(plan.passes_local_rank);
  EXPECT_EQ(plan.program_word, 1);
  EXPECT_THAT(plan.command, ElementsAre("python3", "train.py", "--deepspeed"));
}

TEST(DropIn, NamesItselfInMessagesAndHelp) {
  Launcher launcher;
  for (const std::string name :
       {"torchrun", "horovodrun", "deepspeed", "torch.distributed.launch"}) {
    SCOPED_TRACE(name);
    launcher.called = name;
    EXPECT_THAT(launcher.run({}).errors, StartsWith(name + ": error: no program given"));
    EXPECT_THAT(launcher.run({"--nporc", "2", "a"}).errors,
                HasSubstr("'--nporc', which is not an option of " + name));
    EXPECT_THAT(launcher.run({"--help"}).output,
                HasSubstr("  " + name + " [OPTIONS] [--] PROGRAM"));
  }
}

}  // namespace
}  // namespace lockstep::testing
