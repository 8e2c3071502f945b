// SPDX-License-Identifier: Apache-2.0
#include "training/train/run/report_failure.h"

#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "common/contract/unprinted_error.h"
#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/comes_true.h"
#include "training/train/session/stopped.h"

namespace lockstep::train {
namespace {

using comm::Ending;
using ::testing::ElementsAre;
using ::testing::Optional;

// Records the calls. None of them waits.
class FakeWatch : public comm::StallWatch {
 public:
  std::optional<Error> explain(std::chrono::milliseconds patience) override {
    calls.push_back(patience.count() == 0 ? "explain once" : "explain");
    return mistake;
  }
  std::optional<bool> claim_report(Ending ending) override {
    calls.push_back(ending == Ending::Mistake      ? "claim mistake"
                    : ending == Ending::OwnFailure ? "claim failure"
                                                   : "claim lost peer");
    return is_elected;
  }
  void stay_for_claims() override { calls.emplace_back("stay"); }

  std::optional<Error> mistake;
  std::optional<bool> is_elected;
  std::vector<std::string> calls;
};

const Error kOwn = Error(ExitCode::Io, "cannot read the data").fact("file", "x");
const Error kLost = Error(ExitCode::TryAgain, "cannot finish all-reduce").fact("lost", "rank 1");
const std::string kWholeOwn = fmt::format("lockstep: error: {}\n", kOwn.what());
const std::string kWholeLost = fmt::format("lockstep: error: {}\n", kLost.what());

class ReportFailure : public ::testing::Test {
 protected:
  ReportFailure() {
    spec.rank = 3;
    spec.world_size = 4;
  }

  // The worker was started by lockstep run.
  void give_agent() { spec.error_file = (directory_.path() / "rank-3.error").string(); }
  std::optional<std::string> kept() const {
    return contract::find_unprinted_error(spec.error_file);
  }

  // Returns what was printed.
  template <typename Exception>
  std::string end_with(const Exception& exception, comm::StallWatch* with, StopRequest* stop = {}) {
    ::testing::internal::CaptureStderr();
    code = report_failure(std::make_exception_ptr(exception),
                          {.spec = spec, .watch = with, .stop = stop});
    return ::testing::internal::GetCapturedStderr();
  }

  contract::WorkerSpec spec;
  FakeWatch watch;
  int code = 0;

 private:
  os::TemporaryDirectory directory_;
};

TEST_F(ReportFailure, PrintsTheErrorOfASingleWorker) {
  give_agent();
  spec.rank = 0;
  spec.world_size = 1;

  EXPECT_EQ(end_with(kLost, nullptr), kWholeLost);
  EXPECT_EQ(code, 75);
  EXPECT_EQ(end_with(kOwn, nullptr), kWholeOwn);
  EXPECT_EQ(code, 74);
  EXPECT_EQ(kept(), std::nullopt);
}

// The launcher reports why the peer was lost.
TEST_F(ReportFailure, LeavesALostPeerToTheAgent) {
  give_agent();
  watch.is_elected = true;

  EXPECT_EQ(end_with(kLost, &watch), "");

  EXPECT_EQ(code, 75);
  EXPECT_THAT(watch.calls, ElementsAre("explain", "stay"));
  EXPECT_THAT(kept(), Optional(std::string(kLost.what())));
}

TEST_F(ReportFailure, PrintsIfTheAgentIsUnreachable) {
  spec.error_file = "/no/such/directory/rank-3.error";

  EXPECT_EQ(end_with(kLost, &watch), kWholeLost);
}

TEST_F(ReportFailure, PrintsAFailureIfElected) {
  for (const bool has_agent : {false, true}) {
    if (has_agent) {
      give_agent();
    }
    watch = {};
    watch.is_elected = true;

    EXPECT_EQ(end_with(kOwn, &watch), kWholeOwn);

    EXPECT_EQ(code, 74);
    EXPECT_THAT(watch.calls, ElementsAre("explain", "claim failure", "stay"));
    EXPECT_EQ(kept(), std::nullopt);
  }
}

TEST_F(ReportFailure, PrintsNothingIfAnotherWorkerIsElected) {
  watch.is_elected = false;
  EXPECT_EQ(end_with(kOwn, &watch), "");
  EXPECT_EQ(code, 74);
  EXPECT_EQ(end_with(kLost, &watch), "");
  EXPECT_EQ(code, 75);

  give_agent();
  EXPECT_EQ(end_with(kOwn, &watch), "");
  EXPECT_THAT(kept(), Optional(std::string(kOwn.what())));
}

TEST_F(ReportFailure, PrintsAMistakeOfAllWorkersIfElected) {
  watch.mistake = Error(ExitCode::Usage, "different calls");
  watch.is_elected = true;
  EXPECT_EQ(end_with(kLost, &watch), "lockstep: error: different calls\n");
  EXPECT_EQ(code, 64);
  EXPECT_THAT(watch.calls, ElementsAre("explain", "claim mistake", "stay"));

  watch.is_elected = false;
  EXPECT_EQ(end_with(kLost, &watch), "");
  EXPECT_EQ(code, 64);
}

// Rank 0 serves the store. Its node may be lost, together with any message.
TEST_F(ReportFailure, PrintsALineIfTheOthersCannotBeAsked) {
  EXPECT_EQ(end_with(kLost, &watch), "lockstep: error: rank 3: cannot finish all-reduce\n");
  EXPECT_EQ(end_with(kOwn, &watch), "lockstep: error: rank 3: cannot read the data\n");

  give_agent();
  EXPECT_EQ(end_with(kOwn, &watch), "");
  EXPECT_THAT(kept(), Optional(std::string(kOwn.what())));
}

TEST_F(ReportFailure, HasNoElectionBeforeTheWorkersHaveJoined) {
  EXPECT_EQ(end_with(kOwn, nullptr), kWholeOwn);
  give_agent();
  EXPECT_EQ(end_with(kOwn, nullptr), "");
  EXPECT_THAT(kept(), Optional(std::string(kOwn.what())));

  spec.rank = 0;
  EXPECT_EQ(end_with(kOwn, nullptr), kWholeOwn);
}

// Another launcher has noticed the end of the peer, too.
TEST_F(ReportFailure, AsksOnceAndPrintsNoLostPeerAfterASignal) {
  StopRequest stop;
  const StopRequest::Patience patience(&stop);
  ::kill(::getpid(), SIGTERM);
  ASSERT_TRUE(testing::comes_true([&] { return stop.find_signal().has_value(); }));
  watch.is_elected = true;

  EXPECT_EQ(end_with(kLost, &watch, &stop), "");
  EXPECT_EQ(end_with(kOwn, &watch, &stop), kWholeOwn);

  EXPECT_THAT(watch.calls,
              ElementsAre("explain once", "stay", "explain once", "claim failure", "stay"));
}

TEST_F(ReportFailure, ReportsAnExceptionOfTheProgram) {
  EXPECT_EQ(end_with(std::runtime_error("bad shape\nin frame 3"), nullptr),
            "lockstep: error: uncaught exception in the program\n  reason: bad shape\n");
  EXPECT_EQ(code, 70);
}

TEST_F(ReportFailure, DoesNotAskTheAgentAfterAStopAtAStep) {
  EXPECT_EQ(end_with(Stopped(SIGTERM, "stopped at step 3"), &watch), "");
  EXPECT_EQ(code, 75);
  EXPECT_TRUE(watch.calls.empty());
}

}  // namespace
}  // namespace lockstep::train
