// SPDX-License-Identifier: Apache-2.0
#include "common/os/processors.h"

#include <gmock/gmock.h>

namespace lockstep::os {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(Processors, AreNumberedUpwards) {
  const std::vector<int> numbers = usable_processor_numbers();

  EXPECT_THAT(numbers, Not(IsEmpty()));
  EXPECT_THAT(numbers, SizeIs(static_cast<size_t>(usable_processors())));
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST(Processors, AreWrittenAsRanges) {
  EXPECT_EQ(format_processors({}), "");
  EXPECT_EQ(format_processors({3}), "3");
  EXPECT_EQ(format_processors({3, 1, 2, 8}), "1-3,8");
  EXPECT_EQ(format_processors({0, 1, 4, 6, 7, 7}), "0-1,4,6-7");
}

TEST(ProcessorMask, KnowsWhetherItNamesAny) {
  EXPECT_TRUE(ProcessorMask({}).is_empty());
  EXPECT_FALSE(ProcessorMask({1000}).is_empty());
}

TEST(ProcessorMask, SetsThisThreadsProcessors) {
  const std::vector<int> before = usable_processor_numbers();

  EXPECT_TRUE(ProcessorMask({before.front()}).apply());
  EXPECT_EQ(usable_processor_numbers(), std::vector<int>{before.front()});

  EXPECT_TRUE(ProcessorMask(before).apply());
  EXPECT_EQ(usable_processor_numbers(), before);
}

}  // namespace
}  // namespace lockstep::os
