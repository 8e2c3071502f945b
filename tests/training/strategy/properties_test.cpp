// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/properties.h"

#include <gmock/gmock.h>

#include "lockstep/strategy.h"
#include "training/comm/solo.h"

namespace lockstep::strategy {
namespace {

using ::testing::ElementsAre;

TEST(Properties, AreAskedByNameInTheOrderOfTheHelpText) {
  EXPECT_THAT(names_with(&Properties::has_find_unused), ElementsAre("ddp", "deepspeed"));
  EXPECT_THAT(names_with(&Properties::has_compression), ElementsAre("ddp", "horovod", "mirrored"));
  EXPECT_THAT(names_with(&Properties::has_buckets), ElementsAre("ddp", "deepspeed", "mirrored"));
  EXPECT_EQ(name_with(&Properties::has_zero_stages), "deepspeed");
  EXPECT_TRUE(has("mirrored", &Properties::can_record_step));
  EXPECT_FALSE(has("ddp", &Properties::can_record_step));
}

TEST(Properties, AreThoseOfNoneWithoutAName) {
  EXPECT_FALSE(has(std::optional<std::string>(), &Properties::has_overlap));
  EXPECT_FALSE(has("ddpp", &Properties::has_overlap));
}

// Every strategy except the one for a single worker exchanges gradients in some way that an option
// controls, so a strategy without any property has no row.
TEST(Properties, ExistForEveryStrategy) {
  for (const std::string& name : contract::strategy_names()) {
    EXPECT_TRUE(has(name, &Properties::is_for_one_worker) || has(name, &Properties::has_overlap) ||
                has(name, &Properties::has_buckets))
        << name;
  }
}

TEST(Properties, NameTheDefaultThatCanBeMade) {
  comm::Solo solo;
  EXPECT_EQ(make_strategy(default_name(1), solo)->name(), "single");
  EXPECT_EQ(default_name(2), "ddp");
}

}  // namespace
}  // namespace lockstep::strategy
