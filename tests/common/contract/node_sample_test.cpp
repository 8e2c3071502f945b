// SPDX-License-Identifier: Apache-2.0
#include "common/contract/node_sample.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

NodeSample some_sample() {
  GpuSample gpu{.index = 1, .uuid = "GPU-1a", .name = "NVIDIA H200", .bus_id = "00000000:1B:00.0"};
  gpu.utilisation = 0.93;
  gpu.memory_bytes = 12'000'000'000;
  gpu.power_watts = 612.5;
  gpu.xid = 79;
  return {.time = 1700000000.25,
          .node = 2,
          .host = "gpu-03",
          .cores = 7.5,
          .granted = 16,
          .memory_bytes = 5'000'000'000,
          .memory_limit_bytes = 64'000'000'000,
          .interfaces = {{.name = "ib0", .received_bytes = 1 << 20, .sent_bytes = 7}},
          .gpus = {gpu, {.index = 3}},
          .no_gpus = "",
          .workers = {{.rank = 4,
                       .pid = 4711,
                       .cores = 1.25,
                       .memory_bytes = 1'000'000,
                       .read_bytes = 5,
                       .written_bytes = 6,
                       .gpus = {1}}}};
}

TEST(NodeSample, ComesBackAsItWent) {
  EXPECT_EQ(parse_node_sample(to_json(some_sample())), some_sample());
  NodeSample bare{.time = 3, .node = 0, .host = "here"};
  bare.no_gpus = "no driver";
  EXPECT_EQ(parse_node_sample(to_json(bare)), bare);
}

TEST(NodeSample, LeavesOutWhatTheDriverDoesNotTell) {
  const std::string line = to_json(some_sample());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find("temperature"), std::string::npos);
}

TEST(NodeSample, LeavesUnknownFieldsAlone) {
  EXPECT_EQ(parse_node_sample(R"({"event":"node","time":1,"node":5,"later":[1]})").node, 5);
}

TEST(NodeSample, RefusesWhatIsNone) {
  EXPECT_THAT([] { parse_node_sample(R"({"event":"step","time":1,"rank":5})"); },
              ThrowsMessage<Error>(HasSubstr("cannot read a node sample")));
  EXPECT_THAT([] { parse_node_sample(R"({"event":"node","time":1,"no)"); },
              ThrowsMessage<Error>(HasSubstr("cannot read a node sample")));
}

}  // namespace
}  // namespace lockstep::contract
