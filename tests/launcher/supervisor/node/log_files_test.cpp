// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/node/log_files.h"

#include <gmock/gmock.h>

namespace lockstep::supervisor {
namespace {

contract::WorkerSpec spec(int local_rank, int nodes = 1, int node_rank = 0) {
  contract::WorkerSpec spec;
  spec.local_rank = local_rank;
  spec.local_world_size = 4;
  spec.rank = node_rank * 4 + local_rank;
  spec.world_size = nodes * 4;
  spec.nodes = nodes;
  spec.node_rank = node_rank;
  spec.run_id = "job1";
  spec.run_directory = "/runs/job1";
  spec.attempt = 2;
  return spec;
}

plan::StreamRule bits(int fallback, std::map<int, int> by_local = {}) {
  return {.fallback = fallback, .by_local = std::move(by_local)};
}

plan::OutputRules torchrun_rules(plan::StreamRule redirects, plan::StreamRule tee) {
  plan::OutputRules rules;
  rules.log_dir = "/logs";
  rules.redirects = std::move(redirects);
  rules.tee = std::move(tee);
  return rules;
}

TEST(LogFiles, AreOneLogInTheRunDirectoryUnlessMoreIsAsked) {
  const LogFiles files = log_files({}, spec(3));

  EXPECT_EQ(files.log, "/runs/job1/logs/attempt-2/rank-3.log");
  EXPECT_EQ(files.streams[0], LogFiles::OfStream{});
  EXPECT_EQ(files.streams[1], LogFiles::OfStream{});
}

TEST(LogFiles, FollowTorchrunsRules) {
  struct Case {
    plan::StreamRule redirects;
    plan::StreamRule tee;
    std::string out;
    bool shows_out;
    std::string err;
    bool shows_err;
  };
  const std::string base = "/logs/job1/attempt_2/1/";
  const std::vector<Case> cases = {
      {bits(0), bits(0), "", true, "", true},
      {bits(3), bits(0), base + "stdout.log", false, base + "stderr.log", false},
      {bits(0), bits(3), base + "stdout.log", true, base + "stderr.log", true},
      {bits(1), bits(2), base + "stdout.log", false, base + "stderr.log", true},
      {bits(3), bits(1), base + "stdout.log", true, base + "stderr.log", false},
      {bits(0, {{0, 3}}), bits(0), "", true, "", true},
      {bits(3, {{1, 2}}), bits(0), "", true, base + "stderr.log", false},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const LogFiles files = log_files(torchrun_rules(cases[i].redirects, cases[i].tee), spec(1));
    EXPECT_EQ(files.streams[0].torchrun, cases[i].out);
    EXPECT_EQ(files.streams[0].is_shown, cases[i].shows_out);
    EXPECT_EQ(files.streams[1].torchrun, cases[i].err);
    EXPECT_EQ(files.streams[1].is_shown, cases[i].shows_err);
    EXPECT_EQ(files.log, "/runs/job1/logs/attempt-2/rank-1.log");
  }
}

TEST(LogFiles, KeepNodesApart) {
  const LogFiles files = log_files(torchrun_rules(bits(1), bits(0)), spec(1, 2, 1));

  EXPECT_EQ(files.streams[0].torchrun, "/logs/job1_1/attempt_2/1/stdout.log");
}

TEST(LogFiles, AreNeededNowhereToKeepAStreamOffTheConsole) {
  plan::OutputRules rules;
  rules.redirects = bits(1);
  const LogFiles files = log_files(rules, spec(0));

  EXPECT_EQ(files.streams[0].torchrun, "");
  EXPECT_FALSE(files.streams[0].is_shown);
  EXPECT_TRUE(files.streams[1].is_shown);
}

TEST(LogFiles, LetOnlyFilteredRanksThrough) {
  plan::OutputRules rules;
  rules.local_ranks_filter = {0, 2};

  EXPECT_TRUE(log_files(rules, spec(2)).streams[1].is_shown);
  EXPECT_FALSE(log_files(rules, spec(1)).streams[0].is_shown);
}

TEST(LogFiles, FollowHorovodrunsNames) {
  plan::OutputRules rules;
  rules.output_filename = "/out";
  const LogFiles files = log_files(rules, spec(1, 3, 1));

  EXPECT_EQ(files.streams[0].horovod, "/out/rank.05/stdout");
  EXPECT_EQ(files.streams[1].horovod, "/out/rank.05/stderr");
  EXPECT_TRUE(files.streams[0].is_shown);
}

}  // namespace
}  // namespace lockstep::supervisor
