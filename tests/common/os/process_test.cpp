// SPDX-License-Identifier: Apache-2.0
#include "common/os/process.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <thread>

#include "common/os/command.h"
#include "common/os/peer_watch.h"
#include "common/os/pipe.h"
#include "common/os/processors.h"
#include "common/os/signals.h"
#include "lockstep/error.h"
#include "support/launcher.h"

namespace lockstep::os {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::ThrowsMessage;

Command shell(const std::string& script) {
  return {.executable = "/bin/sh",
          .arguments = {"sh", "-c", script},
          .environment = {{"PATH", "/usr/bin:/bin"}},
          .inherited = {},
          .directory = "",
          .has_own_group = true,
          .dies_with_parent = true};
}

TEST(Child, ReportsHowItEnded) {
  EXPECT_EQ(start(shell("exit 0")).wait(), (ExitStatus{.code = 0, .signal = 0}));
  EXPECT_EQ(start(shell("exit 75")).wait(), (ExitStatus{.code = 75, .signal = 0}));
  EXPECT_EQ(start(shell("kill -SEGV $$")).wait(), (ExitStatus{.code = 0, .signal = SIGSEGV}));
}

TEST(Child, ReportsNothingWhileItRuns) {
  Child child = start(shell("exec sleep 60"));
  EXPECT_EQ(child.find_exit(), std::nullopt);

  child.signal_group(SIGKILL);

  EXPECT_EQ(child.wait().signal, SIGKILL);
  EXPECT_THAT(child.find_exit(), Optional(ExitStatus{.code = 0, .signal = SIGKILL}));
  child.signal(SIGKILL);
}

TEST(ExitStatus, IsReportedAsByAShell) {
  EXPECT_EQ((ExitStatus{.code = 3, .signal = 0}).shell_code(), 3);
  EXPECT_EQ((ExitStatus{.code = 0, .signal = 9}).shell_code(), 137);
}

TEST(Start, GivesTheReasonWhenItCannot) {
  Command command = shell("");
  command.executable = "/no/such/program";
  EXPECT_THAT([&] { start(command); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot run '/no/such/program'"),
                                         HasSubstr("No such file or directory"))));
  command = shell("");
  command.directory = "/no/such/directory";
  EXPECT_THAT([&] { start(command); }, ThrowsMessage<Error>(HasSubstr("No such file")));
}

TEST(Start, GivesACleanSlateWhateverTheParentIgnoresOrBlocks) {
  ignore_signal(SIGPIPE);
  const SignalFd blocked({SIGTERM});

  EXPECT_EQ(start(shell("kill -PIPE $$")).wait().signal, SIGPIPE);
  EXPECT_EQ(start(shell("kill -TERM $$")).wait().signal, SIGTERM);
}

TEST(Start, LetsSignalsWaitThatTheProgramIsToAskFor) {
  Command command = shell("kill -TERM $$; kill -USR1 $$; sleep 1");
  command.blocked = {SIGTERM};

  EXPECT_EQ(start(command).wait().signal, SIGUSR1);
}

TEST(Start, BindsToTheProcessorsItNames) {
  const std::vector<int> usable = usable_processor_numbers();
  Command command = shell("grep -qx 'Cpus_allowed_list:.*[^0-9]" + std::to_string(usable.back()) +
                          "' /proc/self/status");
  command.cpus = {usable.back()};
  EXPECT_EQ(start(command).wait().code, 0);

  EXPECT_EQ(usable_processor_numbers(), usable);
}

TEST(Start, LeavesTheProcessorsUnchangedIfNoneAreGiven) {
  const Command command =
      shell("grep -qx 'Cpus_allowed_list:.*[^0-9]" + format_processors(usable_processor_numbers()) +
            "' /proc/self/status");

  EXPECT_EQ(start(command).wait().code, 0);
}

TEST(Start, NamesTheProcessorsItCannotBindTo) {
  Command command = shell("");
  command.cpus = {60001, 60000, 60007};

  EXPECT_THAT(
      [&] { start(command); },
      ThrowsMessage<Error>(AllOf(HasSubstr("cannot bind '/bin/sh' to processors 60000-60001,60007"),
                                 HasSubstr("Invalid argument"))));
}

TEST(Start, PassesNoDescriptorsButThoseItNames) {
  const Pipe pipe = make_pipe();
  Command command = shell("test -e /proc/self/fd/" + std::to_string(pipe.in.number()));
  EXPECT_EQ(start(command).wait().code, 1);

  command.inherited = {pipe.in.number()};
  EXPECT_EQ(start(command).wait().code, 0);
}

// The test itself may have inherited descriptors of /dev/null; the program gets the same number.
TEST(Start, LeavesNoSecondDescriptorOfTheEmptyInput) {
  int before = 0;
  for (int number = 3; number < 1024; ++number) {
    std::error_code ignored;
    const std::filesystem::path link = "/proc/self/fd/" + std::to_string(number);
    const int flags = ::fcntl(number, F_GETFD);
    before += flags >= 0 && (flags & FD_CLOEXEC) == 0 &&
                      std::filesystem::read_symlink(link, ignored) == "/dev/null"
                  ? 1
                  : 0;
  }
  const Command command = shell(
      "n=0; for f in /proc/$$/fd/*; do case $f in */0|*/1|*/2) ;; *) "
      "[ \"$(readlink $f)\" != /dev/null ] || n=$((n + 1));; esac; done; exit $n");

  EXPECT_EQ(start(command).wait().code, before);
}

TEST(RunCommand, KeepsWhatTheProgramSays) {
  const CommandResult result = run_command({"sh", "-c", "echo out; echo err >&2; exit 4"});

  EXPECT_EQ(result.status.code, 4);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
}

TEST(RunCommand, GivesTheProgramItsInputVariablesAndDirectory) {
  const CommandResult result =
      run_command({"sh", "-c", "cat; echo \"$WORD\"; pwd; echo \"${HOME-none}\""},
                  {.directory = "/",
                   .environment = Environment{{"PATH", "/bin"}, {"WORD", "w"}},
                   .input = "a\nb\n"});

  EXPECT_EQ(result.output, "a\nb\nw\n/\nnone\n");
}

TEST(RunCommand, LooksForTheProgramInThePathThatItGives) {
  EXPECT_THAT(
      [] {
        run_command({"sh"}, {.environment = Environment{{"PATH", "/nowhere"}}});
      },
      ThrowsMessage<Error>(HasSubstr("searched: /nowhere  (PATH)")));
}

// Neither its children nor a closed output keeps it alive; they would last longer than the time
// limit of the test.
TEST(RunCommand, KillsTheWholeProgramAtItsTimeLimit) {
  for (const std::string line :
       {"echo a; sleep 1000 & sleep 1000", "echo a; exec >&- 2>&-; sleep 1000"}) {
    CommandResult result;
    // On a busy machine, the program may not have written anything within a second.
    for (int limit = 1; limit < 60 && result.output.empty(); limit *= 2) {
      result = run_command({"sh", "-c", line}, {.time_limit = std::chrono::seconds(limit)});

      EXPECT_TRUE(result.is_out_of_time);
      EXPECT_EQ(result.status.signal, SIGKILL);
    }
    EXPECT_EQ(result.output, "a\n");
  }
}

TEST(RunCommand, IsInTimeWhenItEndsBeforeItsLimit) {
  const CommandResult result =
      run_command({"sh", "-c", "exit 3"}, {.time_limit = std::chrono::seconds(60)});

  EXPECT_FALSE(result.is_out_of_time);
  EXPECT_EQ(result.status.code, 3);
}

TEST(RunCommand, StopsOnRequest) {
  Pipe stop = make_pipe();
  write_all(stop.in.number(), "x");

  const CommandResult result = run_command({"sleep", "100"}, {.stop_fd = stop.out.number()});

  EXPECT_TRUE(result.is_stopped);
  EXPECT_FALSE(result.is_out_of_time);
}

TEST(RunCommand, NamesAProgramThatIsNotInstalled) {
  EXPECT_THAT([] { run_command({"no-such-program-here"}); },
              ThrowsMessage<Error>(HasSubstr("cannot find the program 'no-such-program-here'")));
}

TEST(FindProgram, LooksInPathForNamesWithoutASlash) {
  EXPECT_THAT(find_program("sh", {{"PATH", "/nowhere:/bin"}}),
              Optional(std::filesystem::path("/bin/sh")));
  EXPECT_THAT(find_program("/bin/sh", {}), Optional(std::filesystem::path("/bin/sh")));
  EXPECT_EQ(find_program("sh", {{"PATH", "/nowhere"}}), std::nullopt);
  EXPECT_EQ(find_program("/etc/passwd", {}), std::nullopt);
  EXPECT_EQ(find_program("/bin", {}), std::nullopt);
}

// A subreaper adopts the grandchildren of a test, so this test uses a separate process.
int count_killed_orphans() {
  become_subreaper();
  Child child = start(shell("sleep 61 & setsid sleep 62 & (sleep 63 & sleep 64) & exit 0"));
  child.wait();
  const int killed = kill_all_children(std::chrono::seconds(10));
  return killed >= 3 && kill_all_children(std::chrono::seconds(1)) == 0 ? 0 : 1;
}

TEST(KillAllChildren, FindsOrphansWhateverGroupOrSessionTheyAreIn) {
  const int pid = fork_process();
  if (pid == 0) {
    leave(count_killed_orphans());
  }
  EXPECT_EQ(Child(pid).wait().code, 0);
}

TEST(DiesWithParent, HoldsWhenTheParentIsKilled) {
  Pipe pids = make_pipe();
  const int parent = fork_process();
  if (parent == 0) {
    const Child child = start(shell("exec sleep 60"));
    write_all(pids.in.number(), std::to_string(child.pid()) + "\n");
    std::this_thread::sleep_for(std::chrono::seconds(60));
    leave(0);
  }
  std::string text;
  read_some(pids.out.number(), text, kAtomicBytes);
  const int grandchild = std::stoi(text);
  EXPECT_TRUE(lockstep::testing::is_alive(grandchild));

  Child(parent).signal(SIGKILL);

  EXPECT_TRUE(lockstep::testing::ends_soon(grandchild));
  EXPECT_EQ(Child(parent).wait().signal, SIGKILL);
}

TEST(WaitForParent, ReportsWhetherTheParentIsTheExpectedOne) {
  EXPECT_TRUE(wait_for_parent(parent_process_id(), std::chrono::milliseconds(0)));
  EXPECT_FALSE(wait_for_parent(process_id(), std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace lockstep::os
