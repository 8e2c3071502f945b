// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/env_build.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::slurm {
namespace {

using lockstep::testing::expect_golden;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

EnvBuild build_of(const std::string& yaml) {
  return read_env_build(config::parse_yaml(yaml, "env.yaml"));
}

// Environment of a machine with a home and a scratch directory.
const os::Environment& machine() {
  static const os::Environment kVariables = {
      {"HOME", "/home/me"}, {"SCRATCH", "/scratch/me"}, {"TMPDIR", "/home/me/tmp"}};
  return kVariables;
}

std::string script_of(const std::string& yaml, bool is_forced = false) {
  EnvBuild build = build_of(yaml);
  choose_cache(build, machine(), "/work");
  const std::string text =
      render_env_build(build,
                       {.maker = {.version = "1.2.3", .file = "env.yaml", .site = ""},
                        .lockstep = "/opt/lockstep/bin/lockstep",
                        .is_forced = is_forced});
  const os::TemporaryDirectory directory;
  os::write_file(directory.path() / "build.sh", text);
  const os::CommandResult result =
      os::run_command({"bash", "-n", (directory.path() / "build.sh").string()});
  EXPECT_TRUE(result.status.is_success()) << result.errors;
  return text;
}

// Error text for a file; empty if it is valid.
std::string refusal_of(const std::string& yaml) {
  try {
    EnvBuild build = build_of(yaml);
    choose_cache(build, machine(), "/work");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

TEST(EnvScript, OfAVirtualEnvironmentIsTheGolden) {
  const std::string text = script_of(
      "path: envs/torch\nmodules: [Python/3.11, CUDA/12]\npackages: [torch, 'numpy<2']\n"
      "requirements: requirements.txt\npip_options: [--no-index, --find-links my wheels]\n"
      "https_proxy: http://proxy:3128\nenv: {PIP_PROGRESS_BAR: off, HF_TOKEN: abc}\n"
      "cache_dir: $SCRATCH/pip\naccount: a\npartition: p\ntime: 90\ncpus_per_task: 4\n"
      "memory: 8G\ngpus_per_node: 1\nconstraint: v100\nqos: q\nreservation: r\n");

  expect_golden(text, "envs/venv.sbatch");
  EXPECT_THAT(text, Not(HasSubstr("abc"))) << "a secret";
}

TEST(EnvScript, OfHorovodIsTheGolden) {
  expect_golden(script_of("path: envs/hvd\nwhere: local\npackages: torch\nhorovod: 0.28.1\n"
                          "nccl_home: /opt/nccl\nsystem_site_packages: true\n"
                          "env: {HOROVOD_WITHOUT_MXNET: 0, CC: gcc-12, CXX: g++-12}\n",
                          true),
                "envs/horovod.sbatch");
}

TEST(EnvScript, OfAnImageFromADefinitionIsTheGolden) {
  expect_golden(script_of("kind: apptainer\npath: /data/images/torch.sif\ndefinition: torch.def\n"
                          "build_options: [--fakeroot]\ngpus_per_node: 1\n",
                          true),
                "envs/definition.sbatch");
}

TEST(EnvScript, OfAnImageThatIsPulledIsTheGolden) {
  expect_golden(script_of("kind: apptainer\npath: ~/images/torch.sif\nwhere: local\n"
                          "image: docker://pytorch/pytorch\n"),
                "envs/pull.sbatch");
}

TEST(EnvScript, BuildsHorovodForCpusWhereNoNcclIsNamed) {
  EXPECT_THAT(script_of("path: e\nhorovod: true"),
              AllOf(HasSubstr("\"horovod\"\n"), Not(HasSubstr("HOROVOD_GPU_OPERATIONS"))));
}

TEST(EnvScript, InstallsNothingWhereNothingIsAskedFor) {
  EXPECT_THAT(script_of("path: e\npackages: []"), Not(HasSubstr("pip install")));
}

TEST(EnvBuild, NamesTheJobAfterThePath) {
  EXPECT_EQ(build_of("path: envs/torch-2.1/").job.name, "env-torch-2.1");
  EXPECT_EQ(build_of("kind: apptainer\npath: a/b.sif\nimage: x").job.name, "env-b");
  EXPECT_EQ(build_of("path: a\njob_name: mine").job.directive("output"),
            "slurm-job-logs/mine-%j.out");
}

TEST(EnvBuild, KeepsSecretsForTheEnvironmentOfTheJob) {
  const std::string yaml =
      "path: a\nenv: {HF_TOKEN: abc, OTHER: x}\nhttp_proxy: http://me:word@proxy\n";

  EXPECT_EQ(secrets_of_env_build(config::parse_yaml(yaml, "env.yaml")),
            (Pairs{{"HF_TOKEN", "abc"},
                   {"http_proxy", "http://me:word@proxy"},
                   {"HTTP_PROXY", "http://me:word@proxy"}}));
}

TEST(EnvBuild, RefusesWhatItDoesNotUnderstand) {
  struct Case {
    const char* yaml;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {"path: a\npackges: [torch]", {"packges", "env.yaml:2:1", "packages"}},
      {"packages: [torch]", {"path must name a new directory or file", "path: envs/"}},
      {"path: ..", {"path must name a new directory", "env.yaml:1:7"}},
      {"- path", {"invalid value for the whole file", "a list"}},
      {"path: \"a\\nrm -rf b/c\"", {"for path", "without line breaks", "env.yaml:1:7"}},
      {"path: a\nkind: conda", {"invalid value 'conda' for kind", "venv or apptainer"}},
      {"path: a\nwhere: cloud", {"invalid value 'cloud' for where", "slurm or local"}},
      {"path: a\ntime: soon", {"invalid value 'soon' for time", "env.yaml:2:7"}},
      {"path: a\ncpus_per_task: 0", {"invalid value '0' for cpus_per_task"}},
      {"path: a\naccount: 'a\"b'", {"account contains a character that is not allowed"}},
      {"path: a\nenv: {a-b: c}", {"'a-b' is not a valid variable name"}},
      {"path: a\nhorovod: maybe", {"invalid value 'maybe' for horovod", "true or false"}},
      {"path: a\nnccl_home: /opt/nccl", {"nccl_home requires horovod", "horovod: true"}},
      {"path: a\ndefinition: a.def", {"definition has no effect on a venv", "env.yaml:2:13"}},
      {"path: a\nkind: apptainer\nimage: x\npackages: [y]",
       {"packages has no effect on an image", "kind: venv"}},
      {"path: a\nkind: apptainer", {"the image needs exactly one source", "neither"}},
      {"path: a\nkind: apptainer\nimage: x\ndefinition: y", {"both", "env.yaml:3:8"}},
      {"path: a\ncache_dir: ~/cache",
       {"the cache would fill the quota of the home", "env.yaml:2:12", "cache_in_home: true"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.yaml);
    const std::string text = refusal_of(one.yaml);
    for (const std::string& part : one.parts) {
      EXPECT_THAT(text, HasSubstr(part));
    }
  }
}

std::string cache_of(const std::string& yaml, const os::Environment& environment) {
  EnvBuild build = build_of(yaml);
  choose_cache(build, environment, "/work");
  return build.cache_dir;
}

TEST(CacheOfAnImage, LiesOutsideOfTheHome) {
  const std::string image = "kind: apptainer\nimage: x\npath: ";

  EXPECT_EQ(cache_of(image + "images/a.sif", machine()), "images/apptainer-cache");
  EXPECT_EQ(cache_of(image + "/home/me/a.sif", machine()), "$SCRATCH/apptainer-cache");
  EXPECT_EQ(cache_of(image + "~/a.sif", machine()), "$SCRATCH/apptainer-cache");
  EXPECT_EQ(cache_of(image + "~/a.sif", {{"HOME", "/home/me"}, {"TMPDIR", "/big"}}),
            "$TMPDIR/apptainer-cache");
  EXPECT_THAT(cache_of(image + "~/a.sif", {{"HOME", "/home/me"}}),
              HasSubstr("/tmp/apptainer-cache-"));
}

TEST(CacheOfAnImage, LiesInTheHomeWhereThatIsAskedFor) {
  const std::string image = "kind: apptainer\nimage: x\npath: ~/a.sif\ncache_in_home: true\n";

  EXPECT_EQ(cache_of(image, machine()), "~/apptainer-cache");
  EXPECT_EQ(cache_of(image + "cache_dir: ~/c", machine()), "~/c");
}

TEST(CacheOfPip, IsItsOwnUnlessNamed) {
  EXPECT_EQ(cache_of("path: a", machine()), "");
  EXPECT_EQ(cache_of("path: a\ncache_dir: /scratch/pip", machine()), "/scratch/pip");
}

std::string refusal_of_files(const std::string& yaml, bool is_forced) {
  try {
    check_files(build_of(yaml), {}, is_forced);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

TEST(FilesOfABuild, MustBeThere) {
  const os::TemporaryDirectory directory;
  const std::string here = directory.path().string();

  EXPECT_THAT(refusal_of_files("path: a-new-one\nrequirements: " + here + "/r.txt", false),
              AllOf(HasSubstr("the requirements file does not exist"),
                    HasSubstr("no such file"),
                    HasSubstr("env.yaml:2:15")));
  EXPECT_THAT(
      refusal_of_files("kind: apptainer\npath: a-new-one\ndefinition: " + here, false),
      AllOf(HasSubstr("the definition file does not exist"), HasSubstr("not a regular file")));
}

TEST(FilesOfABuild, AreNotOverwrittenUnlessForced) {
  const os::TemporaryDirectory directory;
  const std::string yaml = "path: " + directory.path().string();

  EXPECT_THAT(refusal_of_files(yaml, false),
              AllOf(HasSubstr("the environment already exists"), HasSubstr("--force")));
  EXPECT_EQ(refusal_of_files(yaml, true), "");
  os::write_file(directory.path() / "lockstep.unfinished", "job 1");
  EXPECT_THAT(refusal_of_files(yaml, false),
              HasSubstr("another build of this environment has started"));
}

TEST(FindExpanded, ReplacesVariablesOrSaysNothing) {
  const os::Environment variables = {{"HOME", "/h"}, {"A", "1"}, {"B_2", "x"}};

  EXPECT_EQ(find_expanded("~/e", variables), "/h/e");
  EXPECT_EQ(find_expanded("/$A/${B_2}c/$B_2", variables), "/1/xc/x");
  EXPECT_EQ(find_expanded("plain/~/x", variables), "plain/~/x");
  EXPECT_EQ(find_expanded("$NOT_SET/a", variables), std::nullopt);
  EXPECT_EQ(find_expanded("${A:-b}", variables), std::nullopt);
  EXPECT_EQ(find_expanded("~/e", {}), std::nullopt);
}

}  // namespace
}  // namespace lockstep::slurm
