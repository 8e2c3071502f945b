// SPDX-License-Identifier: Apache-2.0
// --share-gpus mps with a fake daemon: it runs exactly as long as the workers.
#include <csignal>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kMpsScripts = LOCKSTEP_SOURCE_DIR "/tests/launcher/supervisor/scripts/";

class Mps : public ::testing::Test {
 protected:
  Mps() {
    install();
    launcher.environment.insert_or_assign("FAKE_MPS", launcher.path("").string());
    launcher.environment.insert_or_assign("CUDA_MPS_PIPE_DIRECTORY",
                                          launcher.path("none").string());
    launcher.environment.insert_or_assign("TMPDIR", temporary_.path().string());
  }

  void install() {
    std::filesystem::create_directories(launcher.path("bin"));
    std::filesystem::create_symlink(kMpsScripts + "fake_mps_control.sh",
                                    launcher.path("bin/nvidia-cuda-mps-control"));
    launcher.environment["PATH"] =
        launcher.path("bin").string() + ":" + launcher.environment["PATH"];
  }

  static std::vector<std::string> words(const std::string& what,
                                        const std::vector<std::string>& options = {}) {
    std::vector<std::string> all = {"run", "--nproc-per-node", "2", "--run-dir", "run"};
    all.insert(all.end(), {"--grace", "0.2", "--share-gpus", "mps"});
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {kMpsScripts + "mps_worker.sh", what});
    return all;
  }

  std::vector<std::string> lines(const std::string& name) const {
    std::vector<std::string> all = split(read_text(launcher.path(name)), '\n');
    std::erase(all, "");
    return all;
  }

  // Daemon and server of every start have ended, and no directory is left.
  void expect_stopped() const {
    for (const std::string& line : lines("started")) {
      for (const size_t word : {0, 1}) {
        EXPECT_TRUE(ends_soon(std::stoi(split(line, ' ').at(word)))) << line;
      }
    }
    EXPECT_THAT(lines("started"), Not(IsEmpty()));
  }
  void expect_no_directory() const { EXPECT_TRUE(std::filesystem::is_empty(temporary_.path())); }

  int agent() const { return std::stoi(launcher.wait_for_file("parent-0")); }

  Launcher launcher;
  os::TemporaryDirectory temporary_{"mps"};
};

TEST_F(Mps, RunsAsLongAsTheWorkersInAPrivateDirectory) {
  const Result result = launcher.run(words("0"));

  ASSERT_EQ(result.status.code, 0) << result.errors;
  const std::string pipes = temporary_.path().string() + "/lockstep-mps-";
  EXPECT_THAT(result.output, HasSubstr(pipes));
  EXPECT_THAT(result.output, HasSubstr(" 700 " + pipes));
  EXPECT_THAT(result.output, HasSubstr("/log unset\n"));
  EXPECT_THAT(result.errors, Not(HasSubstr("left behind")));
  EXPECT_THAT(lines("started"), SizeIs(1));
  EXPECT_THAT(lines("quit"), SizeIs(1)) << "asked to quit, not killed";
  expect_stopped();
  expect_no_directory();
}

TEST_F(Mps, PassesTheLimitOfTheUserOn) {
  const Result result = launcher.run(words("0", {"--env", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"}));

  EXPECT_THAT(result.output, HasSubstr("/log 25\n"));
}

TEST_F(Mps, IsNewInEveryAttempt) {
  const Result result = launcher.run(words("3", {"--max-restarts", "1"}));

  EXPECT_EQ(result.status.code, 3);
  EXPECT_THAT(lines("started"), SizeIs(2));
  EXPECT_THAT(lines("quit"), SizeIs(2));
  expect_stopped();
  expect_no_directory();
}

TEST_F(Mps, StopsWithARunThatIsStopped) {
  launcher.start(words("stay"));
  agent();

  launcher.process().signal(SIGTERM);

  EXPECT_EQ(launcher.wait().status.code, 143);
  EXPECT_THAT(lines("quit"), SizeIs(1));
  expect_stopped();
  expect_no_directory();
}

TEST_F(Mps, DoesNotSurviveItsAgent) {
  launcher.start(words("stay"));

  os::Child(agent()).signal(SIGKILL);

  EXPECT_EQ(launcher.wait().status.code, 128 + SIGKILL);
  expect_stopped();
  EXPECT_EQ(launcher.run(words("0")).status.code, 0) << "the next run is not blocked";
}

TEST_F(Mps, DoesNotSurviveTheLauncher) {
  launcher.start(words("stay"));
  agent();

  launcher.process().signal(SIGKILL);

  EXPECT_EQ(launcher.wait().status.signal, SIGKILL);
  expect_stopped();
}

TEST_F(Mps, IsKilledIfItDoesNotQuit) {
  std::ofstream(launcher.path("stubborn")) << "";

  const Result result = launcher.run(words("0"));

  EXPECT_EQ(result.status.code, 0) << result.errors;
  expect_stopped();
  expect_no_directory();
}

// Numbers would be applied twice, by the daemon and by the workers.
TEST_F(Mps, SeesAllGpusUnlessTheyAreNamedByUuid) {
  launcher.environment["CUDA_VISIBLE_DEVICES"] = "1";
  launcher.run(words("0"));
  launcher.environment["CUDA_VISIBLE_DEVICES"] = "GPU-a,GPU-b";
  launcher.run(words("0"));

  EXPECT_THAT(lines("started").at(0), HasSubstr(" unset"));
  EXPECT_THAT(lines("started").at(1), HasSubstr(" GPU-a,GPU-b"));
}

TEST_F(Mps, IsTheDaemonThatRunsAlready) {
  std::filesystem::create_directories(launcher.path("system"));
  std::ofstream(launcher.path("system/control")) << "";
  launcher.environment["CUDA_MPS_PIPE_DIRECTORY"] = launcher.path("system").string();

  const Result result = launcher.run(words("0"));

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("using the MPS daemon that runs already"));
  EXPECT_THAT(result.output, HasSubstr(launcher.path("system").string()));
  EXPECT_FALSE(std::filesystem::exists(launcher.path("started")));
  EXPECT_FALSE(std::filesystem::exists(launcher.path("quit")));
}

TEST_F(Mps, ThatIsNotInstalledIsOneError) {
  std::filesystem::remove(launcher.path("bin/nvidia-cuda-mps-control"));

  const Result result = launcher.run(words("0"));

  EXPECT_EQ(result.status.code, 69);
  EXPECT_THAT(result.errors,
              HasSubstr("cannot start MPS: nvidia-cuda-mps-control not found on this node"));
  EXPECT_THAT(result.errors, HasSubstr("--share-gpus without a value"));
}

TEST_F(Mps, ThatDoesNotStartIsAnErrorWithItsLog) {
  std::ofstream(launcher.path("fails")) << "";

  const Result result = launcher.run(words("0"));

  EXPECT_EQ(result.status.code, 69);
  EXPECT_THAT(result.errors, HasSubstr("cannot start MPS on this node"));
  EXPECT_THAT(result.errors, HasSubstr("exit code 1"));
  EXPECT_THAT(result.errors, HasSubstr("Failed to initialize GPU 0: exclusive mode"));
  EXPECT_THAT(result.output, IsEmpty()) << "no worker was started";
  expect_no_directory();
}

}  // namespace
}  // namespace lockstep::testing
