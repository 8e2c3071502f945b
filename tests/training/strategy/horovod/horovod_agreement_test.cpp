// SPDX-License-Identifier: Apache-2.0
// The negotiation of -s horovod without communication: messages, cache, coordinator, fusion.
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "training/strategy/horovod/cache.h"
#include "training/strategy/horovod/coordinator.h"
#include "training/strategy/horovod/fusion.h"
#include "training/strategy/horovod/message.h"

namespace lockstep::strategy::horovod {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Pair;

Signature tensor(const std::string& name,
                 std::vector<int64_t> shape = {4},
                 c10::ScalarType type = c10::ScalarType::Float) {
  return {.name = name, .shape = std::move(shape), .type = type};
}

Request ready(const Signature& what, double waited = 0) {
  return {.kind = Request::Kind::Reduce, .tensor = what, .waited = waited};
}

std::vector<std::string> names(const std::vector<Response>& responses) {
  std::vector<std::string> result;
  for (const Response& response : responses) {
    result.push_back(response.tensor.name);
  }
  return result;
}

const Coordinator::Clock::time_point kStart{seconds(1000)};

TEST(Message, ComesBackAsItWasSent) {
  Request request = ready(tensor("a\nb", {2, 0, 7}, c10::ScalarType::Double), 1.5);
  request.tensor.operation = {
      .kind = Operation::Kind::Adasum, .wire = c10::ScalarType::Half, .before = 0.5, .after = 4};
  request.empty = true;
  const std::vector<Request> requests = {request, {.kind = Request::Kind::Join}};
  const std::vector<Response> responses = {
      {.kind = Response::Kind::Fault,
       .code = 64,
       .sentence = "no",
       .facts = {{"a", "b"}},
       .hint = "yes"},
      {.kind = Response::Kind::Tune, .fusion_bytes = 12, .cycle_ms = 3.5},
      {.kind = Response::Kind::Reduce, .tensor = request.tensor, .empty = true}};

  EXPECT_EQ(decode_requests(encode(requests)), requests);
  EXPECT_EQ(decode_responses(encode(responses)), responses);
  EXPECT_TRUE(decode_requests("").empty());
}

TEST(Message, IsRefusedWhenCutShort) {
  const std::string bytes = encode(std::vector<Request>{ready(tensor("weight"))});
  EXPECT_THROW(decode_requests(bytes.substr(0, bytes.size() - 1)), Error);
}

TEST(Cache, GivesThePlaceOfTheOneUnusedForLongest) {
  ResponseCache cache(2);
  cache.insert(tensor("a"));
  cache.insert(tensor("b"));
  cache.touch(*cache.find("a"));

  cache.insert(tensor("c"));

  EXPECT_EQ(cache.find("a"), 0);
  EXPECT_EQ(cache.find("b"), std::nullopt);
  EXPECT_EQ(cache.find("c"), 1);
  EXPECT_EQ(cache.slots(), 2);
}

TEST(Cache, FillsAPlaceThatBecameFree) {
  ResponseCache cache(3);
  cache.insert(tensor("a"));
  cache.insert(tensor("b"));
  cache.erase(0);

  cache.insert(tensor("c"));

  EXPECT_EQ(cache.find("a"), std::nullopt);
  EXPECT_EQ(cache.find("c"), 0);
  EXPECT_EQ(cache.at(1)->name, "b");
}

TEST(Cache, HoldsNothingWithoutRoom) {
  ResponseCache cache(0);
  cache.insert(tensor("a"));
  EXPECT_EQ(cache.slots(), 0);
}

TEST(Coordinator, LetsATensorGoWhenTheLastRankHasIt) {
  Coordinator coordinator(3, 60, 0);

  EXPECT_THAT(names(coordinator.take(
                  {{ready(tensor("a")), ready(tensor("b"))}, {ready(tensor("b"))}, {}}, kStart)),
              ElementsAre());
  EXPECT_THAT(names(coordinator.take({{}, {ready(tensor("a"))}, {ready(tensor("b"))}}, kStart)),
              ElementsAre("b"));
  EXPECT_THAT(names(coordinator.take({{}, {}, {ready(tensor("a"))}}, kStart)), ElementsAre("a"));
}

TEST(Coordinator, SaysThatATensorIsEmptyOnlyIfItIsOnAllRanks) {
  Request nothing = ready(tensor("a"));
  nothing.empty = true;
  Coordinator coordinator(2, 60, 0);

  EXPECT_TRUE(coordinator.take({{nothing}, {nothing}}, kStart).at(0).empty);
  EXPECT_FALSE(coordinator.take({{nothing}, {ready(tensor("a"))}}, kStart).at(0).empty);
}

struct Mismatch {
  Signature on_rank_1;
  const char* sentence;
  const char* rank_0_2;
  const char* rank_1;
};

TEST(Coordinator, NamesWhatDiffersAndOnWhichRank) {
  Signature as_half = tensor("fc1.weight", {3, 4});
  as_half.operation.wire = c10::ScalarType::Half;
  const Mismatch table[] = {{tensor("fc1.weight", {4, 4}),
                             "cannot reduce 'fc1.weight': Mismatched allreduce tensor shapes",
                             "[3, 4]",
                             "[4, 4]"},
                            {tensor("fc1.weight", {3, 4}, c10::ScalarType::Double),
                             "cannot reduce 'fc1.weight': Mismatched allreduce tensor types",
                             "Float",
                             "Double"},
                            {as_half,
                             "cannot reduce 'fc1.weight': Mismatched allreduce tensor operations",
                             "sum",
                             "sum as Half"}};
  for (const Mismatch& each : table) {
    const Request right = ready(tensor("fc1.weight", {3, 4}));
    const Response fault =
        Coordinator(3, 60, 0).take({{right}, {ready(each.on_rank_1)}, {right}}, kStart).at(0);
    EXPECT_EQ(fault.kind, Response::Kind::Fault);
    EXPECT_EQ(fault.sentence, each.sentence);
    EXPECT_THAT(fault.facts,
                ElementsAre(Pair("ranks 0, 2", each.rank_0_2), Pair("rank 1", each.rank_1)));
  }
}

TEST(Coordinator, ReportsTensorWaitingRanksAndMissingRanks) {
  Coordinator coordinator(3, 60, 0);
  coordinator.take({{ready(tensor("fc1.weight"))}, {}, {ready(tensor("fc1.weight"))}}, kStart);

  EXPECT_EQ(coordinator.find_stall(kStart + seconds(59)), std::nullopt);
  EXPECT_EQ(coordinator.find_stall(kStart + seconds(60)),
            "stalled: some workers wait for tensors that others have not announced\n"
            "  fc1.weight: ready on ranks 0, 2; missing on rank 1 for 60 s");
  EXPECT_EQ(coordinator.find_stall(kStart + seconds(100)), std::nullopt);
  EXPECT_TRUE(coordinator.find_stall(kStart + seconds(120)).has_value());
}

TEST(Coordinator, CountsTheTimeThatATensorHadWaitedBefore) {
  Coordinator coordinator(2, 60, 0);
  coordinator.take({{ready(tensor("a"), 61)}, {}}, kStart);
  EXPECT_TRUE(coordinator.find_stall(kStart).has_value());
}

TEST(Coordinator, EndsAStallThatLastsTooLong) {
  Coordinator coordinator(2, 60, 90);
  coordinator.take({{}, {ready(tensor("a"))}}, kStart);

  EXPECT_EQ(coordinator.find_shutdown(kStart + seconds(89)), std::nullopt);
  const auto fault = coordinator.find_shutdown(kStart + seconds(90));
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->sentence, "exchange of gradients stalled for more than 90 s");
  EXPECT_THAT(fault->facts, ElementsAre(Pair("a", "ready on rank 1; missing on rank 0 for 90 s")));
}

TEST(Coordinator, NeitherReportsNorEndsAStallIfDisabled) {
  Coordinator coordinator(2, 0, 0);
  coordinator.take({{}, {ready(tensor("a"))}}, kStart);
  EXPECT_EQ(coordinator.find_stall(kStart + seconds(10000)), std::nullopt);
  EXPECT_EQ(coordinator.find_shutdown(kStart + seconds(10000)), std::nullopt);
}

TEST(Coordinator, DoesNotWaitForAWorkerThatHasJoined) {
  const Request join{.kind = Request::Kind::Join};
  Coordinator coordinator(2, 60, 0);

  coordinator.take({{ready(tensor("a"))}, {}}, kStart);
  EXPECT_THAT(names(coordinator.take({{}, {join}}, kStart)), ElementsAre("a"));
  EXPECT_THAT(names(coordinator.take({{ready(tensor("b"))}, {}}, kStart)), ElementsAre("b"));
  const Response last = coordinator.take({{join}, {}}, kStart).at(0);
  EXPECT_EQ(last.kind, Response::Kind::AllJoined);
  EXPECT_EQ(last.rank, 0);
  // Afterwards all ranks take part again.
  EXPECT_THAT(names(coordinator.take({{ready(tensor("c"))}, {}}, kStart)), ElementsAre());
}

TEST(Fusion, FillsTheBufferInOrderAndSetsOtherTypesApart) {
  const auto kDouble = c10::ScalarType::Double;
  const std::vector<Signature> tensors = {tensor("a", {4}),
                                          tensor("b", {2}, kDouble),
                                          tensor("c", {4}),
                                          tensor("d", {4}),
                                          tensor("e", {1}, kDouble)};

  EXPECT_THAT(plan_fusion(tensors, 32),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4), ElementsAre(3)));
  EXPECT_THAT(
      plan_fusion(tensors, 0),
      ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(4)));
}

TEST(Fusion, CountsTheBytesThatTravel) {
  Signature half = tensor("a", {4});
  half.operation.wire = c10::ScalarType::Half;
  EXPECT_EQ(half.wire_bytes(), 8);
  EXPECT_THAT(plan_fusion({half, half}, 16), ElementsAre(ElementsAre(0, 1)));
}

}  // namespace
}  // namespace lockstep::strategy::horovod
