// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <regex>
#include <string>

namespace lockstep {

// Expects the four lines that `distributed_worker --do drift` prints, each with a difference of no
// more than rounding, and with parameters that are identical on all ranks.
inline void expect_small_drift(const std::string& output) {
  const std::regex line(R"(drift \d+ workers (\w+) .* relative (\S+) (\w+))");
  int lines = 0;
  for (std::sregex_iterator it(output.begin(), output.end(), line), end; it != end; ++it) {
    EXPECT_LE(std::stod((*it)[2]), (*it)[1] == "Double" ? 1e-10 : 1e-5) << it->str();
    EXPECT_EQ((*it)[3], "identical") << it->str();
    ++lines;
  }
  EXPECT_EQ(lines, 4) << output;
}

}  // namespace lockstep
