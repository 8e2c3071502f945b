// SPDX-License-Identifier: Apache-2.0
// Environments that are built on this machine with a fake python.
#include <csignal>
#include <gmock/gmock.h>

#include "support/fake_python.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EnvBuildHere : public ::testing::Test {
 protected:
  EnvBuildHere() { launcher_.write_script("python", kFakePython); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(launcher_.path(name)) << text;
  }

  Result build(const std::string& yaml, const std::vector<std::string>& flags = {}) {
    write("env.yaml", yaml);
    std::vector<std::string> words = {"env", "build", "-c", "env.yaml"};
    words.insert(words.end(), flags.begin(), flags.end());
    return launcher_.run(words);
  }

  bool is_there(const std::string& name) const { return fs::exists(launcher_.path(name)); }

  Launcher launcher_;
};

constexpr const char* kFile =
    "path: envs/mine\npython: ./python\nwhere: local\npackages: [a b, c]\n";

TEST_F(EnvBuildHere, IsWholeAtTheEndAndNotBefore) {
  const Result result = build(kFile);

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("python -m pip install a b c "));
  EXPECT_THAT(result.errors, HasSubstr("lockstep env: built"));
  EXPECT_TRUE(is_there("envs/mine/bin/activate"));
  EXPECT_FALSE(is_there("envs/mine/lockstep.unfinished"));
}

TEST_F(EnvBuildHere, LeavesNothingAndItsCodeWhenItFails) {
  const Result result = build(kFile + std::string("pip_options: [--broken]\n"));

  EXPECT_EQ(result.status.code, 7);
  EXPECT_THAT(result.errors, HasSubstr("build failed; nothing was installed"));
  EXPECT_FALSE(is_there("envs/mine"));
}

TEST_F(EnvBuildHere, DoesNotReplaceWhatIsThereUnlessForced) {
  build(kFile);
  write("envs/mine/old", "");

  const Result refused = build(kFile);
  EXPECT_EQ(refused.status.code, 64);
  EXPECT_THAT(refused.errors, HasSubstr("the environment already exists"));
  EXPECT_TRUE(is_there("envs/mine/old"));

  EXPECT_EQ(build(kFile, {"--force"}).status.code, 0);
  EXPECT_FALSE(is_there("envs/mine/old"));
  EXPECT_FALSE(is_there("envs/mine.lockstep-before"));
}

TEST_F(EnvBuildHere, BringsBackWhatAFailedOneWasToReplace) {
  build(kFile);
  write("envs/mine/old", "");

  EXPECT_EQ(build(kFile + std::string("pip_options: --broken\n"), {"--force"}).status.code, 7);

  EXPECT_TRUE(is_there("envs/mine/old"));
  EXPECT_TRUE(is_there("envs/mine/bin/activate"));
  EXPECT_FALSE(is_there("envs/mine.lockstep-before"));
}

TEST_F(EnvBuildHere, ReplacesOnlyWhatIsAnEnvironment) {
  fs::create_directories(launcher_.path("envs/mine/thesis"));

  const Result result = build(kFile, {"--force"});

  EXPECT_EQ(result.status.code, 1);
  EXPECT_THAT(result.errors, HasSubstr("is not a virtual environment; not replaced"));
  EXPECT_TRUE(is_there("envs/mine/thesis"));
}

TEST_F(EnvBuildHere, LeavesAnotherBuildAlone) {
  fs::create_directories(launcher_.path("envs/mine"));
  write("envs/mine/lockstep.unfinished", "job 1");

  const Result result = build(kFile);

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors, HasSubstr("another build of this environment has started"));
  EXPECT_TRUE(is_there("envs/mine/lockstep.unfinished"));
}

TEST_F(EnvBuildHere, CleansUpWhenItIsStopped) {
  write("env.yaml", kFile + std::string("pip_options: --slow\n"));
  launcher_.start({"env", "build", "-c", "env.yaml"});
  launcher_.wait_for_file("begun");
  EXPECT_TRUE(is_there("envs/mine/lockstep.unfinished"));
  EXPECT_FALSE(is_there("envs/mine/bin/activate"));

  launcher_.process().signal(SIGTERM);
  const Result result = launcher_.wait();

  EXPECT_EQ(result.status.code, 143);
  EXPECT_FALSE(is_there("envs/mine"));
}

TEST_F(EnvBuildHere, TouchesNothingInADryRun) {
  const Result result = build(kFile, {"--dry-run", "--submit"});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("#!/bin/bash\n"), HasSubstr("#SBATCH --job-name=\"env-mine\"")));
  EXPECT_FALSE(is_there("envs"));
  EXPECT_FALSE(is_there("slurm-job-logs"));
}

TEST_F(EnvBuildHere, GivesSecretsToTheScriptThatDoesNotShowThem) {
  const std::string yaml = kFile + std::string("env: {HF_TOKEN: abc}\n");
  launcher_.write_script("python", std::string(kFakePython) + "echo token $HF_TOKEN\n");

  EXPECT_THAT(build(yaml, {"--dry-run"}).output, Not(HasSubstr("abc")));
  EXPECT_THAT(build(yaml).output, HasSubstr("token abc"));
}

TEST_F(EnvBuildHere, SaysWhatIsMissing) {
  EXPECT_THAT(launcher_.run({"env", "build"}).errors, HasSubstr("no build file given"));
  EXPECT_THAT(build(kFile, {"--local", "--submit"}).errors,
              HasSubstr("--local and --submit contradict each other"));
  EXPECT_THAT(build(kFile, {"--no-wait"}).errors, HasSubstr("--no-wait requires a Slurm job"));
  EXPECT_EQ(launcher_.run({"env", "build", "-c", "nothing.yaml"}).status.code, 74);

  const Result no_python = build("path: e\nwhere: local\npython: python-of-mine\n");
  EXPECT_EQ(no_python.status.code, 1);
  EXPECT_THAT(no_python.errors, HasSubstr("no python-of-mine on "));
  EXPECT_FALSE(is_there("e"));
}

TEST_F(EnvBuildHere, NeedsSlurmForAJob) {
  launcher_.environment.insert_or_assign("PATH", "/nowhere");

  const Result result = build(kFile, {"--submit"});

  EXPECT_EQ(result.status.code, 69);
  EXPECT_THAT(result.errors, HasSubstr("sbatch"));
  EXPECT_FALSE(is_there("slurm-job-logs"));
}

TEST_F(EnvBuildHere, RefusesAModuleThatIsNotThere) {
  const Result result = build(kFile + std::string("modules: [no-such-module/1.0]\n"));

  EXPECT_EQ(result.status.code, 1);
  EXPECT_THAT(result.errors,
              ::testing::AnyOf(HasSubstr("no module no-such-module/1.0"),
                               HasSubstr("no module system on")));
  EXPECT_FALSE(is_there("envs"));
}

}  // namespace
}  // namespace lockstep::testing
