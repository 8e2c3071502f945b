// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/network_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "support/golden.h"

namespace lockstep::report {
namespace {

using lockstep::testing::expect_golden;
using ::testing::SizeIs;

// A step of 100 ms, half of it backward, with 1 GB of gradients in ten buckets.
constexpr OneGpu kOne = {.step_seconds = 0.1, .batch = 64, .gradient_bytes = 1e9};
constexpr Exchange kExchange = {.bucket_bytes = 1e8, .backward_share = 0.5};

// Full bandwidths without latency: 8.75 ms for a half in a node, 87.5 ms between eight nodes.
constexpr Network kNetwork = {
    .node_rate = 10e9, .gpu_rate = 100e9, .message_seconds = 0, .reached_share = 1};

TEST(NetworkModel, HidesTheExchangeBehindBackwardExceptTheLastBucket) {
  const GpuEstimate node = estimate(kOne, kNetwork, kExchange, 8);

  EXPECT_EQ(node.nodes, 1);
  EXPECT_NEAR(node.exchange_seconds, 0.0175, 1e-12);
  EXPECT_NEAR(node.exposed_seconds, 0.00175, 1e-12);
  EXPECT_NEAR(node.step_seconds, 0.10175, 1e-12);
  EXPECT_NEAR(node.samples_per_second, 512 / 0.10175, 1e-6);
  EXPECT_EQ(node.limit, "links in the node");
}

// 175 ms of communication, of which backward without its first bucket hides 45 ms.
TEST(NetworkModel, IsLimitedByTheSlowerLink) {
  const GpuEstimate size = estimate(kOne, kNetwork, kExchange, 64);

  EXPECT_EQ(size.nodes, 8);
  EXPECT_NEAR(size.exchange_seconds, 0.175, 1e-12);
  EXPECT_NEAR(size.exposed_seconds, 0.13, 1e-12);
  EXPECT_NEAR(size.efficiency, 0.1 / 0.23, 1e-12);
  EXPECT_NEAR(size.speed_up, 64 * 0.1 / 0.23, 1e-9);
  EXPECT_EQ(size.limit, "network");
}

TEST(NetworkModel, CostsNothingForOneGpu) {
  const GpuEstimate one = estimate(kOne, kNetwork, kExchange, 1);

  EXPECT_DOUBLE_EQ(one.step_seconds, 0.1);
  EXPECT_DOUBLE_EQ(one.exchange_seconds, 0);
  EXPECT_DOUBLE_EQ(one.efficiency, 1);
  EXPECT_EQ(one.limit, "computation");
}

TEST(NetworkModel, ExposesEverythingWithoutOverlap) {
  Exchange exchange = kExchange;
  exchange.backward_share = 0;

  EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 8).exposed_seconds, 0.0175, 1e-12);
  exchange.zero_stage = 3;
  EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 8).exposed_seconds, 0.02625, 1e-12);
}

// One bucket is ready at the end of backward only.
TEST(NetworkModel, HidesNothingOfOneBucket) {
  Exchange exchange = kExchange;
  exchange.bucket_bytes = 2e9;

  EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 8).exposed_seconds, 0.0175, 1e-12);
}

// Stages 1 and 2 gather the parameters after the update, stage 3 in forward and in backward.
TEST(NetworkModel, KnowsTheVolumesOfZero) {
  Exchange exchange = kExchange;
  for (const int stage : {1, 2}) {
    exchange.zero_stage = stage;
    EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 8).exchange_seconds, 0.0175, 1e-12);
    EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 8).exposed_seconds, 0.000875 + 0.00875, 1e-12);
    EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 64).exposed_seconds, 0.0425 + 0.0875, 1e-12);
  }
  exchange.zero_stage = 3;
  EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 64).exchange_seconds, 0.2625, 1e-12);
  EXPECT_NEAR(estimate(kOne, kNetwork, exchange, 64).exposed_seconds, 0.13 + 0.0425, 1e-12);
}

// Seven messages in a node and three between eight nodes, for each of ten buckets and both halves.
TEST(NetworkModel, PaysLatencyForEachMessageOfEachBucket) {
  Network network = kNetwork;
  network.message_seconds = 1e-3;

  EXPECT_NEAR(estimate(kOne, network, kExchange, 8).exchange_seconds, 0.0175 + 0.14, 1e-12);
  EXPECT_NEAR(estimate(kOne, network, kExchange, 64).exchange_seconds, 0.175 + 0.2, 1e-12);
  EXPECT_EQ(estimate(kOne, network, kExchange, 64).limit, "latency");
}

TEST(NetworkModel, ReachesAShareOfTheNominalRates) {
  Network network = kNetwork;
  network.reached_share = 0.5;

  EXPECT_NEAR(estimate(kOne, network, kExchange, 8).exchange_seconds, 0.035, 1e-12);
}

// sqrt(2 ln 8) = 2.0393 standard deviations of 2 ms.
TEST(NetworkModel, WaitsForTheSlowestGpu) {
  Exchange exchange = kExchange;
  exchange.jitter = 0.02;

  const GpuEstimate node = estimate(kOne, kNetwork, exchange, 8);
  EXPECT_NEAR(node.step_seconds, 0.10175 + 0.0040787, 1e-7);
  EXPECT_EQ(node.limit, "slowest GPU");
}

NetworkPrediction prediction() {
  NetworkPrediction all{.title = "predicted from one GPU, all-reduce"};
  for (const int gpus : {1, 8, 64, 512}) {
    all.sizes.push_back(estimate(kOne, kNetwork, kExchange, gpus));
  }
  all.assumptions = {{.name = "bandwidth of a node", .value = "80Gb/s", .source = "--network"},
                     {.name = "ZeRO stage", .value = "0", .source = "default"}};
  return all;
}

TEST(NetworkPrediction, IsATableWithItsAssumptions) {
  const std::string table = prediction_table(prediction());

  expect_golden(table, "scaling_network.txt");
  for (const std::string& line : split(table, '\n')) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(NetworkPrediction, IsCsvAndJson) {
  NetworkPrediction unknown = prediction();
  unknown.sizes[1].batch = 0;
  unknown.sizes[1].samples_per_second = 0;

  const std::vector<std::string> lines = split(trim(prediction_csv(unknown)), '\n');
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[2], "8,1,,,0.10175,7.86240786,0.982800983,0.0175,0.0171990172,links in the node");
  const auto json = nlohmann::json::parse(prediction_json(unknown));
  EXPECT_TRUE(json["sizes"][1]["samples_per_second"].is_null());
  EXPECT_EQ(json["sizes"][3]["gpus"], 512);
  EXPECT_EQ(json["assumptions"][0]["source"], "--network");
  EXPECT_EQ(json["simplifications"].size(), 5);
}

}  // namespace
}  // namespace lockstep::report
