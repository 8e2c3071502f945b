// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <gmock/gmock.h>

namespace lockstep::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Report, HasNoColumnsOfAPeerThatDidNotRun) {
  const std::string table = format_rows({{"tokens/s", 600123.4, std::nullopt, 0}});
  EXPECT_THAT(table, HasSubstr("600 123"));
  EXPECT_THAT(table, Not(HasSubstr("ratio")));
}

TEST(Report, DividesOursByTheirs) {
  const std::string table =
      format_rows({{"ms per step", 100, 125.0, 2}, {"peak memory", 1, std::nullopt, 1}}, "PyTorch");
  EXPECT_THAT(table, HasSubstr("100.00    125.00   0.80"));
  EXPECT_THAT(table, HasSubstr("1.0       -        -"));
}

}  // namespace
}  // namespace lockstep::bench
