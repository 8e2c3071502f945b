// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/metric_finder.h"

#include <gmock/gmock.h>

#include "common/base/text.h"
#include "common/contract/event.h"

namespace lockstep::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const std::vector<plan::Metric> kMetrics = {{.name = "loss", .pattern = "loss: ([0-9.e+-]+|nan)"},
                                            {.name = "step", .pattern = "step ([0-9]+)"}};

std::vector<contract::Event> events_of(const std::string& lines) {
  std::vector<contract::Event> events;
  for (const std::string& line : split(lines, '\n')) {
    if (!line.empty()) {
      events.push_back(contract::parse_event(line));
    }
  }
  return events;
}

std::vector<std::pair<std::string, double>> values_of(const std::string& lines) {
  std::vector<std::pair<std::string, double>> values;
  for (const contract::Event& event : events_of(lines)) {
    values.emplace_back(std::get<std::string>(event.fields.at(0).second),
                        contract::find_number(event, "value").value_or(-1));
  }
  return values;
}

TEST(MetricFinder, MakesAnEventOfEachNumber) {
  MetricFinder finder(5, kMetrics);

  const std::string found = finder.find("loss: 0.125 step 7\nnothing here\nloss: 1e-3\n");

  EXPECT_THAT(values_of(found),
              ElementsAre(Pair("loss", 0.125), Pair("step", 7), Pair("loss", 0.001)));
  const contract::Event first = events_of(found).at(0);
  EXPECT_EQ(first.kind, "metric");
  EXPECT_EQ(first.rank, 5);
  EXPECT_GT(first.time, 1.6e9);
}

TEST(MetricFinder, TakesALastLineWithoutAnEnd) {
  EXPECT_THAT(values_of(MetricFinder(0, kMetrics).find("step 3")), ElementsAre(Pair("step", 3)));
}

TEST(MetricFinder, LeavesOutWhatIsNoNumber) {
  EXPECT_THAT(MetricFinder(0, kMetrics).find("loss: 1.2.3\nloss: --\n"), IsEmpty());
}

TEST(MetricFinder, KeepsALossThatIsNoNumberAnyMore) {
  const auto events = events_of(MetricFinder(0, kMetrics).find("loss: nan\n"));

  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(std::get<std::string>(events[0].fields.at(1).second), "nan");
}

TEST(MetricFinder, KeepsNoMoreThanAHundredASecond) {
  MetricFinder finder(0, kMetrics);
  std::string flood;
  for (int i = 0; i < 1000; ++i) {
    flood += "step 1\n";
  }
  const auto now = MetricFinder::Clock::now();

  EXPECT_THAT(values_of(finder.find(flood, now)), SizeIs(100));
  EXPECT_THAT(finder.find("step 2\n", now + std::chrono::milliseconds(900)), IsEmpty());
  EXPECT_THAT(values_of(finder.find("step 3\n", now + std::chrono::milliseconds(1100))),
              ElementsAre(Pair("step", 3)));
}

TEST(MetricFinder, LooksAtTheBeginningOfALongLine) {
  const std::string line = "step 1 " + std::string(MetricFinder::kLongestLine, '.') + " loss: 5\n";

  EXPECT_THAT(values_of(MetricFinder(0, kMetrics).find(line)), ElementsAre(Pair("step", 1)));
}

TEST(MetricFinder, IsReadyForBytesThatAreNoText) {
  EXPECT_THAT(values_of(MetricFinder(0, kMetrics).find("\xff\xfe step 9 \xc3\n")),
              ElementsAre(Pair("step", 9)));
}

}  // namespace
}  // namespace lockstep::supervisor
