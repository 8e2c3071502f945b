// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/prometheus.h"

#include <gmock/gmock.h>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/os/command.h"
#include "common/os/environment.h"
#include "launcher/monitor/event_store.h"
#include "support/fake_run.h"
#include "support/golden.h"

namespace lockstep::monitor {
namespace {

using lockstep::testing::expect_golden;
using lockstep::testing::FakeRun;
using lockstep::testing::read_text;
using ::testing::Contains;
using ::testing::HasSubstr;

std::set<std::string> names_of_dcgm() {
  std::set<std::string> names;
  const std::string text = read_text(std::filesystem::path(LOCKSTEP_SOURCE_DIR) /
                                     "tests/launcher/monitor/dcgm_names.txt");
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("DCGM_")) {
      names.insert(line);
    }
  }
  return names;
}

os::CommandResult promtool(const std::string& page) {
  return os::run_command({"promtool", "check", "metrics"}, {.input = page});
}

class Prometheus : public ::testing::Test {
 protected:
  Prometheus() {
    fake_run_.write_all();
    fake_run_.append(
        {.kind = "step",
         .time = FakeRun::kStart + 20.25,
         .rank = 3,
         .fields = {{"step", int64_t{41}}, {"device_memory_bytes", int64_t{1} << 30}}});
    EventStore store(fake_run_.run());
    store.poll();
    runs_ = {store.snapshot()};
    text_ = text_of(Names::All);
  }

  std::string text_of(Names names) const {
    return prometheus_text(runs_, FakeRun::kStart + 22, names);
  }

  static std::set<std::string> names_in(const std::string& text) {
    std::set<std::string> names;
    for (const std::string& line : split(text, '\n')) {
      if (!line.empty() && line[0] != '#') {
        names.insert(line.substr(0, line.find_first_of("{ ")));
      }
    }
    return names;
  }

  std::set<std::string> names() const { return names_in(text_); }

  static void expect_heads_once(const std::string& text) {
    for (const std::string& name : names_in(text)) {
      for (const std::string& head : {"# HELP " + name + " ", "# TYPE " + name + " "}) {
        const size_t first = text.find(head);
        ASSERT_NE(first, std::string::npos) << head;
        EXPECT_EQ(text.find(head, first + 1), std::string::npos) << head;
      }
    }
  }

  FakeRun fake_run_;
  std::vector<Snapshot> runs_;
  std::string text_;
};

TEST_F(Prometheus, IsAPageOfTheRun) {
  expect_golden(text_, "metrics.txt");
}

TEST_F(Prometheus, CallsGpusAsDcgmDoes) {
  const std::set<std::string> known = names_of_dcgm();
  EXPECT_GT(known.size(), 50U);
  int of_dcgm = 0;
  for (const std::string& name : names()) {
    EXPECT_TRUE(name.starts_with("lockstep_") || known.contains(name)) << name;
    of_dcgm += name.starts_with("DCGM_") ? 1 : 0;
  }
  EXPECT_GT(of_dcgm, 10);
  EXPECT_THAT(
      text_,
      HasSubstr(
          "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:00:00."
          "0\",device=\"nvidia0\",modelName=\"NVIDIA H200\",Hostname=\"node-a\","
          "hpc_job=\"4711\",run=\"train-20240131-093000-beef\",node=\"node-a\",rank=\"0\"} 81\n"));
  EXPECT_THAT(text_, HasSubstr("rank=\"0\"} 49152\n"));  // MiB
}

TEST_F(Prometheus, HasHelpAndTypeBeforeEveryMetricOnce) {
  expect_heads_once(text_);
}

TEST_F(Prometheus, HasEveryMetricOnceForAllRuns) {
  Snapshot other = runs_.front();
  other.run_id = "another";
  other.loss = 0.5;
  runs_.push_back(other);
  const std::string both = text_of(Names::All);

  expect_heads_once(both);
  EXPECT_EQ(names_in(both), names());
  EXPECT_THAT(
      both,
      HasSubstr(
          "# TYPE lockstep_loss gauge\n"
          "lockstep_loss{run=\"train-20240131-093000-beef\",job_id=\"4711\",strategy=\"ddp\"} "
          "0.05\n"
          "lockstep_loss{run=\"another\",job_id=\"4711\",strategy=\"ddp\"} 0.5\n#"));
  // Twice the number of values, without duplicates.
  const auto values_of = [](const std::string& text) {
    std::multiset<std::string> values;
    for (const std::string& line : split(text, '\n')) {
      if (!line.empty() && line[0] != '#') {
        values.insert(line.substr(0, line.rfind(' ')));
      }
    }
    return values;
  };
  const std::multiset<std::string> values = values_of(both);
  EXPECT_EQ(values.size(), 2 * values_of(text_).size());
  EXPECT_EQ(std::set<std::string>(values.begin(), values.end()).size(), values.size());
}

TEST_F(Prometheus, LeavesDcgmsNamesOutIfAsked) {
  const std::string own = text_of(Names::Own);
  EXPECT_EQ(own.find("DCGM_"), std::string::npos);
  EXPECT_TRUE(text_.starts_with(own));
}

// promtool reports that DCGM's names and labels do not follow the Prometheus conventions. lockstep
// keeps them for existing dashboards. It has no complaints about the lockstep_ metrics.
TEST_F(Prometheus, PassesPromtool) {
  if (!os::find_program("promtool", os::environment())) {
    GTEST_SKIP() << "promtool is not installed (apt-get install prometheus)";
  }
  constexpr int kCannotBeRead = 1;
  constexpr int kStyle = 3;
  EXPECT_EQ(promtool("lockstep_x{ 1\n").status.code, kCannotBeRead);
  const os::CommandResult bad = promtool("# TYPE lockstep_x counter\nlockstep_x 1\n");
  EXPECT_EQ(bad.status.code, kStyle);

  const os::CommandResult own = promtool(text_of(Names::Own));
  EXPECT_EQ(own.status.code, 0) << own.output << own.errors;

  runs_.push_back(runs_.front());
  runs_.back().run_id = "another";
  const os::CommandResult all = promtool(text_of(Names::All));
  EXPECT_THAT(all.status.code, ::testing::AnyOf(0, kStyle)) << all.errors;
  for (const std::string& line : split(all.output + all.errors, '\n')) {
    EXPECT_TRUE(line.empty() || line.starts_with("DCGM_")) << line;
  }
}

TEST_F(Prometheus, EscapesWhatLabelsMustNotHave) {
  std::vector<Snapshot> runs(1);
  runs.front().run_id = "a\"b\\c\nd";
  EXPECT_THAT(prometheus_text(runs, 0), HasSubstr(R"(run="a\"b\\c\nd")"));
}

// lockstep writes every metric that the Grafana dashboard uses.
TEST_F(Prometheus, FeedsTheDashboardOfGrafana) {
  const auto dashboard = nlohmann::json::parse(
      read_text(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "share/grafana/lockstep.json"));
  const std::set<std::string> there = names();
  const std::regex metric("(lockstep|DCGM)_[A-Za-z0-9_]+");
  int asked = 0;
  for (const auto& panel : dashboard["panels"]) {
    for (const auto& target : panel.value("targets", nlohmann::json::array())) {
      const std::string expression = target["expr"];
      std::sregex_iterator found(expression.begin(), expression.end(), metric);
      EXPECT_NE(found, std::sregex_iterator()) << expression;
      for (; found != std::sregex_iterator(); ++found, ++asked) {
        EXPECT_THAT(there, Contains(found->str())) << expression;
      }
    }
  }
  EXPECT_GT(asked, 15);
}

}  // namespace
}  // namespace lockstep::monitor
