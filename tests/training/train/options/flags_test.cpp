// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/flags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "training/train/options/defaults.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const Program& program() {
  static const Program kProgram{.about = "Train something",
                                .options = {{"--net", "cnn", "The network", {"cnn", "mlp"}},
                                            {"--weights", "", "Initial weights"},
                                            {"--quick", "no", "Less of everything"}}};
  return kProgram;
}

Flags parse(std::vector<const char*> words) {
  words.insert(words.begin(), "bin/mnist");
  std::string help;
  return parse_flags(static_cast<int>(words.size()), words.data(), program(), help).value();
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "no Error";
}

TEST(Flags, LeaveToTheProgramWhatTheUserDoesNotSay) {
  const Flags flags = parse({});
  const TrainerOptions options = resolve({.epochs = 7, .global_batch = 96}, flags, 2);

  EXPECT_EQ(options.epochs, 7);
  EXPECT_EQ(options.global_batch, 96);
  EXPECT_EQ(flags.program.at("--net"), "cnn");
  EXPECT_EQ(flags.program.at("--quick"), "no");
}

TEST(Flags, OverrideTheProgram) {
  const Flags flags = parse({"--epochs",
                             "3",
                             "--net",
                             "mlp",
                             "--quick",
                             "--tail",
                             "pad",
                             "--steps",
                             "40",
                             "--schedule",
                             "cosine",
                             "--keep",
                             "5",
                             "--keep-for",
                             "12h",
                             "--no-checkpoint-async"});
  const TrainerOptions options = resolve({.epochs = 7}, flags, 2);

  EXPECT_EQ(options.epochs, 3);
  EXPECT_EQ(options.steps, 40);
  EXPECT_EQ(options.tail, Tail::Pad);
  EXPECT_EQ(options.schedule, "cosine");
  EXPECT_EQ(options.keep_checkpoints, 5);
  EXPECT_EQ(options.keep_checkpoints_for, 12 * 3600);
  EXPECT_FALSE(options.checkpoint_async);
  EXPECT_EQ(flags.program.at("--net"), "mlp");
  EXPECT_EQ(flags.program.at("--quick"), "yes");
}

TEST(Flags, CountTheThreadsOfTheLoaderByEitherName) {
  const auto threads = [](const std::vector<const char*>& words, int fallback) {
    return resolve({.loader_threads = fallback}, parse(words), 1).loader_threads;
  };

  EXPECT_EQ(threads({}, -1), -1);
  EXPECT_EQ(threads({"--loader-threads", "3"}, -1), 3);
  EXPECT_EQ(threads({"--num-workers", "0"}, -1), 0);
  EXPECT_EQ(threads({"--num-workers=auto"}, 1), -1);
  EXPECT_EQ(message_of([&] {
              threads({"--num-workers", "many"}, 1);
            }),
            "--loader-threads \"many\" is not a valid value\n"
            "  expected: a number of threads up to 4096, 0 for none, or auto\n"
            "  try:      --loader-threads auto");
  EXPECT_THAT(message_of([&] { threads({"--num-workers=-1"}, 1); }), HasSubstr("--loader-threads"));
}

TEST(Flags, MultiplyTheBatchOfAWorkerOut) {
  EXPECT_EQ(resolve({}, parse({"--batch-size", "32"}), 3).global_batch, 96);
}

struct BadLine {
  std::vector<const char*> words;
  const char* message;
};

TEST(Flags, RefuseWhatMakesNoSense) {
  const std::vector<BadLine> lines = {
      {{"-s", "ddpp"},
       "unknown strategy 'ddpp'\n"
       "  requested: -s ddpp  (command line)\n"
       "  available: single, ddp, horovod, deepspeed, mirrored\n"
       "  try:       -s ddp"},
      {{"--batch-size", "0"},
       "--batch-size 0 is out of range\n"
       "  expected: an integer of at least 1\n"
       "  found:    0  (command line)\n"
       "  try:      --batch-size 32"},
      {{"--epochs", "-1"},
       "--epochs -1 is out of range\n"
       "  expected: an integer of at least 1\n"
       "  found:    -1  (command line)\n"
       "  try:      --epochs 32"},
      {{"--global-batch", "64", "--batch-size", "32"},
       "--global-batch conflicts with --batch-size\n"
       "  --global-batch: 64  (command line)\n"
       "  --batch-size:   32 per worker  (command line)\n"
       "  try:            --global-batch 64"},
      {{"--global-batch", "3", "--accumulate", "2"},
       "cannot split 3 samples among 2 workers x 2 micro-batches\n"
       "  --global-batch: 3\n"
       "  workers:        2\n"
       "  --accumulate:   2\n"
       "  try:            --global-batch 4"},
      {{"--epoch", "3"},
       "unknown argument '--epoch'\n"
       "  found: --epoch  (command line)\n"
       "  try:   --epochs"},
      {{"--net", "mpl"},
       "--net 'mpl' is not a valid value\n"
       "  expected: cnn, mlp\n"
       "  try:      --net mlp"},
      {{"--device", "cdua"},
       "--device 'cdua' is not a valid value\n"
       "  expected: auto, cpu, cuda\n"
       "  try:      --device cuda"},
      {{"--keep-for", "12"},
       "--keep-for \"12\" is not a duration\n"
       "  requested: --keep-for 12  (command line)\n"
       "  try:       --keep-for 90s, 30m, 12h or 7d"},
      {{"--tail", "keep"},
       "--tail 'keep' is not a valid value\n"
       "  expected: drop, pad\n"
       "  try:      --tail drop"},
  };
  for (const BadLine& line : lines) {
    SCOPED_TRACE(line.words.front());
    EXPECT_EQ(message_of([&] { resolve({}, parse(line.words), 2); }), line.message);
  }
  EXPECT_THAT(message_of([&] { parse({"--epochs", "many"}); }), HasSubstr("invalid command line"));
}

TEST(Flags, RefuseNumbersThatMakeNoSense) {
  const std::vector<BadLine> lines = {
      {{"--bucket-mb", "0"},
       "--bucket-mb 0 is out of range\n"
       "  expected: a number above 0\n"
       "  found:    0  (command line)\n"
       "  try:      --bucket-mb 25"},
      {{"--clip", "-1"},
       "--clip -1 is out of range\n"
       "  expected: a number of at least 0\n"
       "  found:    -1  (command line)\n"
       "  try:      --clip 1"},
      {{"--timeout", "inf"},
       "--timeout inf is out of range\n"
       "  expected: a number above 0, at most 1e+09\n"
       "  found:    inf  (command line)\n"
       "  try:      --timeout 600"},
      {{"--powersgd-rank", "0"},
       "--powersgd-rank 0 is out of range\n"
       "  expected: an integer of at least 1\n"
       "  found:    0  (command line)\n"
       "  try:      --powersgd-rank 1"},
      {{"--powersgd-start", "-5"},
       "--powersgd-start -5 is out of range\n"
       "  expected: an integer of at least 0\n"
       "  found:    -5  (command line)\n"
       "  try:      --powersgd-start 10"},
      {{"--early-stop", "0"},
       "--early-stop 0 is out of range\n"
       "  expected: an integer of at least 1\n"
       "  found:    0  (command line)\n"
       "  try:      --early-stop 3"},
      {{"--epochs", "1000000001"},
       "--epochs 1000000001 is out of range\n"
       "  expected: an integer of at most 1000000000\n"
       "  found:    1000000001  (command line)\n"
       "  try:      --epochs 32"},
      {{"--global-batch", "99999999999999999999"},
       "--global-batch 9223372036854775807 or more is out of range\n"
       "  expected: an integer of at most 1000000000\n"
       "  found:    9223372036854775807 or more  (command line)\n"
       "  try:      --global-batch 32"},
      {{"--ema", "nan"},
       "--ema nan is out of range\n"
       "  expected: a decay from 0 (no average) to below 1\n"
       "  try:      --ema 0.999"},
      {{"--momentum", "2"},
       "--momentum 2 is out of range\n"
       "  expected: a number of at least 0, at most 1\n"
       "  found:    2  (command line)\n"
       "  try:      --momentum 0.9"},
      {{"--powersgd-rank", "2", "--compression", "bf16"},
       "cannot use --powersgd-rank without --compression powersgd\n"
       "  requested: --compression bf16  (command line)\n"
       "  try:       --compression powersgd, or omit --powersgd-rank"},
  };
  for (const BadLine& line : lines) {
    EXPECT_EQ(message_of([&] { resolve({}, parse(line.words), 2); }), line.message);
  }
  for (const char* flag : {"--bucket-mb",
                           "--clip",
                           "--fusion-threshold-mb",
                           "--lr",
                           "--momentum",
                           "--weight-decay",
                           "--timeout",
                           "--report-every"}) {
    for (const char* value : {"nan", "inf", "-1"}) {
      EXPECT_THAT(message_of([&] {
                    parse({"-s", "horovod", flag, value});
                  }),
                  HasSubstr(fmt::format("{} {} is out of range", flag, value)));
    }
  }
  for (const char* flag : {"--timeout", "--bucket-mb"}) {
    EXPECT_THAT(message_of([&] { parse({flag, "0"}); }), HasSubstr("a number above 0"));
  }
  for (const char* value : {"junk", "-1", "1.5", "18446744073709551616"}) {
    EXPECT_THAT(message_of([&] {
                  parse({"--seed", value});
                }),
                AllOf(HasSubstr("invalid command line"), HasSubstr("--seed")));
  }
}

TEST(Flags, TakeTheLargestSeedThereIs) {
  EXPECT_EQ(parse({"--seed", "18446744073709551615"}).seed, 18446744073709551615U);
  EXPECT_EQ(parse({"--seed", "0xFF"}).seed, 255U);
}

TEST(Flags, OfOneStrategyAreRefusedByOthersThatWouldIgnoreThem) {
  EXPECT_EQ(message_of([] {
              parse({"-s", "horovod", "--bucket-mb", "2.5"});
            }),
            "cannot use --bucket-mb with -s horovod: it uses a fusion buffer\n"
            "  requested:    -s horovod --bucket-mb 2.5  (command line)\n"
            "  supported by: -s ddp, -s deepspeed, -s mirrored\n"
            "  try:          --fusion-threshold-mb 2.5");
  EXPECT_EQ(message_of([] {
              parse({"-s", "single", "--compression", "fp16"});
            }),
            "cannot use --compression with -s single: a single worker does not exchange gradients\n"
            "  requested:    -s single --compression fp16  (command line)\n"
            "  supported by: -s ddp, -s horovod, -s mirrored\n"
            "  try:          omit --compression");
  EXPECT_EQ(message_of([] {
              parse({"-s", "deepspeed", "--compression", "bf16"});
            }),
            "cannot use --compression with -s deepspeed: \"communication_data_type\" in "
            "ds_config.json selects the type of gradients\n"
            "  requested:    -s deepspeed --compression bf16  (command line)\n"
            "  supported by: -s ddp, -s horovod, -s mirrored\n"
            "  try:          omit --compression");
  EXPECT_EQ(message_of([] {
              resolve({}, parse({"-s", "ddp", "--zero-stage", "2"}), 2);
            }),
            "cannot use --zero-stage without -s deepspeed\n"
            "  requested: -s ddp  (command line)\n"
            "  try:       -s deepspeed, or omit --zero-stage");
  EXPECT_EQ(message_of([] {
              resolve({}, parse({"-s", "deepspeed", "--zero-stage", "4"}), 2);
            }),
            "--zero-stage 4 is out of range\n"
            "  expected: 0, 1, 2, 3\n"
            "  try:      --zero-stage 2");
  const std::vector<std::pair<const char*, const char*>> ignored = {
      {"horovod", "--static-graph"},
      {"deepspeed", "--static-graph"},
      {"mirrored", "--static-graph"},
      {"single", "--static-graph"},
      {"horovod", "--find-unused-parameters"},
      {"mirrored", "--find-unused-parameters"},
      {"single", "--find-unused-parameters"},
      {"mirrored", "--no-overlap"},
      {"single", "--no-overlap"}};
  for (const auto& [strategy, flag] : ignored) {
    EXPECT_THAT(message_of([&, name = strategy, typed = flag] {
                  parse({"-s", name, typed});
                }),
                HasSubstr(fmt::format("cannot use {} with -s {}: ", flag, strategy)));
  }
}

TEST(Flags, OfOneStrategyStandWhereItIsTriedOrNoneIsNamed) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"-s", "ddp", "--static-graph", "--bucket-mb", "1", "--no-overlap"},
           {"-s", "mirrored", "--bucket-mb", "1", "--compression", "bf16"},
           {"-s", "horovod", "--no-overlap", "--compression", "bf16"},
           {"-s", "single", "--compression", "none"},
           {"--static-graph", "--no-overlap"},
           {"--verify-strategies", "--static-graph", "--bucket-mb", "1"},
           {"--verify-strategies", "--autotune"},
           {"--verify-strategies", "--collective", "ring"}}) {
    EXPECT_NO_THROW(resolve({}, parse(words), 2, {})) << words.front();
  }
  // With -s only that one is tried.
  EXPECT_THAT(message_of([] {
                resolve({}, parse({"--verify-strategies", "-s", "ddp", "--autotune"}), 2, {});
              }),
              HasSubstr("cannot use --autotune without -s horovod"));
}

TEST(Flags, WinOverHorovodsVariables) {
  const os::Environment variables = {{"HOROVOD_FUSION_THRESHOLD", "5"},
                                     {"HOROVOD_CYCLE_TIME", "7"},
                                     {"HOROVOD_TIMELINE", "theirs.json"}};
  const Flags flags = parse({"-s",
                             "horovod",
                             "--fusion-threshold-mb",
                             "0.5",
                             "--timeline-filename",
                             "mine.json",
                             "--fp16-allreduce",
                             "--use-adasum",
                             "--cache-capacity",
                             "9",
                             "--autotune",
                             "--backward-passes-per-step",
                             "4"});
  const TrainerOptions options = resolve({}, flags, 2, variables);

  EXPECT_EQ(options.strategy.horovod.fusion_bytes, 1 << 19);
  EXPECT_EQ(options.strategy.horovod.cycle_ms, 7);
  EXPECT_EQ(options.strategy.horovod.timeline, "mine.json");
  EXPECT_EQ(options.strategy.horovod.reduction, "adasum");
  EXPECT_EQ(options.strategy.horovod.cache_capacity, 9);
  EXPECT_TRUE(options.strategy.horovod.autotune);
  EXPECT_EQ(options.strategy.compression, Compression::Fp16);
  EXPECT_EQ(options.accumulate, 4);
}

TEST(Flags, LeaveHorovodsVariablesToHorovod) {
  const os::Environment variables = {{"HOROVOD_CYCLE_TIME", "soon"}};
  EXPECT_EQ(resolve({}, parse({"-s", "ddp"}), 2, variables).strategy.horovod.cycle_ms, 1);
  EXPECT_THAT(message_of([&] {
                resolve({}, parse({"-s", "horovod"}), 2, variables);
              }),
              HasSubstr("invalid value for HOROVOD_CYCLE_TIME"));
}

TEST(Flags, OfHorovodAreRefusedWhereTheyMeanNothing) {
  const std::vector<BadLine> lines = {
      {{"-s", "ddp", "--autotune"},
       "cannot use --autotune without -s horovod\n"
       "  requested: -s ddp  (command line)\n"
       "  try:       -s horovod, or omit --autotune"},
      {{"--timeline-filename", "t.json"},
       "cannot use --timeline-filename without -s horovod\n"
       "  requested: -s not given  (command line)\n"
       "  try:       -s horovod, or omit --timeline-filename"},
      {{"-s", "horovod", "--use-adasum", "--reduction", "sum"},
       "--use-adasum conflicts with --reduction sum\n"
       "  try: --use-adasum"},
      {{"-s", "horovod", "--fp16-allreduce", "--compression", "bf16"},
       "--fp16-allreduce conflicts with --compression bf16\n"
       "  try: --fp16-allreduce"},
  };
  for (const BadLine& line : lines) {
    EXPECT_EQ(message_of([&] { resolve({}, parse(line.words), 2, {}); }), line.message);
  }
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"--reduction", "sum"},
                                             {"--fp16-allreduce"},
                                             {"--use-adasum"},
                                             {"--fusion-threshold-mb", "1"},
                                             {"--cycle-time-ms", "1"},
                                             {"--cache-capacity", "1"},
                                             {"--gradient-predivide-factor", "1"}}) {
    EXPECT_THAT(message_of([&] { resolve({}, parse(words), 2, {}); }),
                HasSubstr(std::string("cannot use ") + words.front() + " without -s horovod"));
  }
}

TEST(Flags, AreExplainedByGroups) {
  std::vector<const char*> words = {"bin/mnist", "--help"};
  std::string help;

  EXPECT_FALSE(parse_flags(2, words.data(), program(), help).has_value());
  for (const char* text : {"Train something",
                           "This program",
                           "--net VALUE ",
                           "Training",
                           "Optimizer",
                           "Files",
                           "Machine",
                           "--resume",
                           "Exit codes"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
  // CLI11 2.6 appends a blank to each line.
  EXPECT_THAT(help, ContainsRegex("The network: cnn or mlp \\[cnn\\] ?\n"));
  EXPECT_THAT(help, ContainsRegex("Initial weights ?\n"));
}

TEST(ProcessVariables, GiveEachStreamAHardwareQueueUnlessSet) {
  EXPECT_EQ(process_variables({}), (os::Environment{{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}}));
  EXPECT_TRUE(process_variables({{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}).empty());
}

}  // namespace
}  // namespace lockstep::train
