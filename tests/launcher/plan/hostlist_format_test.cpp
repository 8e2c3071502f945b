// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/hostlist_format.h"

#include <gmock/gmock.h>
#include <vector>

#include "common/cluster/hosts.h"

namespace lockstep::plan {
namespace {

TEST(FoldNames, WritesNeighboursAsSlurmDoes) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, ""},
      {{"n1"}, "n1"},
      {{"n1", "n2"}, "n[1-2]"},
      {{"n1", "n2", "n4"}, "n[1-2,4]"},
      {{"n08", "n09", "n10", "login"}, "n[08-10],login"},
      {{"n9", "n10"}, "n[9-10]"},
      {{"n09", "n010"}, "n[09,010]"},
      {{"n2", "n1"}, "n[2,1]"},
      {{"a1", "b1", "a2"}, "a1,b1,a2"},
      {{"rack1-n1", "rack1-n2"}, "rack1-n[1-2]"},
      {{"alpha", "beta"}, "alpha,beta"},
      {{"n12345678901"}, "n12345678901"},
  };
  for (const auto& [names, text] : cases) {
    EXPECT_EQ(to_hostlist(names), text);
    if (!names.empty()) {
      EXPECT_EQ(cluster::expand_hostlist(text), names);
    }
  }
}

}  // namespace
}  // namespace lockstep::plan
