// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "launcher/slurm/batch_script.h"
#include "launcher/slurm/job_fixture.h"
#include "launcher/slurm/shell_command.h"

namespace lockstep::slurm {
namespace {

using lockstep::testing::job_of;
using lockstep::testing::refusal_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string script_of(const std::string& yaml) {
  return render_batch_script(job_of(yaml), {.version = "1", .file = "", .site = ""});
}

TEST(AShellCommand, HasAFirstWordWithoutQuotes) {
  EXPECT_EQ(look_at_command("train.py --lr 1").first_word, "train.py");
  EXPECT_EQ(look_at_command("'my dir/train it.py' -x").first_word, "my dir/train it.py");
  EXPECT_EQ(look_at_command("my\\ dir/\"a b\".py\t-x").first_word, "my dir/a b.py");
  EXPECT_EQ(look_at_command("$(which a b) -x").first_word, "$(which a b)");
  EXPECT_EQ(look_at_command("").first_word, "");
}

TEST(AShellCommand, KnowsWhatBeginsAnotherOne) {
  EXPECT_EQ(look_at_command("a; b").separator, ";");
  EXPECT_EQ(look_at_command("a && b || c").separator, "&&");
  EXPECT_EQ(look_at_command("a || b").separator, "||");
  EXPECT_EQ(look_at_command("a &").separator, "&");
  EXPECT_EQ(look_at_command("a\nb").separator, "a line break");
  for (const char* one : {"a 2>&1",
                          "a &>log",
                          "a >|log",
                          "a 'x;y' \"m&&n\" `c;d` $(e;f) ${g:-;} h\\;i",
                          "a \\\n  b",
                          "a b\n"}) {
    SCOPED_TRACE(one);
    EXPECT_EQ(look_at_command(one).separator, "");
    EXPECT_FALSE(look_at_command(one).has_pipe);
    EXPECT_FALSE(look_at_command(one).has_open_quote);
  }
}

TEST(AShellCommand, KnowsPipesAndQuotesThatAreOpen) {
  EXPECT_TRUE(look_at_command("a 2>&1 | tee b").has_pipe);
  EXPECT_TRUE(look_at_command("a |& tee b").has_pipe);
  EXPECT_EQ(look_at_command("a |& tee b").separator, "");
  for (const char* one : {"a \"b", "a 'b", "a `b", "a $(b", "a ${b", "a \"b\\\""}) {
    EXPECT_TRUE(look_at_command(one).has_open_quote) << one;
  }
}

TEST(ATrainingCommand, IsRefusedIfTheLauncherWouldStartSomethingElse) {
  EXPECT_THAT(refusal_of("training_cmd: |\n  train.py --a 1\n  --b 2\n"),
              AllOf(HasSubstr("training_cmd must be a single command"),
                    HasSubstr("requested: training_cmd: train.py --a 1\\n--b 2"),
                    HasSubstr("a line break starts another command"),
                    HasSubstr("training_cmd: >")));
  EXPECT_THAT(
      refusal_of("training_cmd: cd x && train.py"),
      AllOf(HasSubstr("&& starts another"), HasSubstr("job.yaml:1:15"), HasSubstr("exec_command")));
  EXPECT_THAT(refusal_of("training_cmd: train.py --name \"a # b\""),
              AllOf(HasSubstr("an unclosed quote"), HasSubstr("comment in YAML")));
  EXPECT_THAT(refusal_of("training_cmd: A=1 python train.py"),
              AllOf(HasSubstr("cannot start 'A=1'"), HasSubstr("env: {A: 1}")));
  EXPECT_THAT(refusal_of("gpus_per_node: 2\ntraining_cmd: torchrun train.py"),
              AllOf(HasSubstr("cannot start torchrun as a worker"),
                    HasSubstr("2 per node"),
                    HasSubstr("launcher: selects the launcher")));
  EXPECT_EQ(refusal_of("gpus_per_node: 1\ntraining_cmd: /opt/bin/deepspeed train.py"), "");
  EXPECT_EQ(refusal_of("exec_command: a; b\ntraining_cmd: a; b"), "");
}

TEST(ATrainingCommand, KeepsItsCodeBehindAPipe) {
  const std::string script = script_of("training_cmd: train.py | tee log");
  EXPECT_THAT(script, HasSubstr("# Training\nset -o pipefail\n"));
  EXPECT_THAT(script_of("training_cmd: train.py"), Not(HasSubstr("pipefail")));
  for (const char* more : {"requeue: true", "launcher: loop"}) {
    EXPECT_THAT(refusal_of(std::string("training_cmd: train.py | tee log\n") + more),
                HasSubstr("cannot signal workers behind a pipe"));
  }
}

TEST(ATrainingCommand, MayHaveBlanksInItsPath) {
  EXPECT_THAT(script_of("launcher: torchrun\ntraining_cmd: \"'my dir/train it.py' -x\""),
              Not(HasSubstr("--no_python")));
}

TEST(ADirective, HasNothingThatAShellWouldReplace) {
  for (const char* yaml : {"std_out: $HOME/a.out",
                           "err_out: ${HOME}/a.err",
                           "std_out: ~/a.out",
                           "job_name: a-$USER",
                           "account: $ACCOUNT",
                           "sbatch: [--chdir=$HOME]"}) {
    EXPECT_THAT(refusal_of(yaml), HasSubstr("shell expansion is not available")) << yaml;
  }
  EXPECT_EQ(refusal_of("comment: costs $5"), "");
  EXPECT_THAT(refusal_of("job_name: a/b"), HasSubstr("job_name cannot be part of a file name"));
  EXPECT_THAT(refusal_of("job_name: a%j"), HasSubstr("'/' or '%'"));
  EXPECT_EQ(refusal_of("job_name: eine höchst schöne"), "");
}

TEST(AJob, TakesModulesAsTheyAreTyped) {
  const std::vector<std::string> all = {"GCC", "OpenMPI", "CUDA/12"};
  EXPECT_EQ(job_of("modules: GCC OpenMPI  CUDA/12").modules, all);
  EXPECT_EQ(job_of("modules: [GCC, OpenMPI, CUDA/12]").modules, all);
  EXPECT_EQ(job_of("modules: GCC, OpenMPI,CUDA/12").modules, all);
}

TEST(ADirective, OfSbatchIsOneOptionAndNoSize) {
  EXPECT_THAT(refusal_of("sbatch: --nice=10 --hold"),
              HasSubstr("each sbatch option must be a separate list item"));
  EXPECT_THAT(refusal_of("sbatch: [--nodes=5]"),
              AllOf(HasSubstr("--nodes is not allowed"), HasSubstr("num_nodes: COUNT")));
}

TEST(ADirective, HasAMemoryThatSlurmUnderstands) {
  for (const char* memory : {"lots", "64 GB", "64Gi", "1.5G"}) {
    EXPECT_THAT(refusal_of(std::string("memory: ") + memory),
                AllOf(HasSubstr("for memory"), HasSubstr("job.yaml:1:9")))
        << memory;
  }
  for (const char* memory : {"0", "4000", "64G", "64GB", "1t"}) {
    EXPECT_EQ(refusal_of(std::string("memory: ") + memory), "") << memory;
  }
}

TEST(ADirective, NamesTheLogsOfAnArrayAfterItsTasks) {
  EXPECT_EQ(job_of("array: 0-3").directive("output"), "slurm-job-logs/ddp-1x4-%A_%a.out");
  EXPECT_EQ(job_of("").directive("error"), "slurm-job-logs/ddp-1x4-%j.err");
}

}  // namespace
}  // namespace lockstep::slurm
