// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/site.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/contract/event.h"
#include "support/fake_runs.h"

namespace lockstep::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

class SiteOfRuns : public ::testing::Test {
 protected:
  SiteOfRuns() : run_(runs_.add("train-a", testing::FakeRuns::state("train-a"))) {
    os::make_directories(run_.events(0).parent_path());
    for (int rank = 0; rank < 2; ++rank) {
      for (int step = 1; step <= 4; ++step) {
        write_step(rank, step);
      }
    }
    testing::FakeRuns::write_log(run_, 0, 0, "begin\nloss 1.5\n");
    testing::FakeRuns::write_log(run_, 1, 0, "again\nLoss 1.25\n");
    testing::FakeRuns::write_log(run_, 1, 1, "rank one\n");
  }

  void write_step(int rank, int step) const {
    const contract::Event event{.kind = "step",
                                .time = testing::FakeRuns::kNow + step,
                                .rank = rank,
                                .fields = {{"step", int64_t{step}},
                                           {"loss", 2.0 / step},
                                           {"compute_seconds", rank == 0 ? 0.1 : 0.2},
                                           {"learning_rate", 0.1}}};
    std::ofstream(run_.events(rank), std::ios::app) << contract::to_json(event) << '\n';
  }

  std::unique_ptr<Site> site() const {
    auto site = std::make_unique<Site>(
        std::vector<ShownRun>{{.directory = run_, .name = "train-a"}}, std::chrono::hours(1));
    site->poll();
    return site;
  }

  Json ask(const std::string& path, const Parameters& parameters = {}) const {
    const Answer answer = site()->answer(path, parameters);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }

  testing::FakeRuns runs_;
  contract::RunDirectory run_;
};

TEST_F(SiteOfRuns, ListsThem) {
  const Json runs = ask("/api/runs")["runs"];

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0]["id"], "0");
  EXPECT_EQ(runs[0]["name"], "train-a");
}

TEST_F(SiteOfRuns, ReportsTheProgressOfARun) {
  const Json json = ask("/api/snapshot", {{"run", "0"}});

  EXPECT_EQ(json["latest"]["step"], 4);
  EXPECT_EQ(json["latest"]["loss"], 0.5);
  EXPECT_EQ(json["latest"]["accuracy"], nullptr);
  EXPECT_THAT(json["workers"]["rank"], ElementsAre(0, 1));
  EXPECT_THAT(json["workers"]["gpu"], ElementsAre(nullptr, nullptr));
  EXPECT_THAT(json["series"].dump(), HasSubstr("\"loss\""));
  EXPECT_THAT(json["series"].dump(), ::testing::Not(HasSubstr("rank/")));
}

TEST_F(SiteOfRuns, GivesCurvesAsManyPointsAsAsked) {
  const Json all = ask("/api/series", {{"name", "loss"}});
  EXPECT_THAT(all["step"], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(all["mean"], ElementsAre(2.0, 1.0, 2.0 / 3, 0.5));

  const Json two = ask("/api/series", {{"name", "loss"}, {"points", "2"}});
  EXPECT_THAT(two["min"], ElementsAre(1.0, 0.5));
  EXPECT_THAT(two["max"], ElementsAre(2.0, 2.0 / 3));
  const std::string third = fmt::format("{}", testing::FakeRuns::kNow + 3);
  EXPECT_THAT(ask("/api/series", {{"name", "loss"}, {"from", third}})["step"], ElementsAre(3, 4));
  EXPECT_THAT(ask("/api/series", {{"name", "nonsense"}})["step"], ElementsAre());
}

TEST_F(SiteOfRuns, ComparesRanks) {
  const Json heat = ask("/api/heat");

  EXPECT_THAT(heat["ranks"], ElementsAre(0, 1));
  EXPECT_THAT(heat["percent"][1].dump(), HasSubstr("100"));
}

TEST_F(SiteOfRuns, ReadsLogsByRankAndAttempt) {
  const Json newest = ask("/api/logs");
  EXPECT_EQ(newest["attempt"], 1);
  EXPECT_EQ(newest["lines"][0]["text"], "again");
  EXPECT_EQ(newest["next"], 16);

  EXPECT_EQ(ask("/api/logs", {{"rank", "1"}})["lines"][0]["text"], "rank one");
  const Json found = ask("/api/logs", {{"attempt", "0"}, {"search", "LOSS"}});
  ASSERT_EQ(found["lines"].size(), 1U);
  EXPECT_EQ(found["lines"][0]["text"], "loss 1.5");
  EXPECT_EQ(found["lines"][0]["offset"], 6);
}

TEST_F(SiteOfRuns, HasMarksAndMetrics) {
  EXPECT_TRUE(ask("/api/marks")["marks"].is_array());

  const Answer metrics = site()->answer("/metrics", {});
  EXPECT_THAT(metrics.type, HasSubstr("text/plain"));
  EXPECT_THAT(metrics.body, HasSubstr("lockstep_"));
}

// The run has only events: no plan.json and no state.json.
TEST_F(SiteOfRuns, ShowsARunThatLockstepHasNotStarted) {
  std::filesystem::remove(run_.state());
  std::filesystem::remove(run_.plan());
  EXPECT_EQ(ask("/api/runs")["runs"][0]["status"], "unknown (not started by lockstep)");
  EXPECT_EQ(ask("/api/snapshot")["latest"]["loss"], 0.5);
  EXPECT_THAT(site()->answer("/metrics", {}).body, HasSubstr("lockstep_loss{run=\"train-a\""));

  std::filesystem::remove_all(run_.events());
  EXPECT_EQ(ask("/api/runs")["runs"][0]["status"], "not started");
}

TEST_F(SiteOfRuns, HasTheMetricsOfAllRuns) {
  const contract::RunDirectory other = runs_.add("train-b", testing::FakeRuns::state("train-b"));
  const contract::RunDirectory copy = runs_.add("train-c", testing::FakeRuns::state("train-b"));
  for (const contract::RunDirectory& run : {other, copy}) {
    std::filesystem::copy(run_.events(), run.events(), std::filesystem::copy_options::recursive);
  }
  Site site({{.directory = run_, .name = "train-a"},
             {.directory = other, .name = "train-b"},
             {.directory = run_, .name = "train-a"},
             {.directory = copy, .name = "train-c"}},
            std::chrono::hours(1));
  site.poll();

  const std::string text = site.answer("/metrics", {}).body;
  EXPECT_THAT(text,
              HasSubstr("# TYPE lockstep_loss gauge\n"
                        "lockstep_loss{run=\"train-a\"} 0.5\n"
                        "lockstep_loss{run=\"train-b\"} 0.5\n"
                        "lockstep_loss{run=\"" +
                        copy.root().string() + "\"} 0.5\n# HELP"));
  EXPECT_EQ(text.find("# HELP lockstep_loss "), text.rfind("# HELP lockstep_loss "));

  EXPECT_THAT(site.answer("/metrics", {{"only", "lockstep"}}).body, HasSubstr("lockstep_loss{"));
  const Answer refused = site.answer("/metrics", {{"only", "dcgm"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, "invalid only 'dcgm': must be lockstep\n");
}

TEST_F(SiteOfRuns, HoldsThePageItself) {
  const auto page = site();

  EXPECT_THAT(page->answer("/", {}).body, HasSubstr("<title>lockstep</title>"));
  EXPECT_THAT(page->answer("/app.js", {}).type, HasSubstr("javascript"));
  EXPECT_THAT(page->answer("/app.css", {}).type, HasSubstr("css"));
  EXPECT_THAT(page->answer("/", {}).body, ::testing::Not(HasSubstr("//")));
}

TEST_F(SiteOfRuns, RefusesInOneSentence) {
  struct Row {
    std::string path;
    Parameters parameters;
    int status;
  };
  const std::vector<Row> rows = {
      {"/api/series", {}, 400},
      {"/api/series", {{"name", "loss"}, {"points", "many"}}, 400},
      {"/api/series", {{"name", "loss"}, {"points", "1000000"}}, 400},
      {"/api/series", {{"name", "loss"}, {"from", "1e"}}, 400},
      {"/api/snapshot", {{"run", "../.."}}, 400},
      {"/api/snapshot", {{"run", "7"}}, 404},
      {"/api/logs", {{"rank", "-1"}}, 400},
      {"/api/logs", {{"rank", "../../plan"}}, 400},
      {"/api/logs", {{"rank", "99999999999"}}, 400},
      {"/api/logs", {{"attempt", "x"}}, 400},
      {"/api/logs", {{"rank", "5"}}, 404},
      {"/../../../etc/passwd", {}, 404},
      {"/api/nothing", {}, 404},
      {"", {}, 404},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.path);
    const Answer answer = site()->answer(row.path, row.parameters);
    EXPECT_EQ(answer.status, row.status);
    EXPECT_THAT(answer.body, MatchesRegex("[^\n]+\n"));
  }
}

TEST_F(SiteOfRuns, ReportsNewData) {
  const auto page = site();
  // The thread of the page may have read the run and not have counted it yet.
  const uint64_t before = page->wait_for_news(0, std::chrono::seconds(30));
  ASSERT_EQ(before, 1U);

  EXPECT_EQ(page->wait_for_news(before, std::chrono::milliseconds(1)), before);
  write_step(0, 5);
  page->poll();

  EXPECT_GT(page->wait_for_news(before, std::chrono::milliseconds(1)), before);
}

}  // namespace
}  // namespace lockstep::monitor
