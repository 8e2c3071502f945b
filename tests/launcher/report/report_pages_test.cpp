// SPDX-License-Identifier: Apache-2.0
// A report as text, HTML and JSON.
#include <gmock/gmock.h>
#include <regex>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "launcher/monitor/drawing.h"
#include "launcher/report/charts.h"
#include "launcher/report/fake_training.h"
#include "launcher/report/report_html.h"
#include "launcher/report/report_json.h"
#include "launcher/report/report_text.h"
#include "support/golden.h"

namespace lockstep::report {
namespace {

using lockstep::testing::expect_golden;
using lockstep::testing::FakeTraining;
using lockstep::testing::kGiB;
using lockstep::testing::Training;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr double kStart = FakeTraining::kStart;

// GPU 2 waits for data, rank 5 is slow, and there are evaluations and a checkpoint.
std::unique_ptr<FakeTraining> busy_training() {
  Training shape;
  shape.utilisation_of = {{2, 0.2}};
  shape.data_of = {{2, 0.6}};
  shape.compute_of = {{2, 0.1}, {5, 0.95}};
  auto training = std::make_unique<FakeTraining>(shape);
  const lockstep::testing::FakeRun& fake_run = training->fake_run();
  for (const auto& [step, accuracy] : {std::pair{int64_t{300}, 0.96}, {int64_t{600}, 0.95}}) {
    fake_run.append(
        {.kind = "evaluation",
         .time = kStart + static_cast<double>(step) / 10,
         .rank = 0,
         .fields = {
             {"step", step}, {"loss", 0.125}, {"accuracy", accuracy}, {"samples", int64_t{1000}}}});
  }
  fake_run.append({.kind = "checkpoint",
                   .time = kStart + 60,
                   .rank = 0,
                   .fields = {{"step", int64_t{600}}, {"seconds", 4.0}, {"stall_seconds", 0.25}}});
  fake_run.append({.kind = "first_step",
                   .time = kStart + 1,
                   .rank = 0,
                   .fields = {{"seconds_since_command", 12.5}}});
  return training;
}

std::string text_of(const FakeTraining& training) {
  std::string text = report_text(make_page(training.facts()));
  const std::string directory = training.run().root().string();
  for (size_t at = text.find(directory); at != std::string::npos; at = text.find(directory)) {
    text.replace(at, directory.size(), "RUN");
  }
  return text;
}

std::string html_of(const FakeTraining& training) {
  monitor::EventStore store(training.run());
  store.poll();
  const RunFacts facts = gather_facts(training.run(), store, {}, kStart + 86400);
  return report_html(make_page(facts), make_charts(facts, store));
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(ReportText, IsAPageToRead) {
  const std::string text = text_of(*busy_training());
  expect_golden(text, "report.txt");
  for (const std::string& line : split(text, '\n')) {
    EXPECT_LE(monitor::columns_of(line), 100U) << line;
  }
}

TEST(ReportText, SaysWhatIsMissingOfAProgramWithoutEvents) {
  Training shape;
  shape.nodes = 1;
  shape.workers = 2;
  shape.gpus = 0;
  shape.has_events = false;
  shape.cores = 7;
  shape.memory = 32 * kGiB;
  shape.job = "";
  shape.phase = contract::RunPhase::Running;  // and then killed
  expect_golden(text_of(FakeTraining(shape)), "report_python.txt");
}

TEST(ReportText, StaysOnePageWithAThousandRanksAndLongWords) {
  Training shape;
  shape.nodes = 1;
  shape.workers = 1000;
  shape.gpus = 100;
  shape.granted = 4000;
  shape.memory = kGiB;
  shape.memory_limit = 2000 * kGiB;
  shape.seconds = 2;
  const FakeTraining training(shape);
  training.fake_run().write_command({"train", std::string(300, 'x'), "a\nb"});
  const std::string text = text_of(training);

  EXPECT_THAT(text,
              AllOf(HasSubstr("32 of 1000 shown, the first"),
                    HasSubstr("32 of 100 shown, the least used")));
  EXPECT_LT(split(text, '\n').size(), 140U);
  for (const std::string& line : split(text, '\n')) {
    EXPECT_LE(monitor::columns_of(line), 100U) << line;
  }
}

TEST(ReportHtml, NeedsNothingElse) {
  const std::string html = html_of(*busy_training());

  EXPECT_THAT(html,
              AllOf(::testing::StartsWith("<!doctype html>"),
                    HasSubstr("prefers-color-scheme:dark"),
                    HasSubstr("width=device-width"),
                    Not(HasSubstr("<script")),
                    Not(HasSubstr("<link")),
                    Not(HasSubstr(" src=")),
                    Not(HasSubstr("@import")),
                    Not(HasSubstr("url("))));
  const std::string without_names = std::regex_replace(html, std::regex("xmlns=\"[^\"]*\""), "");
  EXPECT_THAT(without_names, Not(HasSubstr("://")));
  EXPECT_EQ(count(html, "<svg"), 5U);  // loss, speed, GPUs, cores, split
  for (const char* element : {"section", "table", "dl", "ul", "div", "svg"}) {
    EXPECT_EQ(count(html, std::string("<") + element),
              count(html, std::string("</") + element + ">"))
        << element;
  }
}

TEST(ReportHtml, HasTheWordsOfTheText) {
  const auto training = busy_training();
  const std::string html = html_of(*training);
  EXPECT_THAT(html,
              AllOf(HasSubstr("GPU 2 of node-a idle 80 % of the time"),
                    HasSubstr("rank 5 on node-b takes 129 %"),
                    HasSubstr("accuracy 0.96 at step 300"),
                    HasSubstr("<i style=\"width:20.0%\">")));
}

TEST(ReportHtml, ShowsWhatWasTypedAndRunsNoneOfIt) {
  const FakeTraining training;
  training.fake_run().write_command({"train", "<script>alert(1)</script>", "\"&'"});
  const std::string html = html_of(training);

  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

TEST(ReportHtml, IsThereWithoutAnyEvent) {
  Training shape;
  shape.has_events = shape.has_samples = false;
  const std::string html = html_of(FakeTraining(shape));
  EXPECT_EQ(count(html, "<svg"), 0U);
  EXPECT_THAT(html, HasSubstr("no events: no worker"));
}

TEST(ReportJson, HasTheNumbers) {
  const auto training = busy_training();
  const auto json = nlohmann::json::parse(report_json(training->facts()));

  EXPECT_EQ(json["run"]["workers"], 8);
  EXPECT_EQ(json["end"]["kind"], "done");
  EXPECT_NEAR(json["efficiency"]["gpu"].get<double>(), (7 * 0.95 + 0.2) / 8, 1e-9);
  EXPECT_DOUBLE_EQ(json["efficiency"]["cpu"].get<double>(), 10.0 / 16);
  EXPECT_DOUBLE_EQ(json["speed"]["samples_per_second"].get<double>(), 640);
  EXPECT_EQ(json["energy"]["source"], "counter");
  EXPECT_EQ(json["results"]["best_accuracy"]["step"], 300);
  EXPECT_EQ(json["run"]["checkpoint_stall_seconds"], 0.25);
  EXPECT_THAT(json["hosts"], SizeIs(2));
  EXPECT_NEAR(json["hosts"][0]["gpus"][2]["utilisation"].get<double>(), 0.2, 1e-9);
  EXPECT_EQ(json["hosts"][1]["interfaces"]["ib0"]["sent_bytes"], 120000000);
  EXPECT_THAT(json["ranks"], SizeIs(8));
  EXPECT_EQ(json["slow_ranks"][0]["rank"], 5);
  std::vector<std::string> rules;
  for (const auto& advice : json["advice"]) {
    rules.push_back(advice["rule"]);
  }
  EXPECT_THAT(rules, ElementsAre("loader-bound", "slow-rank"));
}

TEST(ReportJson, HasNullForWhatIsNotKnown) {
  Training shape;
  shape.has_events = shape.has_samples = false;
  const auto json = nlohmann::json::parse(report_json(FakeTraining(shape).facts()));
  EXPECT_TRUE(json["efficiency"]["gpu"].is_null());
  EXPECT_TRUE(json["speed"]["samples_per_second"].is_null());
  EXPECT_TRUE(json["run"]["step"].is_null());
  EXPECT_EQ(json["energy"]["source"], "none");
}

}  // namespace
}  // namespace lockstep::report
