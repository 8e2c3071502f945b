// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "training/strategy/horovod/options.h"

namespace lockstep::strategy::horovod {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "no Error";
}

TEST(HorovodVariables, AreReadUnderHorovodsOwnNames) {
  const HorovodOptions options =
      with_environment({},
                       {{"HOROVOD_FUSION_THRESHOLD", "33554432"},
                        {"HOROVOD_CYCLE_TIME", "3.5"},
                        {"HOROVOD_CACHE_CAPACITY", "0"},
                        {"HOROVOD_TIMELINE", "t.json"},
                        {"HOROVOD_TIMELINE_MARK_CYCLES", "1"},
                        {"HOROVOD_STALL_CHECK_TIME_SECONDS", "30"},
                        {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "90"},
                        {"HOROVOD_AUTOTUNE", "1"},
                        {"HOROVOD_AUTOTUNE_LOG", "a.csv"},
                        {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"},
                        {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "5"},
                        {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "7"},
                        {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.25"}});

  EXPECT_EQ(options.fusion_bytes, 33554432);
  EXPECT_EQ(options.cycle_ms, 3.5);
  EXPECT_EQ(options.cache_capacity, 0);
  EXPECT_EQ(options.timeline, "t.json");
  EXPECT_TRUE(options.mark_cycles);
  EXPECT_EQ(options.stall_warning, 30);
  EXPECT_EQ(options.stall_shutdown, 90);
  EXPECT_TRUE(options.autotune);
  EXPECT_EQ(options.autotune_log, "a.csv");
  EXPECT_EQ(options.autotune_warmup_samples, 1);
  EXPECT_EQ(options.autotune_steps_per_sample, 5);
  EXPECT_EQ(options.autotune_max_samples, 7);
  EXPECT_EQ(options.autotune_noise, 0.25);
}

TEST(HorovodVariables, LeaveTheOptionsAsTheyAreWhenUnset) {
  const HorovodOptions options =
      with_environment({.fusion_bytes = 5, .timeline = "own.json"}, {{"HOME", "/"}});
  EXPECT_EQ(options.fusion_bytes, 5);
  EXPECT_EQ(options.timeline, "own.json");
  EXPECT_EQ(options.stall_warning, 10);
}

TEST(HorovodVariables, SwitchTheStallCheckOff) {
  const HorovodOptions options =
      with_environment({.stall_shutdown = 9}, {{"HOROVOD_STALL_CHECK_DISABLE", "1"}});
  EXPECT_EQ(options.stall_warning, 0);
  EXPECT_EQ(options.stall_shutdown, 0);
}

TEST(HorovodVariables, AreNamedWhenTheirValueMakesNoSense) {
  const std::vector<std::pair<const char*, const char*>> bad = {
      {"HOROVOD_FUSION_THRESHOLD", "64MB"},
      {"HOROVOD_FUSION_THRESHOLD", "-1"},
      {"HOROVOD_CYCLE_TIME", ""},
      {"HOROVOD_CYCLE_TIME", "nan"},
      {"HOROVOD_CACHE_CAPACITY", "1.5"},
      {"HOROVOD_AUTOTUNE", "yes"},
      {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "0"},
      {"HOROVOD_STALL_CHECK_TIME_SECONDS", "-3"}};
  for (const auto& [name, value] : bad) {
    EXPECT_THAT(message_of([&, key = name, text = value] {
                  with_environment({}, {{key, text}});
                }),
                ::testing::StartsWith(std::string("invalid value for ") + name));
  }
  EXPECT_EQ(message_of([] {
              with_environment({}, {{"HOROVOD_CYCLE_TIME", "fast"}});
            }),
            "invalid value for HOROVOD_CYCLE_TIME\n"
            "  expected: a number of at least 0\n"
            "  found:    'fast'  (environment)\n"
            "  try:      unset HOROVOD_CYCLE_TIME");
  EXPECT_EQ(message_of([] {
              with_environment({}, {{"HOROVOD_TIMELINE", "DYNAMIC"}});
            }),
            "the timeline cannot be started during training\n"
            "  found: HOROVOD_TIMELINE=DYNAMIC  (environment)\n"
            "  try:   HOROVOD_TIMELINE=timeline.json");
}

TEST(HorovodVariables, AreListedWhenTheyMeanNothingHere) {
  EXPECT_THAT(ignored_variables({{"HOROVOD_NUM_NCCL_STREAMS", "2"},
                                 {"HOROVOD_CYCLE_TIME", "2"},
                                 {"HOROVOD_HIERARCHICAL_ALLGATHER", "1"},
                                 {"HOROVOD_CONTROLLER", "gloo"}}),
              ElementsAre("HOROVOD_HIERARCHICAL_ALLGATHER", "HOROVOD_NUM_NCCL_STREAMS"));
  EXPECT_THAT(ignored_variables({{"HOROVOD_CYCLE_TIME", "2"}}), IsEmpty());
}

TEST(HorovodOptions, AreRefusedWhereTheyMakeNoSense) {
  EXPECT_EQ(message_of([] { require_sense({.horovod = {.reduction = "avrage"}}, 2); }),
            "unknown reduction 'avrage'\n"
            "  requested: --reduction avrage  (command line)\n"
            "  available: average, sum, adasum\n"
            "  try:       --reduction average");
  EXPECT_EQ(message_of([] { require_sense({.compression = Compression::PowerSgd}, 2); }),
            "-s horovod does not support PowerSGD\n"
            "  requested: --compression powersgd  (command line)\n"
            "  try:       -s ddp --compression powersgd, or --compression bf16");
  EXPECT_EQ(message_of([] { require_sense({.horovod = {.reduction = "adasum"}}, 3); }),
            "Adasum needs 2, 4, 8, 16 ... workers, not 3\n"
            "  requested: --reduction adasum  (command line)\n"
            "  expected:  2, 4, 8, 16 ... workers\n"
            "  try:       another number of workers, or --reduction average");
  EXPECT_EQ(message_of(
                [] { require_sense({.horovod = {.reduction = "sum", .predivide_factor = 2}}, 2); }),
            "--gradient-predivide-factor cannot be used with --reduction sum\n"
            "  requested: --gradient-predivide-factor 2  (command line)\n"
            "  try:       --reduction average");
  EXPECT_EQ(message_of([] { require_sense({.horovod = {.predivide_factor = 0}}, 2); }),
            "--gradient-predivide-factor must be above 0, not 0\n"
            "  expected: a number above 0\n"
            "  try:      --gradient-predivide-factor 2");
  EXPECT_EQ(message_of([] { require_sense({.horovod = {.cycle_ms = -1}}, 2); }),
            "-s horovod does not accept a cycle time of -1 ms\n"
            "  expected: a number of at least 0\n"
            "  try:      --cycle-time-ms 1");
  EXPECT_THAT(message_of([] { require_sense({.horovod = {.fusion_bytes = -2}}, 2); }),
              HasSubstr("does not accept a fusion buffer of -2 bytes\n"));
  EXPECT_THAT(message_of([] { require_sense({.horovod = {.cache_capacity = -3}}, 2); }),
              HasSubstr("does not accept a cache of -3 tensors\n"));
  EXPECT_NO_THROW(require_sense({.horovod = {.reduction = "adasum"}}, 4));
}

}  // namespace
}  // namespace lockstep::strategy::horovod
