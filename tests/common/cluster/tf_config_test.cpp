// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/tf_config.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::optional<contract::WorkerSpec> read(const std::string& config) {
  return find_tf_config_worker({{"TF_CONFIG", config}});
}

TEST(TfConfig, CountsTheChiefFirstAndThenTheWorkers) {
  const std::string cluster =
      R"({"cluster": {"worker": ["h1:2222", "h0:2223", "h1:2224"], "chief": ["h0:2222"]}, )";

  const auto chief = read(cluster + R"("task": {"type": "chief", "index": 0}})");
  const auto last = read(cluster + R"("task": {"type": "worker", "index": 2}})");

  ASSERT_TRUE(chief && last);
  EXPECT_EQ(chief->rank, 0);
  EXPECT_EQ(chief->world_size, 4);
  EXPECT_EQ(chief->master_addr, "h0");
  EXPECT_EQ(chief->master_port, 2222);
  EXPECT_EQ(last->rank, 3);
  EXPECT_EQ(last->master_addr, "h0");
  EXPECT_EQ(last->node, "h1");
  EXPECT_EQ(last->node_rank, 1);
  EXPECT_EQ(last->nodes, 2);
  EXPECT_EQ(last->local_rank, 1);
  EXPECT_EQ(last->local_world_size, 2);
}

TEST(TfConfig, NeedsNoChiefAndTakesAnIndexAsText) {
  const auto spec = read(
      R"({"cluster": {"worker": ["[fd00::1]:1", "[fd00::2]:1"]}, "task": {"type": "worker", "index": "1"}})");

  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->rank, 1);
  EXPECT_EQ(spec->master_addr, "fd00::1");
  EXPECT_EQ(spec->local_rank, 0);
}

TEST(TfConfig, IsNothingWithoutACluster) {
  EXPECT_FALSE(find_tf_config_worker({}));
  EXPECT_FALSE(read(" "));
  EXPECT_FALSE(read("{}"));
  EXPECT_FALSE(read(R"({"task": {"type": "worker", "index": 0}})"));
}

TEST(TfConfig, SaysWhatIsWrongWithIt) {
  const std::string cluster = R"({"cluster": {"worker": ["a:1", "b:1"]}, )";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"{cluster", "it is not a JSON object"},
      {"[1]", "it is not a JSON object"},
      {R"({"cluster": ["a:1"]})", "its cluster is not a JSON object"},
      {R"({"cluster": {"worker": "a:1"}})", "the tasks of type 'worker' are not a list"},
      {R"({"cluster": {"worker": ["a"]}})", "an address is not HOST:PORT"},
      {R"({"cluster": {"worker": [":1"]}})", "an address is not HOST:PORT"},
      {R"({"cluster": {"worker": ["a:70000"]}})", "an address is not HOST:PORT"},
      {R"({"cluster": {"worker": [7]}})", "an address is not HOST:PORT"},
      {R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}})", "tasks of type 'ps'"},
      {R"({"cluster": {"worker": ["a:1"], "evaluator": ["b:1"]}})", "tasks of type 'evaluator'"},
      {R"({"cluster": {"chief": ["a:1", "b:1"]}})", "it has more than one chief"},
      {cluster + R"("x": 0})", "it has a cluster, but no task"},
      {cluster + R"("task": {"index": 0}})", "no task type"},
      {cluster + R"("task": {"type": 3, "index": 0}})", "task type '3'"},
      {cluster + R"("task": {"type": "evaluator", "index": 0}})", "task type 'evaluator'"},
      {cluster + R"("task": {"type": "worker", "index": 2}})",
       "task 2 of type 'worker'; the cluster has 2"},
      {cluster + R"("task": {"type": "worker", "index": -1}})", "task -1 of type 'worker'"},
      {cluster + R"("task": {"type": "worker"}})", "task without an index"},
      {cluster + R"("task": {"type": "chief", "index": 0}})", "the cluster has 0"},
  };

  for (const auto& [config, message] : bad) {
    SCOPED_TRACE(config);
    EXPECT_THAT(
        [text = config] { read(text); },
        ThrowsMessage<Error>(AllOf(
            HasSubstr("cannot read TF_CONFIG: "), HasSubstr(message), HasSubstr("TF_CONFIG='{"))));
  }
}

}  // namespace
}  // namespace lockstep::cluster
