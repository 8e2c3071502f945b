// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/metric.h"

#include <cmath>
#include <ctime>
#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

OptionValue given(const std::string& text) {
  return {.text = text, .source = "command line", .flag = ""};
}

std::vector<Metric> read(const std::vector<std::string>& texts) {
  std::vector<OptionValue> all;
  for (const std::string& text : texts) {
    all.push_back(given(text));
  }
  return read_metrics(all);
}

TEST(ReadMetrics, SplitsNameAndExpressionAtTheFirstEqualsSign) {
  EXPECT_THAT(read({"loss=loss=([0-9.]+)", "train/acc-1=acc (.*)"}),
              ElementsAre(Metric{.name = "loss", .pattern = "loss=([0-9.]+)"},
                          Metric{.name = "train/acc-1", .pattern = "acc (.*)"}));
}

TEST(ReadMetrics, RefusesWhatCannotBe) {
  EXPECT_THAT([] { read({"loss"}); },
              ThrowsMessage<Error>(HasSubstr("invalid value 'loss' for --metric")));
  EXPECT_THAT([] { read({"loss="}); }, ThrowsMessage<Error>(HasSubstr("NAME=REGEX")));
  EXPECT_THAT([] { read({"=x(1)"}); }, ThrowsMessage<Error>(HasSubstr("invalid metric name ''")));
  EXPECT_THAT([] { read({"my loss=(1)"}); },
              ThrowsMessage<Error>(HasSubstr("invalid metric name 'my loss'")));
  EXPECT_THAT([] { read({"loss=(1"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("invalid regular expression '(1'"),
                                         HasSubstr("missing closing parenthesis"),
                                         HasSubstr("--metric loss=(1  (command line)"))));
  EXPECT_THAT([] { read({"loss=loss: [0-9]+"}); },
              ThrowsMessage<Error>(HasSubstr("it has no group")));
  EXPECT_THAT(
      [] {
        read({"loss=(1)", "loss=(2)"});
      },
      ThrowsMessage<Error>(HasSubstr("duplicate metric 'loss'")));
}

TEST(ReadMetrics, LeavesWithTheCodeOfUsage) {
  try {
    read({"loss=("});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
  }
}

TEST(NumberPattern, FindsTheFirstGroupAsANumber) {
  const NumberPattern pattern("loss: (\\S+)");

  EXPECT_EQ(pattern.find("step 7 loss: 0.125 x"), 0.125);
  EXPECT_EQ(pattern.find("loss: +1e3"), 1000);
  EXPECT_EQ(pattern.find("loss: -2"), -2);
  EXPECT_EQ(pattern.find("loss: many"), std::nullopt);
  EXPECT_EQ(pattern.find("los: 3"), std::nullopt);
  EXPECT_EQ(pattern.find(""), std::nullopt);
  EXPECT_TRUE(std::isnan(pattern.find("loss: nan").value_or(0)));
}

TEST(NumberPattern, MayHaveAGroupThatDidNotMatch) {
  EXPECT_EQ(NumberPattern("a(1)?b").find("ab"), std::nullopt);
  EXPECT_EQ(NumberPattern("(?|a (\\d)|b (\\d))").find("b 2"), 2);
}

TEST(NumberPattern, GivesUpBeforeItTakesLong) {
  const NumberPattern pattern("(a+)+b([0-9])");
  const std::clock_t began = std::clock();  // processor time, which other load does not prolong

  EXPECT_EQ(pattern.find(std::string(4000, 'a')), std::nullopt);

  EXPECT_LT(std::clock() - began, 2 * CLOCKS_PER_SEC);
}

TEST(ReadSampleEvery, TakesNoneOrATenthOfASecond) {
  EXPECT_EQ(read_sample_every(given("0")).value, 0);
  EXPECT_EQ(read_sample_every(given("0.1")).value, 0.1);
  for (const char* text : {"0.01", "-1", "often"}) {
    EXPECT_THAT([&] { read_sample_every(given(text)); },
                ThrowsMessage<Error>(HasSubstr("for --sample-every")));
  }
}

}  // namespace
}  // namespace lockstep::plan
