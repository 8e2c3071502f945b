// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/failure/failure.h"

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

Failure parse_failure(const std::string& text) {
  return contract::parse_failure_report(text).failure;
}

Failure some_failure() {
  Failure failure;
  failure.who = "rank 3";
  failure.rank = 3;
  failure.local_rank = 1;
  failure.node = "node-a";
  failure.pid = 4711;
  failure.status = {.code = 3, .signal = 0};
  failure.log = "runs/a/logs/attempt-0/rank-3.log";
  failure.last_lines = {"epoch 1", "cannot allocate \"x\""};
  return failure;
}

// A failure with all fields.
Failure rich_failure() {
  Failure failure = some_failure();
  failure.status = {.code = 1, .signal = 0};
  failure.attempt = 1;
  failure.max_restarts = 3;
  failure.seconds = 192;
  failure.exception = PythonException{
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 79.10 "
      "GiB total capacity; 77.01 GiB already allocated)",
      PythonFrame{
          "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", 2515, "layer_norm"},
      PythonFrame{"/home/me/train.py", 42, "train"}};
  failure.stopped = {{"node-a", 3}, {"node-b", 4}};
  failure.note = "the same rank failed in the attempt before";
  failure.log = "runs/a/logs/attempt-1/rank-3.log";
  return failure;
}

std::string death_of(os::ExitStatus status, OutOfMemory memory = OutOfMemory::No) {
  Failure failure = some_failure();
  failure.status = status;
  failure.out_of_memory = memory;
  return describe_death(failure);
}

TEST(DescribeDeath, DescribesEveryMode) {
  EXPECT_EQ(death_of({.code = 3, .signal = 0}), "exited with code 3");
  EXPECT_EQ(death_of({.code = 64, .signal = 0}),
            "exited with code 64 (invalid or conflicting options)");
  EXPECT_EQ(death_of({.code = 69, .signal = 0}),
            "exited with code 69 (something that it needs is unavailable)");
  EXPECT_EQ(death_of({.code = 70, .signal = 0}), "exited with code 70 (a bug in lockstep)");
  EXPECT_EQ(death_of({.code = 74, .signal = 0}),
            "exited with code 74 (a file cannot be read or written)");
  EXPECT_EQ(death_of({.code = 75, .signal = 0}), "exited with code 75 (requests a restart)");
  EXPECT_EQ(death_of({.code = 0, .signal = SIGSEGV}), "was killed by SIGSEGV");
  EXPECT_EQ(death_of({.code = 0, .signal = SIGKILL}), "was killed by SIGKILL");
  EXPECT_EQ(death_of({.code = 0, .signal = SIGKILL}, OutOfMemory::Perhaps),
            "was killed by SIGKILL, possibly by the kernel's OOM killer: out of memory");
}

TEST(DescribeDeath, BelievesTheCgroupMoreThanTheMachine) {
  Failure failure = some_failure();
  failure.status = {.code = 0, .signal = SIGKILL};
  failure.out_of_memory = OutOfMemory::Yes;

  EXPECT_EQ(describe_death(failure),
            "was killed by SIGKILL, by the kernel's OOM killer: out of memory");
}

TEST(DescribeDeath, TakesTheAgentsWordWhereNoWorkerDied) {
  Failure failure = some_failure();
  failure.cause = "has not answered for 3.0 s";

  EXPECT_EQ(describe_death(failure), "has not answered for 3.0 s");
}

TEST(FailureBox, SaysWhoHowWhereAndTheLastWords) {
  testing::expect_golden(to_box(some_failure()), "failure_box.txt");
}

TEST(FailureBox, SaysAllThatIsKnown) {
  testing::expect_golden(to_box(rich_failure()), "failure_box_of_python.txt");
}

TEST(FailureBox, SaysWhenMemoryRanOut) {
  Failure failure = some_failure();
  failure.status = {.code = 0, .signal = SIGKILL};
  failure.out_of_memory = OutOfMemory::Yes;
  failure.seconds = 12.3;
  for (int node = 0; node < 64; ++node) {
    failure.stopped.push_back({"node-" + std::to_string(node), 8});
  }

  testing::expect_golden(to_box(failure), "failure_box_of_memory.txt");
}

TEST(FailureBox, SaysWhenAWorkerSaidNothing) {
  Failure failure = some_failure();
  failure.who = "the fork server of ranks 0-3";
  failure.note = "it exited before all workers were forked and handed over";
  failure.last_lines.clear();

  testing::expect_golden(to_box(failure), "failure_box_of_seed.txt");
}

TEST(FailureBox, SpeaksOfANodeThatIsLost) {
  Failure failure;
  failure.who = "node node-b";
  failure.node = "node-b";
  failure.cause = "has not answered for 3.0 s";
  failure.seconds = 75;
  failure.stopped = {{"node-a", 1}};

  testing::expect_golden(to_box(failure), "failure_box_of_node.txt");
}

TEST(FailureBox, IsNotPaintedOverByAWorkersLines) {
  Failure failure = some_failure();
  failure.last_lines = {"10%\r20%\r30%\r",
                        "\x1b[31mred\x1b[0m and \x1b[2Kplain\x1b",
                        "bell\a",
                        std::string(499, 'x') + "\xc3\xa4" + std::string(70000, 'y')};

  const std::string box = to_box(failure);

  EXPECT_THAT(box, HasSubstr("|   30%\n|   red and plain\n|   bell \n"));
  EXPECT_THAT(box, HasSubstr("x ...\n"));
  EXPECT_THAT(box, Not(HasSubstr("\xc3")));
  EXPECT_THAT(box, SizeIs(::testing::Lt(1500U)));
}

TEST(FailureBox, KeepsALongPathWhole) {
  Failure failure = some_failure();
  failure.log = "/scratch/" + std::string(100, 'a') + "/rank-3.log";

  EXPECT_THAT(to_box(failure), HasSubstr("| log    " + failure.log.string() + "\n"));
}

TEST(FailureJson, HasTheFormThatIsDocumented) {
  testing::expect_golden(to_json(rich_failure()), "failure.json");
}

TEST(FailureJson, IsReadBack) {
  Failure killed = some_failure();
  killed.status = {.code = 0, .signal = SIGKILL};
  killed.out_of_memory = OutOfMemory::Perhaps;
  Failure lost;
  lost.who = "node node-b";
  lost.cause = "has not answered";

  for (const Failure& failure : {some_failure(), rich_failure(), killed, lost}) {
    EXPECT_EQ(parse_failure(to_json(failure)), failure) << failure.who;
  }
}

TEST(FailureJson, BearsBytesThatAreNoText) {
  Failure failure = some_failure();
  failure.last_lines = {"\xff\xfe"};

  EXPECT_THAT(parse_failure(to_json(failure)).last_lines, ElementsAre("\xef\xbf\xbd\xef\xbf\xbd"));
}

TEST(FailureJson, IsRefusedWhenItIsAnythingElse) {
  std::string wrong_memory = to_json(some_failure());
  wrong_memory.replace(wrong_memory.find("\"no\""), 4, "\"oh\"");
  for (const std::string text : {"", "{", "[]", "{}", "{\"format\": 1}", "{\"format\": \"x\"}"}) {
    EXPECT_THAT(
        [&] { parse_failure(text); },
        ThrowsMessage<Error>(HasSubstr("cannot read the failure report: not written by lockstep")))
        << text;
  }
  EXPECT_THAT(
      [&] { parse_failure(wrong_memory); },
      ThrowsMessage<Error>(HasSubstr("cannot read the failure report: out_of_memory is 'oh'")));
  EXPECT_THAT(
      [] { parse_failure("{\"format\": 2}"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("cannot read the failure report: it has another format"),
                                 HasSubstr("the same version of lockstep"))));
}

// The files of a worker in a temporary directory.
class LastOutputFiles : public ::testing::Test {
 protected:
  void write(const char* name, const std::string& text) const {
    std::ofstream(directory_.path() / name) << text;
  }

  Failure learn(os::ExitStatus status) const {
    Failure failure;
    failure.status = status;
    failure.log = directory_.path() / "log";
    add_last_output(failure, {.error_file = directory_.path() / "error.json"});
    return failure;
  }

  os::TemporaryDirectory directory_;
};

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 3, in <module>\n"
    "    main()\n"
    "ValueError: no\n";

TEST_F(LastOutputFiles, AreTheEndOfTheLogAndItsException) {
  std::string more;
  for (int line = 0; line < 100; ++line) {
    more += "shutting down " + std::to_string(line) + "\n";
  }
  write("log", kTraceback + more);

  const Failure failure = learn({.code = 1, .signal = 0});

  EXPECT_EQ(failure.exception,
            (PythonException{"ValueError: no", PythonFrame{"train.py", 3, "<module>"}, {}}));
  EXPECT_THAT(failure.last_lines, SizeIs(20));
  EXPECT_EQ(failure.last_lines.back(), "shutting down 99");
}

TEST_F(LastOutputFiles, BelieveTheErrorFileFirst) {
  write("log", kTraceback);
  write("error.json", R"({"message": {"message": "KeyError: 'a'", "extraInfo": {}}})");

  EXPECT_EQ(learn({.code = 1, .signal = 0}).exception->text, "KeyError: 'a'");
}

TEST_F(LastOutputFiles, BlameNoExceptionForAKill) {
  write("log", kTraceback);

  EXPECT_EQ(learn({.code = 0, .signal = SIGKILL}).exception, std::nullopt);
  EXPECT_EQ(learn({.code = 0, .signal = SIGSEGV}).exception, std::nullopt);
  EXPECT_NE(learn({.code = 0, .signal = SIGABRT}).exception, std::nullopt);
}

TEST_F(LastOutputFiles, AreNoneWithoutFiles) {
  const Failure failure = learn({.code = 1, .signal = 0});

  EXPECT_EQ(failure.exception, std::nullopt);
  EXPECT_THAT(failure.last_lines, IsEmpty());
}

TEST(ReadLastLines, TakesAtMostSoManyOfALongFile) {
  const os::TemporaryDirectory directory;
  const auto path = directory.path() / "log";
  std::ofstream file(path);
  for (int i = 0; i < 100000; ++i) {
    file << "line " << i << '\n';
  }
  file << "no end";
  file.close();

  EXPECT_THAT(read_last_lines(path, 3), ElementsAre("line 99998", "line 99999", "no end"));
  EXPECT_THAT(read_last_lines(directory.path() / "absent", 3), IsEmpty());
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  EXPECT_THAT(read_last_lines(path, 3, size), IsEmpty());
  EXPECT_THAT(read_last_lines(path, 3, size - 6), ElementsAre("no end"));
}

}  // namespace
}  // namespace lockstep::supervisor
