// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "launcher/doctor/fake_facts.h"
#include "support/golden.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

doctor::Facts sick_facts() {
  doctor::Facts facts = healthy_facts();
  facts.slurm.variables["SLURM_CPUS_PER_TASK"] = "8";
  facts.cross_node.missing = {"n4"};
  facts.nodes[1].software.python.torch = "2.1.0";
  facts.nodes[2].limits.shm_free = int64_t{64} << 20;
  return facts;
}

TEST(Report, IsAPageToReadAndToPaste) {
  const doctor::Facts facts = sick_facts();
  const std::string text = doctor::to_text(facts, doctor::check_all(facts));
  expect_golden(text, "doctor.txt");
  for (const std::string& line : split(text, '\n')) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(Report, IsForProgramsToo) {
  const doctor::Facts facts = sick_facts();
  const std::string text = doctor::to_json(facts, doctor::check_all(facts));
  expect_golden(text, "doctor.json");
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("verdict"), "broken");
  EXPECT_EQ(json.at("nodes").at(1).at("software").at("python").at("torch"), "2.1.0");
}

TEST(Report, SaysOnceWhatIsTheSameOnAllNodes) {
  const doctor::Facts facts = healthy_facts();
  const std::string text = doctor::to_text(facts, doctor::check_all(facts));
  EXPECT_THAT(text, HasSubstr("Python: 3 nodes: 3.11.2"));
}

TEST(Report, NamesNoNodeWhereThereIsOne) {
  doctor::Facts facts = healthy_facts();
  facts.nodes.resize(1);
  facts.cross_node = {};
  const std::string text = doctor::to_text(facts, doctor::check_all(facts));
  EXPECT_THAT(text, HasSubstr("Python: 3.11.2"));
}

TEST(Report, OfANodeReadsBack) {
  const doctor::NodeFacts node = healthy_node("n1");
  const std::string text = doctor::to_json_text(node);
  EXPECT_EQ(doctor::to_json_text(doctor::parse_node_facts(text)), text);
}

}  // namespace
}  // namespace lockstep::testing
