// SPDX-License-Identifier: Apache-2.0
#include "contract/worker_env.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

WorkerPlace place_on_second_node() {
  return {.rank = 5,
          .world_size = 8,
          .local_rank = 1,
          .local_world_size = 4,
          .node_rank = 1,
          .nodes = 2,
          .master_addr = "10.0.0.1",
          .master_port = 29400,
          .interface = "ib0",
          .run_id = "mnist-1",
          .run_directory = "/runs/mnist-1",
          .attempt = 2,
          .max_restarts = 3};
}

TEST(WorkerEnv, TellsAPlaceThatIsReadBack) {
  EXPECT_EQ(find_place(to_environment(place_on_second_node())), place_on_second_node());
  EXPECT_EQ(find_place(to_environment({})), WorkerPlace{});
}

TEST(WorkerEnv, SpeaksToTorchrunsPrograms) {
  const os::Environment variables = to_environment(place_on_second_node());

  EXPECT_THAT(variables, Contains(Pair("RANK", "5")));
  EXPECT_THAT(variables, Contains(Pair("GROUP_RANK", "1")));
  EXPECT_THAT(variables, Contains(Pair("ROLE_WORLD_SIZE", "8")));
  EXPECT_THAT(variables, Contains(Pair("TORCHELASTIC_RESTART_COUNT", "2")));
  EXPECT_THAT(variables, Contains(Pair("TORCHELASTIC_RUN_ID", "mnist-1")));
}

TEST(WorkerEnv, NeedsNoMoreThanRankAndWorldSize) {
  const auto place = find_place({{"RANK", "1"}, {"WORLD_SIZE", "2"}});

  ASSERT_TRUE(place);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_world_size, 2);
  EXPECT_EQ(place->nodes, 1);
  EXPECT_EQ(place->master_addr, "127.0.0.1");
  EXPECT_EQ(place->master_port, 29500);
}

TEST(WorkerEnv, TellsNothingWithoutRankAndWorldSize) {
  EXPECT_EQ(find_place({{"LOCAL_RANK", "0"}, {"MASTER_ADDR", "10.0.0.1"}}), std::nullopt);
}

TEST(WorkerEnv, PlacesAGangOfOneInTheRunDirectoryItIsGiven) {
  const WorkerPlace place = place_alone({{"LOCKSTEP_RUN_DIR", "/runs/a"}, {"RANK", "7"}});

  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 1);
  EXPECT_EQ(place.run_directory, "/runs/a");
}

TEST(WorkerEnv, NamesTheVariableThatDoesNotParse) {
  for (const char* text : {"", "one", "-1", "1.0", "9999999"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(
        [&] {
          find_place({{"RANK", text}, {"WORLD_SIZE", "2"}});
        },
        ThrowsMessage<Error>(
            AllOf(HasSubstr(std::string("cannot read RANK='") + text), HasSubstr("unset RANK"))));
  }
}

TEST(WorkerEnv, NamesBothVariablesThatContradict) {
  EXPECT_THAT(
      [] {
        find_place({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("RANK:"), HasSubstr("WORLD_SIZE:"))));
  EXPECT_THAT(
      [] {
        find_place(
            {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("LOCAL_RANK:"), HasSubstr("LOCAL_WORLD_SIZE:"))));
}

TEST(WorkerEnv, NamesTheOneThatIsMissing) {
  EXPECT_THAT(
      [] {
        find_place({{"RANK", "2"}});
      },
      ThrowsMessage<Error>(HasSubstr("missing: WORLD_SIZE")));
  EXPECT_THAT(
      [] {
        find_place({{"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(HasSubstr("missing: RANK")));
}

}  // namespace
}  // namespace lockstep::contract
