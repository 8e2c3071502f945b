// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics.h"

#include <fstream>
#include <gmock/gmock.h>
#include <string>

#include "common/contract/event.h"
#include "common/os/files.h"
#include "support/run_workers.h"
#include "training/train/event_writer.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Meter, GivesItsSumsWithoutALook) {
  Meter meter;
  EXPECT_TRUE(meter.sums().eq(0).all().item<bool>());
  meter.add(torch::full({}, 0.5F), 4);
  meter.add(torch::full({}, 2.0F), 2);
  meter.add_scores(torch::eye(3), torch::tensor({0, 1, 0}));
  EXPECT_TRUE(meter.sums().equal(torch::tensor({6.0, 2.0}, torch::kFloat64)));
}

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

// The rank of the target among the scores; of equal scores, the first ranks higher.
int64_t rank_of(const std::vector<float>& scores, int64_t target) {
  int64_t before = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(scores.size()); ++i) {
    const float own = scores[static_cast<size_t>(target)];
    const float other = scores[static_cast<size_t>(i)];
    before += other > own || (other == own && i < target) ? 1 : 0;
  }
  return before;
}

// Coarsely quantized scores, as in 16-bit types: many are equal.
TEST(Meter, CountsTopFiveExactlyAlsoAmongEqualScores) {
  torch::manual_seed(5);
  const torch::Tensor scores = torch::randint(0, 8, {40, 20}).to(torch::kFloat32);
  const torch::Tensor target = torch::randint(0, 20, {40});
  int64_t first = 0;
  int64_t five = 0;
  for (int64_t row = 0; row < 40; ++row) {
    const auto* begin = scores[row].data_ptr<float>();
    const int64_t place =
        rank_of(std::vector<float>(begin, begin + 20), target[row].item<int64_t>());
    first += place < 1 ? 1 : 0;
    five += place < 5 ? 1 : 0;
  }

  for (const int workers : {1, 2, 3}) {
    for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
      run_workers(workers, [&](Communicator& comm) {
        Meter meter;
        for (int64_t row = comm.rank() * 3; row < 40; row += 3 * comm.size()) {
          const auto rows = [&](const torch::Tensor& all) {
            return all.slice(0, row, std::min<int64_t>(40, row + 3));
          };
          meter.add_scores(rows(scores).to(type), rows(target), /*with_top5=*/true);
        }
        meter.all_reduce(comm);

        EXPECT_EQ(*meter.accuracy(), static_cast<double>(first) / 40);
        EXPECT_EQ(*meter.top5(), static_cast<double>(five) / 40);
      });
    }
  }
}

TEST(Meter, TakesNoScoreThatIsNoNumberForAGoodOne) {
  Meter meter;
  torch::Tensor scores = torch::arange(8, torch::kFloat32).repeat({3, 1});
  scores[0][7] = std::numeric_limits<float>::quiet_NaN();
  meter.add_scores(scores, torch::tensor({7, 3, -100}), /*with_top5=*/true);
  EXPECT_DOUBLE_EQ(*meter.top5(), 1.0 / 3);

  Meter few;
  few.add_scores(torch::eye(5), torch::arange(5), /*with_top5=*/true);
  few.add_scores(torch::eye(9), torch::arange(9));
  EXPECT_FALSE(few.top5().has_value());
  few.merge(meter);
  EXPECT_DOUBLE_EQ(*few.top5(), 1.0 / 3);
}

TEST(Meter, IsExactIfOneWorkerCountedNothing) {
  run_workers(3, [](Communicator& comm) {
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

TEST(EventWriter, WarnsOnceOfAFullDiskForAllWorkers) {
  const os::TemporaryDirectory directory;
  const auto file = directory.path() / "full.jsonl";
  std::filesystem::create_symlink("/dev/full", file);
  const auto say = [](const std::filesystem::path& path, int rank) {
    ::testing::internal::CaptureStderr();
    train::EventWriter writer(path);
    writer.write({.kind = "step", .rank = rank});
    writer.write({.kind = "step", .rank = rank});
    return ::testing::internal::GetCapturedStderr();
  };

  EXPECT_THAT(say(file, 0),
              AllOf(HasSubstr("No space left on device"), HasSubstr("training continues")));
  EXPECT_EQ(say(file, 1), "");
  EXPECT_THAT(say(file / "below", 1), HasSubstr("training continues without them"));
}

TEST(EventWriter, AppendsOneLinePerEventThatReadsBack) {
  const os::TemporaryDirectory directory;
  const auto file = directory.path() / "events" / "rank-1.jsonl";
  const contract::Event event{.kind = "step",
                              .time = 12.5,
                              .rank = 1,
                              .fields = {{"step", int64_t{7}}, {"loss", 0.25}, {"word", "a\"b"}}};

  train::EventWriter(file).write(event);
  train::EventWriter(file).write(event);

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
