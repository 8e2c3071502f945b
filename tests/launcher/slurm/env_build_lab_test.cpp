// SPDX-License-Identifier: Apache-2.0
// `lockstep env build` as a job.
#include <fstream>
#include <gmock/gmock.h>

#include "launcher/slurm/environments.h"
#include "launcher/slurm/with_lab.h"
#include "support/fake_python.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr const char* kVenv =
    "path: envs/mine\npython: ./python\npackages: [a]\ncpus_per_task: 1\n";

Words build_words(const Lab& lab, const std::string& yaml, const Words& flags = {}) {
  Words words = {LOCKSTEP_BIN_DIR "/lockstep", "env", "build", "-c", lab.write("env.yaml", yaml)};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

struct Modules {
  static Words options() { return {"--nodes", "1", "--modules"}; }
};

class EnvBuildAsJob : public WithLab<Modules> {
 protected:
  void SetUp() override {
    WithLab<Modules>::SetUp();
    if (!IsSkipped()) {
      lab().write("python", kFakePython);
    }
  }
};

TEST_F(EnvBuildAsJob, IsFollowedToItsEnd) {
  const Result result =
      lab().on("ctl", build_words(lab(), kVenv + std::string("modules: [lockstep-lab/1.0]\n")));

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("python -m pip install a with module 1.0"), HasSubstr("built ")));
  EXPECT_THAT(result.errors, AllOf(HasSubstr("builds envs/mine"), HasSubstr("has completed")));
  EXPECT_TRUE(fs::exists(lab().path("envs/mine/bin/activate")));
  EXPECT_FALSE(fs::exists(lab().path("envs/mine/lockstep.unfinished")));
}

TEST_F(EnvBuildAsJob, HasTheCodeOfAJobThatFailedAndLeavesNothing) {
  const Result result =
      lab().on("ctl", build_words(lab(), kVenv + std::string("pip_options: --broken\n")));

  EXPECT_EQ(result.status.code, 7) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("build failed; nothing was installed"));
  EXPECT_FALSE(fs::exists(lab().path("envs/mine")));
}

TEST_F(EnvBuildAsJob, FailsForAModuleThatIsNotThere) {
  const Result result =
      lab().on("ctl", build_words(lab(), kVenv + std::string("modules: [nothing/1.0]\n")));

  EXPECT_EQ(result.status.code, 1) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("no module nothing/1.0"));
  EXPECT_FALSE(fs::exists(lab().path("envs")));
}

TEST_F(EnvBuildAsJob, LeavesNothingWhenItIsCancelled) {
  Running build =
      lab().start("ctl", build_words(lab(), kVenv + std::string("pip_options: --slow\n")));
  ASSERT_TRUE(lab().has_file("begun")) << build.errors();
  EXPECT_TRUE(fs::exists(lab().path("envs/mine/lockstep.unfinished")));

  lab().shell("ctl", "scancel --user=hpc");

  EXPECT_NE(build.wait().status.code, 0);
  EXPECT_TRUE(comes_true(seconds(60), [&] { return !fs::exists(lab().path("envs/mine")); }));
}

TEST_F(EnvBuildAsJob, IsLeftAloneWhenAskedTo) {
  const Result result = lab().on("ctl", build_words(lab(), kVenv, {"--no-wait"}));

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, MatchesRegex("[0-9]+\n"));
  EXPECT_TRUE(lab().has_file("envs/mine/bin/activate"));
}

struct Apptainer {
  static Words options() { return {"--nodes", "1", "--apptainer"}; }
};
using ImageBuildAsJob = WithLab<Apptainer>;

constexpr const char* kImage =
    "kind: apptainer\npath: images/more.sif\ndefinition: more.def\ncpus_per_task: 1\n";

TEST_F(ImageBuildAsJob, MakesAnImageFromADefinition) {
  lab().write("more.def",
              "Bootstrap: localimage\nFrom: " + make_image(lab()) + "\n%post\n  echo 1 >/more\n");

  // With /usr of the node, the launcher finds its libraries in the container.
  const Result result = lab().on(
      "ctl", build_words(lab(), kImage + std::string("env: {APPTAINER_BIND: '/usr,/etc'}\n")));

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("built images/more.sif"), Not(HasSubstr("doctor skipped"))));
  const Result inside = lab().on("n1", {"apptainer", "exec", "images/more.sif", "cat", "/more"});
  EXPECT_EQ(inside.output, "1\n") << inside.errors;
  // The image is in the home directory, its cache is not.
  EXPECT_FALSE(fs::exists(lab().path("images/apptainer-cache")));
  EXPECT_EQ(lab().on("n1", {"test", "-d", "/tmp/apptainer-cache-hpc/cache"}).status.code, 0);
}

TEST_F(ImageBuildAsJob, LeavesNothingWhenItFails) {
  lab().write("more.def",
              "Bootstrap: localimage\nFrom: " + make_image(lab()) + "\n%post\n  exit 3\n");

  const Result result = lab().on("ctl", build_words(lab(), kImage));

  EXPECT_NE(result.status.code, 0);
  EXPECT_THAT(result.output, HasSubstr("build failed; nothing was installed"));
  EXPECT_TRUE(fs::is_empty(lab().path("images")));
}

}  // namespace
}  // namespace lockstep::testing
