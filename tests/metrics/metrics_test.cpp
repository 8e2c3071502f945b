// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics.h"

#include <fstream>
#include <gmock/gmock.h>
#include <string>

#include "contract/event.h"
#include "metrics/event_writer.h"
#include "os/files.h"
#include "support/gang.h"

namespace lockstep {
namespace {

TEST(Meter, WeighsEachBatchByItsSamples) {
  Meter meter;
  meter.add(torch::tensor(1.0F), 3);
  meter.add(torch::tensor(5.0F), 1);

  EXPECT_DOUBLE_EQ(meter.loss(), 2);
  EXPECT_EQ(meter.samples(), 4);
  EXPECT_FALSE(meter.accuracy().has_value());
}

TEST(Meter, CountsTheHighestScores) {
  Meter meter;
  meter.add_scores(torch::tensor({{0.1, 0.9}, {0.8, 0.2}, {0.3, 0.7}}), torch::tensor({1, 0, 0}));

  EXPECT_NEAR(*meter.accuracy(), 2.0 / 3, 1e-12);
}

TEST(Meter, IsExactOverAGangInWhichOneCountedNothing) {
  gang(3, [](Communicator& comm) {
    Meter meter;
    if (comm.rank() != 1) {
      meter.add(torch::tensor(static_cast<float>(comm.rank())), comm.rank() + 1);
    }
    meter.all_reduce(comm);

    EXPECT_EQ(meter.samples(), 4);
    EXPECT_DOUBLE_EQ(meter.loss(), 6.0 / 4);
  });
}

TEST(Meter, TakesOverWhatAnotherHasCounted) {
  Meter all;
  Meter lately;
  lately.add(torch::tensor(2.0F), 2);
  all.merge(lately);
  lately.reset();
  lately.add(torch::tensor(5.0F), 1);
  all.merge(lately);

  EXPECT_DOUBLE_EQ(all.loss(), 3);
}

TEST(Throughput, LeavesPausesOut) {
  using std::chrono::seconds;
  Throughput throughput;
  const auto start = Throughput::Clock::now();
  throughput.add(100, start);
  throughput.pause(seconds(5));
  throughput.add(50, start + seconds(10));

  EXPECT_DOUBLE_EQ(throughput.rate(), 10);

  throughput.pause(seconds(3));
  EXPECT_DOUBLE_EQ(throughput.rate(), 10);
}

TEST(EventWriter, AppendsOneLinePerEventThatReadsBack) {
  const os::TemporaryDirectory directory;
  const auto file = directory.path() / "events" / "rank-1.jsonl";
  const contract::Event event{.kind = "step",
                              .time = 12.5,
                              .rank = 1,
                              .fields = {{"step", int64_t{7}}, {"loss", 0.25}, {"word", "a\"b"}}};

  metrics::EventWriter(file).write(event);
  metrics::EventWriter(file).write(event);

  std::ifstream stream(file);
  std::string line;
  int lines = 0;
  while (std::getline(stream, line)) {
    EXPECT_EQ(contract::parse_event(line), event);
    ++lines;
  }
  EXPECT_EQ(lines, 2);
}

}  // namespace
}  // namespace lockstep
