// SPDX-License-Identifier: Apache-2.0
// The output of a worker; the tests play its process.
#include <gmock/gmock.h>
#include <utility>

#include "common/contract/unprinted_error.h"
#include "common/os/files.h"
#include "common/os/pipe.h"
#include "launcher/supervisor/node/worker.h"
#include "lockstep/error.h"
#include "support/golden.h"
#include "support/small_files.h"

namespace lockstep::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::ThrowsMessage;

class Ear : public LineSink {
 public:
  void take_lines(int rank, Stream stream, std::string_view lines) override {
    heard +=
        std::to_string(rank) + (stream == Stream::Out ? "o" : "e") + "<" + std::string(lines) + ">";
  }
  void take_status(int rank, std::string_view text) override { statuses.emplace_back(rank, text); }

  std::string heard;
  std::vector<std::pair<int, std::string>> statuses;
};

class WorkerOutput : public ::testing::Test {
 protected:
  LogFiles files() const {
    LogFiles files;
    files.log = directory.path() / "logs" / "rank-3.log";
    return files;
  }
  static contract::WorkerSpec spec() {
    contract::WorkerSpec spec;
    spec.rank = 3;
    spec.world_size = 4;
    return spec;
  }

  std::function<void(const std::string&)> tell() {
    return [this](const std::string& sentence) {
      unwritten.push_back(sentence);
    };
  }

  os::TemporaryDirectory directory;
  Ear ear;
  std::vector<std::string> unwritten;
};

TEST_F(WorkerOutput, GoesToTheLogAndToTheSink) {
  Worker worker(spec(), files(), tell());
  worker.open_logs();

  os::write_all(worker.stdout_fd(), "a\nb\n10 %\rtor");
  EXPECT_TRUE(worker.read(Stream::Out, ear));
  os::write_all(worker.stdout_fd(), "n\n");
  os::write_all(worker.stderr_fd(), "oops\n");
  EXPECT_TRUE(worker.read(Stream::Out, ear));
  EXPECT_TRUE(worker.read(Stream::Err, ear));
  EXPECT_FALSE(worker.read(Stream::Err, ear));

  EXPECT_EQ(ear.heard, "3o<a\nb\n>3o<torn\n>3e<oops\n>");
  EXPECT_THAT(ear.statuses, ElementsAre(Pair(3, "tor")));
  EXPECT_EQ(testing::read_text(worker.log()), "a\nb\ntorn\noops\n");
  EXPECT_EQ(worker.bytes_read(), 19);
}

TEST_F(WorkerOutput, IsCompleteToTheLastByteOfTheDead) {
  Worker worker(spec(), files(), tell());
  worker.open_logs();
  const std::string much = std::string(300000, 'x') + "\nno end";

  os::write_all(worker.stdout_fd(), much.substr(0, 60000));
  os::write_all(worker.stderr_fd(), "last words");
  worker.finish_streams(ear);

  EXPECT_EQ(testing::read_text(worker.log()), much.substr(0, 60000) + "last words");
  EXPECT_FALSE(worker.has_open_streams());
  EXPECT_EQ(worker.stream_fd(Stream::Out), -1);
}

// The console shows it in the failure report.
TEST_F(WorkerOutput, EndsInTheLogWithTheErrorThatWasNotPrinted) {
  contract::WorkerSpec at = spec();
  at.error_file = (directory.path() / "rank-3.error").string();
  LogFiles logs = files();
  logs.streams[1].torchrun = directory.path() / "stderr.log";
  Worker worker(at, logs, tell());
  worker.open_logs();
  os::write_all(worker.stdout_fd(), "step 1");
  ASSERT_TRUE(contract::write_unprinted_error(at, "lost rank 1\n  reason: x"));

  worker.finish_streams(ear);

  EXPECT_EQ(ear.heard, "3o<step 1>");
  EXPECT_EQ(testing::read_text(worker.log()),
            "step 1\nlockstep: error: lost rank 1\n  reason: x\n");
  EXPECT_EQ(testing::read_text(directory.path() / "stderr.log"),
            "lockstep: error: lost rank 1\n  reason: x\n");
}

TEST_F(WorkerOutput, EndsWithTheProcess) {
  Worker worker(spec(), files(), tell());
  worker.open_logs();
  os::write_all(worker.stdout_fd(), "no end");
  worker.close_inner_ends();

  while (worker.has_open_streams()) {
    worker.read(Stream::Out, ear);
    worker.read(Stream::Err, ear);
  }

  EXPECT_EQ(ear.heard, "3o<no end>");
}

TEST_F(WorkerOutput, IsAlsoKeptWhereTheUserWantsIt) {
  LogFiles wanted = files();
  wanted.streams[0] = {.torchrun = directory.path() / "t" / "stdout.log",
                       .horovod = directory.path() / "h" / "stdout",
                       .is_shown = false};
  wanted.streams[1].horovod = directory.path() / "h" / "stderr";
  Worker worker(spec(), wanted, tell());
  worker.open_logs();

  os::write_all(worker.stdout_fd(), "1 %\rout\n");
  os::write_all(worker.stderr_fd(), "err\n");
  worker.finish_streams(ear);

  EXPECT_EQ(ear.heard, "3e<err\n>");
  EXPECT_THAT(ear.statuses, IsEmpty());
  EXPECT_EQ(testing::read_text(worker.log()), "out\nerr\n");
  EXPECT_EQ(testing::read_text(directory.path() / "t" / "stdout.log"), "out\n");
  EXPECT_EQ(testing::read_text(directory.path() / "h" / "stdout"), "out\n");
  EXPECT_EQ(testing::read_text(directory.path() / "h" / "stderr"), "err\n");
}

TEST_F(WorkerOutput, CannotBeKeptBelowAFile) {
  LogFiles wanted = files();
  std::ofstream(directory.path() / "file") << "x";
  wanted.streams[0].horovod = directory.path() / "file" / "stdout";

  EXPECT_THAT([&] { Worker(spec(), wanted, tell()).open_logs(); },
              ThrowsMessage<Error>(HasSubstr("cannot create directory ")));
}

TEST_F(WorkerOutput, GoesOnInTheLogWhenThereIsRoomAgain) {
  Worker worker(spec(), files(), tell());
  worker.open_logs();
  const auto say = [&](const std::string& line) {
    os::write_all(worker.stdout_fd(), line);
    worker.read(Stream::Out, ear);
  };

  say("one\n");
  {
    const testing::SmallFiles small(6);
    say("two\n");
    say("three\n");
  }
  say("four\n");
  say("five\n");

  EXPECT_EQ(ear.heard, "3o<one\n>3o<two\n>3o<three\n>3o<four\n>3o<five\n>");
  EXPECT_EQ(testing::read_text(worker.log()),
            "one\ntw\n[lockstep: lines are missing here, they could not be written]\nfour\nfive\n");
  ASSERT_EQ(unwritten.size(), 2);
  EXPECT_EQ(unwritten[0], "cannot write " + worker.log().string() + ": File too large");
}

}  // namespace
}  // namespace lockstep::supervisor
