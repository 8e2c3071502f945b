// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/fake_run.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(Report, PrintsTextAndWritesAPage) {
  const FakeRun fake_run;
  fake_run.write_all();
  Launcher launcher;

  const Result result =
      launcher.run({"report", "--html", "report.html", fake_run.run().root().string()});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.errors, IsEmpty());
  EXPECT_THAT(result.output,
              AllOf(StartsWith("run\n"),
                    HasSubstr("python3 train.py"),
                    HasSubstr("Time breakdown"),
                    HasSubstr("\nAdvice\n")));
  EXPECT_THAT(read_text(launcher.path("report.html")),
              AllOf(StartsWith("<!doctype html>"), HasSubstr("<svg")));
}

TEST(Report, IsForProgramsToo) {
  const FakeRun fake_run;
  fake_run.write_all();

  const Result result = Launcher().run({"report", "--json", fake_run.run().root().string()});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["run"]["run_id"], "train-20240131-093000-beef");
  EXPECT_EQ(json["end"]["kind"], "lost");
}

TEST(Report, TakesTheNewestRun) {
  Launcher launcher;
  std::filesystem::create_directories(launcher.path("runs/one"));
  os::write_file(launcher.path("runs/one/plan.json"), "{}");

  const Result result = launcher.run({"report"});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(StartsWith("one\n"), HasSubstr("no events: no worker")));
}

TEST(Report, RefusesWhatCannotBe) {
  const FakeRun fake_run;
  fake_run.write_state();
  const std::string run = fake_run.run().root().string();
  Launcher launcher;

  const Result none = launcher.run({"report", "runs/none"});
  EXPECT_EQ(none.status.code, 64);
  EXPECT_THAT(none.errors, HasSubstr("cannot find the run 'runs/none'"));
  const Result unnamed = launcher.run({"report", "--html", "", run});
  EXPECT_EQ(unnamed.status.code, 64);
  EXPECT_EQ(unnamed.errors,
            "lockstep: error: --html requires a value\n"
            "  expected: --html FILE\n"
            "  try:      lockstep report --help\n");
  const Result lost = launcher.run({"report", "--html", "no/such/folder/report.html", run});
  EXPECT_EQ(lost.status.code, 74);
  EXPECT_THAT(lost.errors, HasSubstr("no/such/folder"));
  EXPECT_THAT(lost.output, IsEmpty());
  const Result option = launcher.run({"report", "--htm", "report.html", run});
  EXPECT_EQ(option.status.code, 64);
  EXPECT_THAT(option.errors, HasSubstr("--html"));
}

}  // namespace
}  // namespace lockstep::testing
