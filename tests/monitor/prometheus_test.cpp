// SPDX-License-Identifier: Apache-2.0
#include "monitor/prometheus.h"

#include <gmock/gmock.h>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "monitor/event_store.h"
#include "os/command.h"
#include "os/environment.h"
#include "support/golden.h"
#include "support/made_up_gang.h"

namespace lockstep::monitor {
namespace {

using lockstep::testing::expect_golden;
using lockstep::testing::MadeUpGang;
using lockstep::testing::read_text;
using ::testing::Contains;
using ::testing::HasSubstr;

// Of DCGM's fields and what its exporter calls them: dcgm_fields.h, default-counters.csv.
const std::set<std::string> kNamesOfDcgm = {
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_MEM_CLOCK",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
    "DCGM_FI_PROF_NVLINK_TX_BYTES",
    "DCGM_FI_PROF_NVLINK_RX_BYTES",
};

class Prometheus : public ::testing::Test {
 protected:
  Prometheus() {
    gang_.write_all();
    gang_.append({.kind = "step",
                  .time = MadeUpGang::kStart + 20.25,
                  .rank = 3,
                  .fields = {{"step", int64_t{41}}, {"device_memory_bytes", int64_t{1} << 30}}});
    EventStore store(gang_.run());
    store.poll();
    text_ = prometheus_text(store.snapshot(), MadeUpGang::kStart + 22);
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const std::string& line : split(text_, '\n')) {
      if (!line.empty() && line[0] != '#') {
        names.insert(line.substr(0, line.find_first_of("{ ")));
      }
    }
    return names;
  }

  MadeUpGang gang_;
  std::string text_;
};

TEST_F(Prometheus, IsAPageOfTheRun) {
  expect_golden(text_, "metrics.txt");
}

TEST_F(Prometheus, CallsGpusAsDcgmDoes) {
  for (const std::string& name : names()) {
    EXPECT_TRUE(name.starts_with("lockstep_") || kNamesOfDcgm.contains(name)) << name;
  }
  EXPECT_THAT(
      text_,
      HasSubstr(
          "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:00:00."
          "0\",device=\"nvidia0\",modelName=\"NVIDIA H200\",hostname=\"node-a\","
          "hpc_job=\"4711\",run=\"train-20240131-093000-beef\",node=\"node-a\",rank=\"0\"} 81\n"));
  EXPECT_THAT(text_, HasSubstr("rank=\"0\"} 49152\n"));  // MiB
}

TEST_F(Prometheus, HasHelpAndTypeBeforeEveryMetricOnce) {
  for (const std::string& name : names()) {
    for (const std::string& head : {"# HELP " + name + " ", "# TYPE " + name + " "}) {
      const size_t first = text_.find(head);
      ASSERT_NE(first, std::string::npos) << head;
      EXPECT_EQ(text_.find(head, first + 1), std::string::npos) << head;
    }
  }
}

// Of DCGM's own names and labels it says that they are not Prometheus' style, and it is right: we
// keep them, as those who have dashboards for them want them. Of ours it has nothing to say.
TEST_F(Prometheus, PassesPromtool) {
  if (!os::find_program("promtool", os::environment())) {
    GTEST_SKIP() << "promtool is not here (apt-get install prometheus)";
  }
  const os::CommandResult result =
      os::run_command({"promtool", "check", "metrics"}, {.input = text_});

  for (const std::string& line : split(result.output + result.errors, '\n')) {
    EXPECT_TRUE(line.empty() || line.starts_with("DCGM_")) << line;
  }
  std::string ours;
  for (const std::string& line : split(text_, '\n')) {
    ours += line.find("DCGM_") == std::string::npos ? line + "\n" : "";
  }
  const os::CommandResult own = os::run_command({"promtool", "check", "metrics"}, {.input = ours});
  EXPECT_EQ(own.status.code, 0) << own.output << own.errors;
}

TEST_F(Prometheus, EscapesWhatLabelsMustNotHave) {
  Snapshot snapshot;
  snapshot.run_id = "a\"b\\c\nd";
  EXPECT_THAT(prometheus_text(snapshot, 0), HasSubstr(R"(run="a\"b\\c\nd")"));
}

// Every metric that the dashboard asks for is one that we write.
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
