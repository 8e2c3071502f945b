// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/batch_script.h"

#include <gmock/gmock.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "launcher/slurm/job_fixture.h"
#include "launcher/slurm/shell_text.h"
#include "support/golden.h"

namespace lockstep::slurm {
namespace {

using lockstep::testing::expect_golden;
using lockstep::testing::job_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string script_of(const std::string& yaml) {
  return render_batch_script(job_of(yaml),
                             {.version = "1.2.3", .file = "job.yaml", .site = "here"});
}

constexpr const char* kTutorial =
    "job_name: tutorial-${distributed_strategy}\ndistributed_strategy: ddp\nnum_nodes: 2\n"
    "gpus_per_node: 4\ncpus_per_task: 32\naccount: my-project\npartition: gpu\ntime: 00:10:00\n"
    "std_out: logs/${job_name}.out\nerr_out: logs/${job_name}.err\npython_venv: .venv\n"
    "training_cmd: \"train.py -s {distributed_strategy}\"\n";

// Checks the syntax with bash.
void expect_bash(const std::string& text) {
  const os::TemporaryDirectory directory;
  os::write_file(directory.path() / "job.sh", text);
  const os::CommandResult result =
      os::run_command({"bash", "-n", (directory.path() / "job.sh").string()});
  EXPECT_TRUE(result.status.is_success()) << result.errors;
}

class ScriptOf : public ::testing::TestWithParam<std::string> {};

TEST_P(ScriptOf, ItsLauncherIsTheGolden) {
  const std::string text = script_of(kTutorial + ("launcher: " + GetParam()));

  expect_golden(text, "jobs/" + GetParam() + ".sbatch");
  expect_bash(text);
}

INSTANTIATE_TEST_SUITE_P(EachLauncher,
                         ScriptOf,
                         ::testing::ValuesIn(launcher_names()),
                         [](const auto& launcher) {
                           std::string name = launcher.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(BatchScript, OfAContainerUnderEachLauncherIsTheGolden) {
  std::string all;
  for (const std::string& launcher : launcher_names()) {
    const std::string text = script_of(
        "container_path: images/torch.sif\ncontainer_binds: [/scratch, '$PWD:/work:ro']\n"
        "container_args: [--cleanenv]\ncontainer_cache: /scratch/$USER/apptainer\n"
        "environment: apptainer\npython_venv: not-used\nnum_nodes: 2\n"
        "training_cmd: train.py --data '/my data'\nlauncher: " +
        launcher);
    expect_bash(text);
    all += launcher == "lockstep"
               ? text
               : render_launch(job_of("container_path: images/torch.sif\nnum_nodes: "
                                      "2\ntraining_cmd: train.py\nlauncher: " +
                                      launcher));
  }
  expect_golden(all, "jobs/container.sbatch");
}

TEST(BatchScript, WithEverythingIsTheGolden) {
  const std::string text = script_of(
      "job_name: all\naccount: a\npartition: p\nqos: q\nreservation: r\nconstraint: v100\n"
      "array: 0-3%2\ndependency: afterok:1\nexclusive: true\nmemory: 0\nrequeue: true\n"
      "signal_seconds: 120\nmax_requeues: 9\nmail_type: END\nmail_user: me@x.org\n"
      "sbatch: [--switches=1, --nice]\nmodules: [GCC, CUDA/12]\nmodule_use: [/opt/modules]\n"
      "http_proxy: http://proxy:80\nenv: {NCCL_DEBUG: INFO, SECRET_KEY: x, HF_TOKEN: abc}\n"
      "conda_env: torch\nconda_activate: /opt/conda/bin/activate\n"
      "pre_exec_command: |\n  echo before\n  date\npost_exec_command: echo after\n"
      "interface: ib0\nlauncher_args: [--max-restarts, '3']\n"
      "training_cmd: $(which itwinai) exec-pipeline\n");

  expect_golden(text, "jobs/everything.sbatch");
  expect_bash(text);
  EXPECT_THAT(text, Not(HasSubstr("abc"))) << "a secret";
}

TEST(BatchScript, ThatIsPutBackIsTheGolden) {
  std::string all;
  for (const char* more : {"",
                           "post_exec_command: date\n",
                           "launcher: torchrun\n",
                           "launcher: loop\n",
                           "launcher: srun\narray: 0-3\n",
                           "exec_command: |\n  cd runs\n  srun my-launcher\n"}) {
    const std::string text =
        script_of("num_nodes: 2\nrequeue: true\nsignal_seconds: 90\ntraining_cmd: train.py\n" +
                  std::string(more));
    expect_bash(text);
    all += text.substr(text.find("\n# Training"));
  }
  expect_golden(all, "jobs/requeue.sbatch");
}

TEST(BatchScript, ProfilesItsLauncher) {
  EXPECT_THAT(script_of("py_spy: true\nprofiling_sampling_rate: 50\ntraining_cmd: train.py"),
              HasSubstr("py-spy record --subprocesses --rate 50 --output "
                        "\"py-spy-$SLURM_JOB_ID.svg\" -- \\\n  \"$lockstep\" run "));
}

TEST(BatchScript, RunsItsOwnCommandWhereThereIsOne) {
  const std::string text = script_of("exec_command: srun my-launcher {run_name}");

  EXPECT_THAT(text,
              AllOf(HasSubstr("\nsrun my-launcher main-run\nstatus=$?\n"),
                    Not(HasSubstr("\"$lockstep\" run")),
                    HasSubstr("under a custom command")));
}

// A step that ends while a trap runs keeps its own exit code, not that of the signal.
TEST(BatchScript, WaitsForTheEndOfItsStepWhateverSignalsCome) {
  const std::string text = script_of(
      "requeue: true\nsignal_seconds: 90\nlauncher: torchrun\npre_exec_command: |\n"
      "  scancel() { touch in-trap; while kill -0 \"$(cat step)\"; do sleep 0.02; done; touch out; "
      "}\n"
      "  scontrol() { :; }\n"
      "exec_command: |\n"
      "  echo $BASHPID >step; kill -USR1 $$; until [ -e in-trap ]; do sleep 0.02; done; exit 5");
  const os::TemporaryDirectory directory;
  const os::CommandResult done =
      os::run_command({"bash", "-c", text},
                      {.directory = directory.path(), .time_limit = std::chrono::seconds(120)});

  EXPECT_EQ(done.status.shell_code(), 5) << done.errors;
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "out")) << done.errors;
}

// bash 5.2 loses the exit code of a process that ends at the moment when a trap interrupts `wait`:
// in this test about once in seven times.
TEST(BatchScript, KnowsHowItsStepHasEndedThoughASignalComesJustThen) {
  const std::string text = script_of(
      "requeue: true\nsignal_seconds: 90\nlauncher: torchrun\npre_exec_command: |\n"
      "  scancel() { :; }\n  scontrol() { :; }\n  sleep() { command sleep 0.01; }\n"
      "exec_command: |\n"
      "  exec python3 -c 'import os; os.fork() or (os.kill('$$', 10), os._exit(0)); os._exit(5)'");
  for (int turn = 0; turn < 40; ++turn) {
    const os::CommandResult done =
        os::run_command({"bash", "-c", text}, {.time_limit = std::chrono::seconds(120)});
    ASSERT_EQ(done.status.shell_code(), 5) << "in iteration " << turn << ": " << done.errors;
  }
}

TEST(BatchScript, KeepsItsNameWhereOthersWaitForIt) {
  EXPECT_THAT(script_of("dependency: singleton"), Not(HasSubstr("scontrol update")));
  EXPECT_THAT(script_of("array: 0-1"), Not(HasSubstr("scontrol update")));
  EXPECT_THAT(script_of(""), HasSubstr("JobName=\"ddp-1x4-$SLURM_JOB_ID\""));
}

TEST(BatchScript, NamesProgramsThatAreNotPythonToTorchrun) {
  EXPECT_THAT(script_of("launcher: torchrun\ntraining_cmd: ./mnist -s ddp"),
              HasSubstr("--no_python ./mnist -s ddp"));
  EXPECT_THAT(script_of("launcher: srun\ntraining_cmd: ./mnist -s ddp"),
              HasSubstr("worker \\\n  ./mnist -s ddp"));
}

TEST(InQuotes, LeavesOnlyVariablesToTheShell) {
  EXPECT_EQ(in_quotes("a b"), "\"a b\"");
  EXPECT_EQ(in_quotes("$HOME/${USER}"), "\"$HOME/${USER}\"");
  EXPECT_EQ(in_quotes("~/env"), "\"$HOME/env\"");
  EXPECT_EQ(in_quotes("$(rm -rf x) `ls` \"q\" \\ 5$"),
            "\"\\$(rm -rf x) \\`ls\\` \\\"q\\\" \\\\ 5\\$\"");
}

}  // namespace
}  // namespace lockstep::slurm
