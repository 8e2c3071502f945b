// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/export.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "support/fake_run.h"
#include "support/golden.h"

namespace lockstep::monitor {
namespace {

using lockstep::testing::expect_golden;
using lockstep::testing::FakeRun;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class Export : public ::testing::Test {
 protected:
  Export() {
    fake_run_.write_all();
    store_.poll();
  }

  FakeRun fake_run_;
  EventStore store_{fake_run_.run()};
};

TEST_F(Export, WritesCommaSeparatedValues) {
  expect_golden(export_csv(store_, {"evaluation/loss", "node/0/gpu/1/utilisation"}), "export.csv");
  // Every series; all lines have the same number of columns, except for the quoted text.
  const auto lines = split(export_csv(store_, choose_series(store_, {})), '\n');
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.empty() || split(line, ',').size() >= 7) << line;
  }
}

TEST_F(Export, WritesJson) {
  const auto json = nlohmann::json::parse(export_json(store_, {"loss", "output/perplexity"}));

  EXPECT_EQ(json["run"]["run_id"], "train-20240131-093000-beef");
  EXPECT_EQ(json["run"]["command"], nlohmann::json({"python3", "train.py"}));
  EXPECT_THAT(json["series"], SizeIs(2));
  EXPECT_THAT(json["series"]["loss"], SizeIs(40));
  EXPECT_EQ(json["series"]["loss"][39],
            nlohmann::json({FakeRun::kStart + 20, 40, 0.05, 0.05, 0.05}));
  EXPECT_EQ(json["marks"][1]["kind"], "evaluation");
  EXPECT_EQ(json["marks"][1]["step"], 40);
  EXPECT_TRUE(json["marks"][0]["step"].is_null());
}

TEST_F(Export, ChoosesSeriesByNameAndByStar) {
  EXPECT_THAT(choose_series(store_, {"node/*/gpu/*/utilisation", "loss", "lo*s"}),
              ElementsAre("loss", "node/0/gpu/0/utilisation", "node/0/gpu/1/utilisation"));
  EXPECT_EQ(choose_series(store_, {}), store_.series_names());
}

TEST_F(Export, ProposesASeriesForOneThatThereIsNot) {
  try {
    choose_series(store_, {"los"});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_EQ(error.sentence(), "no series matches 'los'");
    EXPECT_THAT(error.what(), ::testing::HasSubstr("try:   loss"));
  }
}

}  // namespace
}  // namespace lockstep::monitor
