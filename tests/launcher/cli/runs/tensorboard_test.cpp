// SPDX-License-Identifier: Apache-2.0
// TensorBoard files from lockstep export and from lockstep run --tensorboard.
#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <optional>

#include "common/os/command.h"
#include "launcher/monitor/tensorboard_messages.h"
#include "support/event_file.h"
#include "support/fake_run.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<int64_t> steps_in(const std::filesystem::path& directory, const std::string& tag) {
  std::vector<int64_t> steps;
  const std::filesystem::path file = find_event_file(directory);
  for (const FileEvent& event : file.empty() ? std::vector<FileEvent>() : read_event_file(file)) {
    if (event.tag == tag) {
      steps.push_back(event.step);
    }
  }
  return steps;
}

class ForTensorboard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!monitor::has_tensorboard()) {
      GTEST_SKIP() << "built without protobuf";
    }
  }

  std::string run() const { return fake_run_.run().root().string(); }

  Launcher launcher_;
  FakeRun fake_run_;
};

TEST_F(ForTensorboard, WritesWhatIsThere) {
  fake_run_.write_all();
  const Result result = launcher_.run({"export", "--format", "tensorboard", run()});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_EQ(result.output, "tensorboard: --logdir " + run() + "/tensorboard\n");
  EXPECT_THAT(steps_in(fake_run_.run().tensorboard(), "loss"), SizeIs(40));
  EXPECT_THAT(steps_in(fake_run_.run().tensorboard(), "rank/0/step"), SizeIs(0));

  // A second export writes no value twice.
  launcher_.run({"export",
                 "--format",
                 "tensorboard",
                 "--series",
                 "rank/1/*,loss",
                 "--output",
                 "curves",
                 run()});
  launcher_.run({"export", "--format", "tensorboard", "--output", "curves", run()});
  EXPECT_THAT(steps_in(launcher_.path("curves"), "loss"), SizeIs(40));
  EXPECT_THAT(steps_in(launcher_.path("curves"), "rank/1/step"), SizeIs(0));
}

TEST_F(ForTensorboard, FollowsARunToItsEnd) {
  fake_run_.start(0, FakeRun::kStart, 1);
  fake_run_.step(0, 1);
  launcher_.start({"export", "--format", "tensorboard", "--follow", "--output", "curves", run()});
  const std::filesystem::path curves = launcher_.path("curves");
  ASSERT_TRUE(comes_true([&] { return steps_in(curves, "loss").size() == 1; }));
  fake_run_.step(0, 2);
  fake_run_.step(0, 3);
  ASSERT_TRUE(comes_true([&] { return steps_in(curves, "loss").size() == 3; }));
  fake_run_.step(0, 4);
  fake_run_.append({.kind = "end", .time = FakeRun::kStart + 60, .rank = 0});

  const Result result = launcher_.wait();
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(steps_in(curves, "loss"), ElementsAre(1, 2, 3, 4));
}

TEST_F(ForTensorboard, WaitsForARunThatHasNotBegun) {
  launcher_.start({"export", "--format", "tensorboard", "--follow", "--wait", "later"});
  ASSERT_TRUE(launcher_.prints("tensorboard: --logdir "));
  EXPECT_FALSE(std::filesystem::exists(launcher_.path("later")));
  std::filesystem::copy(
      fake_run_.run().root(), launcher_.path("later"), std::filesystem::copy_options::recursive);
  launcher_.process().signal(SIGTERM);
  EXPECT_EQ(launcher_.wait().status.code, 0);
  EXPECT_FALSE(find_event_file(launcher_.path("later") / "tensorboard").empty());
}

TEST_F(ForTensorboard, RefusesWhatCannotBe) {
  fake_run_.write_all();
  EXPECT_EQ(launcher_.run({"export", "--follow", run()}).errors,
            "lockstep: error: --follow is not available for csv\n"
            "  requested: --follow with --format csv  (command line)\n"
            "  try:       --format tensorboard --follow, or drop --follow\n");
  EXPECT_EQ(launcher_.run({"export", "--format", "tensorboard", "--wait", run()}).errors,
            "lockstep: error: --wait requires --follow\n"
            "  requested: --wait without --follow  (command line)\n"
            "  try:       --format tensorboard --follow --wait\n");
  EXPECT_THAT(launcher_.run({"export", "--format", "tensorboard", "--series", "los", run()}).errors,
              HasSubstr("no series matches 'los'"));
  std::ofstream(launcher_.path("taken")) << "a file";
  const Result taken =
      launcher_.run({"export", "--format", "tensorboard", "--output", "taken", run()});
  EXPECT_EQ(taken.status.code, 74);
  EXPECT_THAT(taken.errors, HasSubstr("cannot create directory taken"));
}

TEST(WithoutProtobuf, SaysWhatIsMissing) {
  if (monitor::has_tensorboard()) {
    GTEST_SKIP() << "built with protobuf";
  }
  const Result exported = Launcher().run({"export", "--format", "tensorboard"});
  EXPECT_EQ(exported.status.code, 69);
  EXPECT_THAT(exported.errors,
              AllOf(HasSubstr("cannot write TensorBoard files: built without protobuf"),
                    HasSubstr("libprotobuf-dev and protobuf-compiler")));
  const Result started = Launcher().run({"run", "--tensorboard", "true"});
  EXPECT_EQ(started.status.code, 69);
  EXPECT_THAT(started.errors, HasSubstr("try: drop --tensorboard"));
}

// The process id of the writer among the children of a launcher.
std::optional<int> find_writer(int launcher) {
  const std::string children = read_text(fmt::format("/proc/{0}/task/{0}/children", launcher));
  for (const std::string& word : split(children, ' ')) {
    const std::string command = read_text(fmt::format("/proc/{}/cmdline", word));
    if (command.find("--follow") != std::string::npos) {
      return static_cast<int>(find_integer(word).value_or(0));
    }
  }
  return std::nullopt;
}

class RunWithTensorboard : public ForTensorboard {
 protected:
  void start(const std::string& option) {
    launcher_.write_script("train.sh",
                           "#!/bin/sh\n"
                           "echo step 1 loss 2.5\n"
                           "while [ ! -e go ]; do sleep 0.02; done\n"
                           "sleep 0.1\n"
                           "echo step 2 loss 1.5\n"
                           "echo trained\n");
    launcher_.start({"run",
                     option,
                     "--run-dir",
                     "run",
                     "--metric",
                     "step=step ([0-9]+)",
                     "--metric",
                     "loss=loss ([0-9.]+)",
                     "./train.sh"});
  }

  Result finish() {
    std::ofstream(launcher_.path("go")) << "";
    return launcher_.wait();
  }
};

// The last output of a worker is in the files when the command has ended.
TEST_F(RunWithTensorboard, WritesAllOfItAndEndsWithTheRun) {
  start("--tensorboard");
  const std::filesystem::path curves = launcher_.path("run/tensorboard");
  ASSERT_TRUE(comes_true([&] { return steps_in(curves, "output/loss").size() == 1; }));
  const auto writer = find_writer(launcher_.process().pid());
  ASSERT_TRUE(writer);

  const Result result = finish();
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("tensorboard: --logdir "));
  EXPECT_THAT(result.output, AllOf(HasSubstr("trained"), Not(HasSubstr("tensorboard"))));
  EXPECT_THAT(read_text(fmt::format("/proc/{}/cmdline", *writer)), IsEmpty());
  EXPECT_THAT(steps_in(curves, "output/loss"), ElementsAre(1, 2));
}

// Two runs in one directory: each value of both appears once.
TEST_F(RunWithTensorboard, GoesOnInADirectoryWhereOneHasEnded) {
  start("--tensorboard=curves");
  EXPECT_EQ(finish().status.code, 0);
  start("--tensorboard=curves");
  EXPECT_EQ(finish().status.code, 0);
  EXPECT_THAT(steps_in(launcher_.path("curves"), "output/loss"), ElementsAre(1, 2, 1, 2));
}

TEST_F(RunWithTensorboard, GoesOnWhenTheWriterIsKilled) {
  start("--tensorboard");
  std::optional<int> writer;
  ASSERT_TRUE(comes_true([&] {
    writer = find_writer(launcher_.process().pid());
    return writer.has_value();
  }));
  ASSERT_EQ(::kill(*writer, SIGKILL), 0);
  ASSERT_TRUE(ends_soon(*writer));

  const Result result = finish();
  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, HasSubstr("trained"));
  EXPECT_THAT(result.errors, Not(HasSubstr("error")));
}

// TensorBoard itself reads all values, and only the later one of a repeated step.
TEST_F(ForTensorboard, IsReadByTensorboard) {
  fake_run_.write_all();
  fake_run_.start(0, FakeRun::kStart + 30);
  for (int64_t step = 39; step <= 41; ++step) {
    fake_run_.append({.kind = "step",
                      .time = FakeRun::kStart + static_cast<double>(step),
                      .rank = 0,
                      .fields = {{"step", step}, {"loss", 0.03125}}});
  }
  ASSERT_EQ(launcher_.run({"export", "--format", "tensorboard", run()}).status.code, 0);

  const std::filesystem::path own = LOCKSTEP_SOURCE_DIR "/build-tensorboard/bin/python3";
  const os::CommandResult read =
      os::run_command({std::filesystem::exists(own) ? own.string() : "python3",
                       LOCKSTEP_SOURCE_DIR "/tests/launcher/cli/read_tensorboard.py",
                       fake_run_.run().tensorboard().string()});
  if (read.status.code == 77 || read.status.code == 127) {
    GTEST_SKIP() << "TensorBoard is not installed (tools/setup.sh browser): " << read.output;
  }
  ASSERT_EQ(read.status.code, 0) << read.output << read.errors;
  EXPECT_THAT(read.output,
              AllOf(HasSubstr("loss 38 1706693419.50 0.0526316\n"
                              "loss 39 1706693439.00 0.03125\n"
                              "loss 40 1706693440.00 0.03125\n"
                              "loss 41 1706693441.00 0.03125\n"),
                    HasSubstr("learning_rate 1 1706693410.25 0.1\n"),
                    HasSubstr("samples_per_second 1 1706693410.25 256\n"),
                    HasSubstr("node/0/gpu/0/utilisation 36 1706693419.00 0.81\n"),
                    HasSubstr("marks/restart 39 1706693430.00 text 4 workers\n"),
                    Not(HasSubstr("evaluation/accuracy 40"))));  // repeated, not evaluated yet
}

}  // namespace
}  // namespace lockstep::testing
