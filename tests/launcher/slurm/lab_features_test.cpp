// SPDX-License-Identifier: Apache-2.0
// Optional features of a lab: modules, Apptainer, accounts.
#include <gmock/gmock.h>

#include "common/os/command.h"
#include "launcher/slurm/environments.h"
#include "launcher/slurm/with_lab.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Defines `module` in a job script, which is not a login shell.
constexpr const char* kFindModules = R"(#!/bin/bash
set -euo pipefail
unset -f module
for init in /etc/profile.d/lmod.sh /usr/share/lmod/lmod/init/bash \
    /etc/profile.d/modules.sh /usr/share/modules/init/bash; do
  if [ -r "$init" ]; then
    set +u
    . "$init"
    set -u
    break
  fi
done
module purge
)";

struct Modules {
  static Words options() { return {"--nodes", "1", "--modules"}; }
};
using LabWithModules = WithLab<Modules>;

TEST_F(LabWithModules, LoadsThemInAJobOfNoLoginShell) {
  const JobEnd end =
      lab().run_job({},
                    std::string(kFindModules) +
                        "module load lockstep-lab/1.0 other/2.0\n"
                        "srun bash -c 'echo has $LOCKSTEP_LAB_MODULE and $LOCKSTEP_LAB_OTHER'\n"
                        "module purge\necho and then ${LOCKSTEP_LAB_MODULE:-nothing}\n");

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("has 1.0 and 2.0"), HasSubstr("and then nothing")));
}

TEST_F(LabWithModules, LeavesWithOneWhenThereIsNoSuchModule) {
  const JobEnd end =
      lab().run_job({}, std::string(kFindModules) + "module load nothing/3.0\necho went on\n");

  EXPECT_EQ(end.state, "FAILED");
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.output, AllOf(HasSubstr("nothing/3.0"), Not(HasSubstr("went on"))));
}

TEST_F(LabWithModules, HasACondaThatIsNone) {
  const std::string conda = make_conda(lab());

  const JobEnd end = lab().run_job({},
                                   "#!/bin/bash\nset -e\n. " + conda +
                                       "/bin/activate torch\n"
                                       "echo $CONDA_DEFAULT_ENV $(type -p python)\n. " +
                                       conda + "/bin/activate nothing\necho went on\n");

  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("torch " + conda + "/envs/torch/bin/python"),
                    HasSubstr("Could not find conda environment: nothing"),
                    Not(HasSubstr("went on"))));
}

struct Apptainer {
  static Words options() { return {"--nodes", "2", "--apptainer"}; }
};
using LabWithApptainer = WithLab<Apptainer>;

TEST_F(LabWithApptainer, RunsAContainerOnEveryNode) {
  const std::string image = make_image(lab());

  const Result result = lab().on("ctl",
                                 {"srun",
                                  "-N2",
                                  "--gpus-per-node=2",
                                  "apptainer",
                                  "exec",
                                  image,
                                  "sh",
                                  "-c",
                                  "read made </image; echo $SLURM_NODEID $CUDA_VISIBLE_DEVICES "
                                  "$made in $APPTAINER_NAME"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_EQ(
      sorted_lines(result.output),
      (Words{"0 0,1 made by make-image.sh in lab.sif", "1 0,1 made by make-image.sh in lab.sif"}));
}

TEST_F(LabWithApptainer, PassesAnExitCodeOn) {
  const Result result =
      lab().on("n1", {"apptainer", "exec", make_image(lab()), "sh", "-c", "exit 42"});

  EXPECT_EQ(result.status.code, 42);
}

TEST_F(LabWithApptainer, HasTheNodesPythonWhereUsrIsBound) {
  if (!lab().on("n1", {"/usr/bin/python3", "-c", "import torch"}).status.is_success()) {
    GTEST_SKIP() << "python3-torch is not installed";
  }
  const Result result =
      lab().on("n1",
               {"apptainer",
                "exec",
                "-B",
                "/usr,/etc",
                make_image(lab()),
                "python3",
                "-c",
                "import torch; print(torch.ones(3).sum(), open('/image').read())"});

  EXPECT_EQ(result.output, "tensor(3.) made by make-image.sh\n\n") << result.errors;
}

TEST_F(LabWithApptainer, BuildsAnImageFromADefinition) {
  lab().write("more.def",
              "Bootstrap: localimage\nFrom: " + make_image(lab()) +
                  "\n%post\n  echo more >/more\n%runscript\n  cat /more\n");

  const JobEnd end = lab().run_job(
      {}, "#!/bin/bash\nset -e\napptainer build more.sif more.def\napptainer run more.sif\n");

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output, HasSubstr("\nmore\n"));
}

// Without a mirror in the configuration of apt, as without a network or without Debian.
TEST(ApptainerOfTheLab, IsNotToBeHadWithoutAMirror) {
  const os::TemporaryDirectory directory("apptainer");
  std::ofstream(directory.path() / "apt.conf")
      << "Dir::Etc::SourceList \"/dev/null\";\nDir::Etc::SourceParts \"/dev/null\";\n";

  const Result result =
      Running({"/usr/bin/env",
               "APT_CONFIG=" + (directory.path() / "apt.conf").string(),
               std::string(LOCKSTEP_SOURCE_DIR) + "/tests/launcher/slurm/lab/fetch-apptainer.sh",
               (directory.path() / "cache/apptainer").string()})
          .wait();

  EXPECT_EQ(result.status.code, 77);
  EXPECT_THAT(result.errors,
              ::testing::AnyOf("apt has no Debian mirror\n", HasSubstr("is not installed")));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "cache"));
}

struct Accounts {
  static Words options() { return {"--nodes", "1", "--accounts"}; }
};
using LabWithAccounts = WithLab<Accounts>;

TEST_F(LabWithAccounts, RefusesAJobWithoutOneAndWithAWrongOne) {
  const Result without = lab().shell("ctl", "sbatch --wrap hostname");
  const Result wrong = lab().shell("ctl", "sbatch --account=nobodys --wrap hostname");

  EXPECT_EQ(without.status.code, 1);
  EXPECT_THAT(without.errors,
              AllOf(HasSubstr("This cluster needs an account"), HasSubstr("Invalid account")));
  EXPECT_EQ(wrong.status.code, 1);
  EXPECT_THAT(wrong.errors, HasSubstr("Invalid account"));
}

TEST_F(LabWithAccounts, ReportsAJobThatHasEnded) {
  const std::string id = lab().submit({"--account=test"}, "#!/bin/bash\nexit 3\n");
  lab().wait_for_job(id);

  // slurmdbd is updated asynchronously.
  std::string said;
  EXPECT_TRUE(comes_true(seconds(60), [&] {
    said = lab().on("ctl", {"sacct", "-nPX", "-j", id, "-o", "Account,State,ExitCode"}).output;
    return said == "test|FAILED|3:0\n";
  })) << said;
}

}  // namespace
}  // namespace lockstep::testing
