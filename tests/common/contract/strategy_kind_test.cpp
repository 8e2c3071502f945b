// SPDX-License-Identifier: Apache-2.0
#include "common/contract/strategy_kind.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(StrategyKind, IsReadByTheNameItWrites) {
  EXPECT_THAT(strategy_names(), Contains("ddp"));
  for (const std::string& name : strategy_names()) {
    EXPECT_EQ(name_of(parse_strategy(name)), name);
  }
}

TEST(StrategyKind, ListsTheOthersWhenThereIsNoneOfThatName) {
  EXPECT_THAT([] { parse_strategy("ddpp"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("unknown strategy 'ddpp'"),
                                         HasSubstr("available: single, ddp"),
                                         HasSubstr("try:       -s ddp"))));
}

TEST(StrategyKind, HasPropertiesThatTheLauncherAsksFor) {
  EXPECT_THAT(distributed_strategy_names(), ElementsAre("ddp", "horovod", "deepspeed", "mirrored"));
  EXPECT_THAT(itwinai_strategy_names(), ElementsAre("ddp", "deepspeed", "horovod"));
  EXPECT_TRUE(has_zero_stage("deepspeed"));
  EXPECT_FALSE(has_zero_stage("ddp"));
  EXPECT_FALSE(has_zero_stage("fsdp"));
  EXPECT_FALSE(supports_py_spy("horovod"));
  EXPECT_TRUE(supports_py_spy("ddp"));
}

}  // namespace
}  // namespace lockstep::contract
