// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <regex>
#include <thread>

#include "common/os/command.h"
#include "support/fake_run.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Watch, PrintsThePageOnceWithoutATerminal) {
  const FakeRun fake_run;
  fake_run.write_all();

  const Result result =
      Launcher().run({"watch", "--once", "--sort", "late", fake_run.run().root().string()});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.errors, IsEmpty());
  EXPECT_THAT(result.output,
              AllOf(StartsWith("train-20240131-093000-beef  job 4711  running  ddp, 4 workers"),
                    HasSubstr("step 40 of 1000  loss 0.05"),
                    HasSubstr("1 straggler: rank 2 is slow"),
                    HasSubstr("no GPU")));
}

TEST(Watch, PrintsThePageAnewUntilTheRunHasEnded) {
  const FakeRun fake_run;
  fake_run.start(0, FakeRun::kStart, 1);
  fake_run.step(0, 1);
  os::write_file(fake_run.run().plan(), "{}");
  Launcher launcher;
  launcher.start({"watch", "--every", "0.05", fake_run.run().root().string()});
  EXPECT_TRUE(launcher.prints("step 1 of 1000"));

  fake_run.step(0, 2);
  EXPECT_TRUE(launcher.prints("step 2 of 1000"));
  fake_run
      .write_state();  // the launcher is on another machine and has not updated its state for years
  const Result result = launcher.wait();
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("step 1 of 1000"), HasSubstr("\n\n"), HasSubstr("step 2 of 1000")));
}

TEST(Watch, ShowsARunThatLockstepHasNotStarted) {
  const FakeRun fake_run;
  fake_run.start(0, FakeRun::kStart, 1);
  fake_run.step(0, 1);
  const std::string run = fake_run.run().root().string();
  const Result once = Launcher().run({"watch", "--once", run});
  EXPECT_EQ(once.status.code, 0) << once.errors;
  EXPECT_THAT(once.output,
              AllOf(StartsWith("run  unknown (not started by lockstep)  ddp, 1 worker"),
                    HasSubstr("step 1 of 1000")));

  // Rank 0 writes an event when the run has ended.
  Launcher launcher;
  launcher.start({"watch", "--every", "0.05", run});
  EXPECT_TRUE(launcher.prints("step 1 of 1000"));
  fake_run.step(0, 2);
  fake_run.append(
      {.kind = "end", .time = FakeRun::kStart + 60, .rank = 0, .fields = {{"step", int64_t{2}}}});
  const Result followed = launcher.wait();
  EXPECT_EQ(followed.status.code, 0) << followed.errors;
  EXPECT_THAT(followed.output, HasSubstr("step 2 of 1000"));

  const Result exported = Launcher().run({"export", "--format", "json", run});
  EXPECT_EQ(exported.status.code, 0) << exported.errors;
  EXPECT_THAT(exported.output,
              AllOf(HasSubstr(R"("run_id":"run")"),
                    HasSubstr(R"x("phase":"unknown (not started by lockstep)")x")));
}

TEST(Watch, RefusesWhatCannotBeShown) {
  const FakeRun fake_run;
  fake_run.write_state();
  const std::string run = fake_run.run().root().string();

  const Result sort = Launcher().run({"watch", "--sort", "lat", run});
  EXPECT_EQ(sort.status.code, 64);
  EXPECT_EQ(sort.errors,
            "lockstep: error: cannot sort by 'lat'\n"
            "  expected: rank, step, loss, gpu, cpu, memory or late\n"
            "  try:      --sort late\n");
  const Result every = Launcher().run({"watch", "--every", "0", run});
  EXPECT_EQ(every.status.code, 64);
  EXPECT_THAT(every.errors, HasSubstr("--every must be between 0.05 and 3600 seconds"));
  const Result none = Launcher().run({"watch", "runs/none"});
  EXPECT_EQ(none.status.code, 64);
  EXPECT_THAT(none.errors, HasSubstr("cannot find the run 'runs/none'"));
}

TEST(Export, WritesAFile) {
  const FakeRun fake_run;
  fake_run.write_all();
  Launcher launcher;
  const std::string run = fake_run.run().root().string();

  const Result result = launcher.run({"export", "--series", "loss", "--output", "run.csv", run});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(read_text(launcher.path("run.csv")),
              AllOf(StartsWith("kind,name,time,step,mean,low,high,text\nseries,loss,"),
                    HasSubstr("mark,checkpoint,1706693420.5,40,,,,")));
  EXPECT_THAT(launcher.run({"export", "--format", "json", run}).output, StartsWith("{\"run\":{"));
  EXPECT_EQ(launcher.run({"export", "--format", "xml", run}).errors,
            "lockstep: error: unknown format 'xml'\n"
            "  expected: csv, json or tensorboard  (--format)\n"
            "  try:      --format csv\n");
}

// A terminal with a shell, in a tmux server that only this test uses.
class Tmux : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!os::find_program("tmux", os::environment())) {
      GTEST_SKIP() << "tmux is not installed (tools/setup.sh test)";
    }
    fake_run_.write_all();
    const os::CommandResult started =
        tmux({"-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "14", "sh"});
    ASSERT_EQ(started.status.code, 0) << started.errors;
    type("PS1='ready> '; clear; echo before", "Enter");
    ASSERT_THAT(wait_for("ready>"), HasSubstr("before"));
  }

  void TearDown() override {
    if (os::find_program("tmux", os::environment())) {
      tmux({"kill-server"});
    }
  }

  os::CommandResult tmux(std::vector<std::string> words) const {
    words.insert(words.begin(), {"tmux", "-u", "-S", (directory_.path() / "socket").string()});
    return os::run_command(words);
  }

  void type(const std::string& text, const std::string& key = "") const {
    if (!text.empty()) {
      tmux({"send-keys", "-l", text});
    }
    if (!key.empty()) {
      tmux({"send-keys", key});
    }
  }

  void start() const {
    type(fmt::format("{} watch --every 0.1 {}; echo code $?",
                     LOCKSTEP_BIN_DIR "/lockstep",
                     fake_run_.run().root().string()),
         "Enter");
  }

  std::string screen() const { return tmux({"capture-pane", "-p"}).output; }

  // Waits until the screen contains the text, and returns the screen. The limit is a failure.
  std::string wait_for(const std::string& text) const {
    std::string now;
    for (int turn = 0; turn < 400; ++turn) {
      now = screen();
      if (now.find(text) != std::string::npos) {
        return now;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "the screen does not show '" << text << "':\n" << now;
    return now;
  }

  FakeRun fake_run_;
  os::TemporaryDirectory directory_{"tmux"};
};

// Removes durations that depend on the clock.
std::string without_ages(const std::string& text) {
  std::string kept;
  for (std::string line : split(text, '\n')) {
    for (const std::string begin : {"checkpoint step 40, ", "no update for "}) {
      const size_t at = line.find(begin);
      if (at != std::string::npos) {
        line.erase(at + begin.size());
      }
    }
    line = std::regex_replace(line, std::regex("[0-9]+d\\b"), "Nd");
    kept += line + "\n";
  }
  return kept;
}

TEST_F(Tmux, ShowsTheRunAndTakesKeys) {
  start();
  EXPECT_THAT(wait_for("rows 1-4 of 4"), Not(HasSubstr("before")));
  expect_golden(without_ages(screen()), "watch_tmux.txt");

  type("s");
  wait_for("sort: step");
  type("/node-b", "Enter");
  EXPECT_THAT(wait_for("rows 1-2 of 2"),
              AllOf(HasSubstr("/ filter: node-b"), Not(HasSubstr("node-a"))));
  type("", "Escape");
  EXPECT_THAT(wait_for("of 4"), HasSubstr("node-a"));
  type("?");
  EXPECT_THAT(wait_for("scroll by one row"), HasSubstr("quit"));
  type(" ");
  wait_for("of 4");
  tmux({"resize-window", "-x", "80", "-y", "10"});
  wait_for("rows 1-1 of 4");
  type("", "Down");
  wait_for("rows 2-2 of 4");

  type("q");
  wait_for("code 0");
}

TEST_F(Tmux, FollowsTheRun) {
  start();
  wait_for("step 40 of 1000");
  for (int rank = 0; rank < 4; ++rank) {
    fake_run_.step(rank, 41);
  }
  wait_for("step 41 of 1000");
  type("q");
  wait_for("code 0");
}

TEST_F(Tmux, HasItsTerminalBackAfterCtrlC) {
  start();
  wait_for("rows 1-4 of 4");
  type("", "C-c");
  wait_for("code 130");
  type("echo typed", "Enter");  // the terminal echoes input again
  EXPECT_THAT(wait_for("ready> echo typed\ntyped"), HasSubstr("before"));
}

TEST_F(Tmux, HasItsTerminalBackAfterASignalAndWhileItIsStopped) {
  start();
  wait_for("rows 1-4 of 4");
  type("", "C-z");
  EXPECT_THAT(wait_for("before"), Not(HasSubstr("rows 1-4")));
  type("fg", "Enter");
  wait_for("rows 1-4 of 4");
  const std::string pane = tmux({"display", "-p", "#{pane_pid}"}).output;
  const os::CommandResult killed =
      os::run_command({"pkill", "-TERM", "-P", std::string(trim(pane))});
  EXPECT_EQ(killed.status.code, 0);
  EXPECT_THAT(wait_for("ready>"), Not(HasSubstr("rows 1-4")));
  type("stty -a | grep -o ' echo '", "Enter");
  wait_for("\n echo\n");
}

}  // namespace
}  // namespace lockstep::testing
