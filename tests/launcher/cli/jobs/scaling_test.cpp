// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "launcher/cli/jobs/scaling_runs.h"
#include "support/launcher.h"
#include "support/sized_run.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kJob =
    "mode: scaling-test\n"
    "site: none\n"
    "scalability_nodes: [1, 2, 4]\n"
    "gpus_per_node: 2\n"
    "training_cmd: ./train -s {distributed_strategy}\n";

// 1 ms per sample and 10 ms per doubling of the workers, with 64 samples in total.
SizedRun sized(int workers, const std::string& strategy = "ddp") {
  return {.strategy = strategy,
          .workers = workers,
          .nodes = (workers + 1) / 2,
          .step_seconds = 0.064 / workers + 0.01 * std::log2(workers)};
}

TEST(ScalingCommand, ComparesTheRunsOfADirectory) {
  Launcher launcher;
  for (const int workers : {1, 2, 4}) {
    sized(workers).write(launcher.path(fmt::format("runs/train-{}", workers)));
  }

  const Result result = launcher.run({"scaling", "runs"});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.errors, IsEmpty());
  EXPECT_THAT(result.output,
              AllOf(StartsWith("ddp, strong scaling, global batch 64\nworkers  nodes"),
                    HasSubstr("model: step = 0.001 s x batch/worker + 0.01 s x log2 n\n"),
                    HasSubstr("reliable up to 8 workers, 2 times the largest run")));
  const auto json =
      nlohmann::json::parse(launcher.run({"scaling", "--json", "--predict", "4n", "runs"}).output);
  const auto& predicted = json["strategies"][0]["curves"][0]["predicted"];
  ASSERT_EQ(predicted.size(), 1);
  EXPECT_EQ(predicted[0]["workers"], 8);
  EXPECT_NEAR(predicted[0]["step_seconds"], 0.008 + 0.03, 1e-5);
  EXPECT_THAT(launcher.run({"scaling", "--csv", "runs/train-1", "runs/train-2"}).output,
              HasSubstr("\nddp,strong,measured,2,1,0,64,1,"));
}

TEST(ScalingCommand, DrawsIt) {
  Launcher launcher;
  sized(1).write(launcher.path("runs/a"));
  sized(2).write(launcher.path("runs/b"));

  EXPECT_EQ(launcher.run({"scaling", "--plot", "x.svg", "a", "b"}).status.code, 0);
  EXPECT_THAT(read_text(launcher.path("x.svg")), StartsWith("<svg "));
  EXPECT_EQ(launcher.run({"scaling", "--plot", "x.html", "a", "b"}).status.code, 0);
  EXPECT_THAT(read_text(launcher.path("x.html")), StartsWith("<!DOCTYPE html>"));
}

TEST(ScalingCommand, FindsTheRunsOfAScalingTest) {
  Launcher launcher;
  std::ofstream(launcher.path("job.yaml")) << kJob;
  sized(2).write(launcher.path("runs/ddp-1x2-4711"));
  sized(4).write(launcher.path("runs/ddp-2x2-4712"));
  sized(4).write(launcher.path("runs/ddp-2x2-4719"));
  sized(1).write(launcher.path("runs/ddp-1x2-old"));
  sized(1).write(launcher.path("runs/other-4713"));

  const Result result = launcher.run({"scaling", "--json", "-c", "job.yaml"});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_EQ(result.errors,
            "lockstep: no run yet for ddp-4x2, deepspeed-1x2, deepspeed-2x2, deepspeed-4x2, "
            "horovod-1x2, horovod-2x2, horovod-4x2\n");
  const auto json = nlohmann::json::parse(result.output);
  ASSERT_EQ(json["runs"].size(), 3);
  EXPECT_EQ(json["strategies"][0]["curves"][0]["measured"][1]["runs"], 2);
}

TEST(ScalingCommand, FindsDirectoriesByTheirVariables) {
  const Launcher launcher;
  for (const char* name : {"a/x-1_2/run", "a/x-y/run", "b/x-3/run", "a/x-4/other"}) {
    std::filesystem::create_directories(launcher.path(name));
  }

  EXPECT_THAT(cli::find_expansions(launcher.path("."), "${USER}/x-$SLURM_JOB_ID/run"),
              ::testing::UnorderedElementsAre(launcher.path("./a/x-1_2/run"),
                                              launcher.path("./b/x-3/run")));
}

TEST(ScalingCommand, SaysHowToSubmitATestThatHasNotRun) {
  Launcher launcher;
  std::ofstream(launcher.path("job.yaml")) << kJob;
  std::ofstream(launcher.path("one.yaml")) << "site: none\nlauncher: torchrun\n";
  std::ofstream(launcher.path("same.yaml")) << kJob << "run_dir: out\n";

  const Result none = launcher.run({"scaling", "-c", "job.yaml"});
  EXPECT_EQ(none.status.code, 64);
  EXPECT_EQ(none.errors,
            fmt::format("lockstep: error: cannot find a run of the scaling test of job.yaml\n"
                        "  missing: {}/runs/ddp-1x2-$SLURM_JOB_ID and others  (default)\n"
                        "  try:     lockstep submit -c job.yaml\n",
                        std::filesystem::canonical(launcher.path(".")).string()));
  EXPECT_THAT(launcher.run({"scaling", "-c", "one.yaml"}).errors,
              AllOf(HasSubstr("torchrun, which creates no run directory  (one.yaml:2:"),
                    HasSubstr("-c one.yaml --mode scaling-test --launcher lockstep")));
  const Result same = launcher.run({"scaling", "-c", "same.yaml"});
  EXPECT_EQ(same.status.code, 64);
  EXPECT_EQ(same.errors,
            "lockstep: error: the jobs of the scaling test share a run directory\n"
            "  run_dir: 'out' for several jobs  (same.yaml:6:10)\n"
            "  try:     run_dir: runs/${job_name}-$SLURM_JOB_ID\n");
}

TEST(ScalingCommand, SaysWhyItCannotMeasureOrPredict) {
  Launcher launcher;
  SizedRun brief = sized(1);
  brief.steps = 4;
  brief.write(launcher.path("runs/brief"));
  sized(1).write(launcher.path("runs/one"));

  const Result result = launcher.run({"scaling", "brief"});
  EXPECT_EQ(result.status.code, 64);
  EXPECT_EQ(result.errors,
            "lockstep: error: none of these runs can be measured\n"
            "  brief: too short: 2 step reports after the warm-up, at least 4 are needed\n"
            "  try:   use runs of at least ten seconds whose program reports steps\n");
  EXPECT_THAT(launcher.run({"scaling", "runs"}).output, HasSubstr("\nskipped: brief: too short"));
  const Result few = launcher.run({"scaling", "--predict", "8", "one"});
  EXPECT_EQ(few.status.code, 64);
  EXPECT_THAT(few.output, StartsWith("ddp, one size\n"));
  EXPECT_EQ(few.errors,
            "lockstep: error: cannot predict other sizes from these runs\n"
            "  ddp: 1 of at least 3 sizes measured; also run on 2 and 4 workers\n"
            "  try: run the missing sizes, or describe the network with --network\n");
  EXPECT_EQ(launcher.run({"scaling", "one", "--predict"}).status.code, 64);
}

// 400 MB of gradients take 8.75 ms in a node of 80 GB/s, once scattered and once gathered.
TEST(ScalingCommand, PredictsFromOneGpuAndANetwork) {
  Launcher launcher;
  SizedRun run = sized(1);
  run.gradient_bytes = 400'000'000;
  run.write(launcher.path("runs/one"));
  const std::vector<std::string> network = {
      "--network", "80Gb/s", "--intra-node", "50GB/s", "--latency", "0us", "--overlap", "0.5"};
  const auto predict = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "scaling");
    words.insert(words.end(), network.begin(), network.end());
    return launcher.run(words);
  };

  const Result result = predict({"--json", "one", "--predict"});
  EXPECT_EQ(result.status.code, 0) << result.errors;
  const auto json = nlohmann::json::parse(result.output);
  ASSERT_EQ(json["sizes"].size(), 4);
  EXPECT_EQ(json["sizes"][1]["gpus"], 8);
  EXPECT_NEAR(json["sizes"][1]["communication_seconds"], 0.0175, 1e-9);
  EXPECT_EQ(json["sizes"][3]["global_batch"], 512 * 64);
  EXPECT_EQ(json["assumptions"][0]["source"], "run one");
  // The run can follow --predict; counts can be numbers of nodes.
  EXPECT_EQ(predict({"--json", "--predict", "one"}).output, result.output);
  EXPECT_THAT(predict({"--csv", "one", "--predict=2n"}).output, HasSubstr("\n16,2,1024,"));
  EXPECT_THAT(predict({"--step-time", "64ms", "--parameters", "100M", "--batch", "64"}).output,
              AllOf(StartsWith("predicted from one GPU, all-reduce\n"),
                    HasSubstr("bandwidth of a node             80Gb/s  --network\n"),
                    HasSubstr("size of a bucket, MB            25      default\n")));
}

TEST(ScalingCommand, PredictsFromRunsOfOneWorkerOnly) {
  Launcher launcher;
  sized(2).write(launcher.path("runs/two"));
  sized(1).write(launcher.path("runs/silent"));
  sized(1, "deepspeed").write(launcher.path("runs/zero"));
  SizedRun brief = sized(1);
  brief.steps = 4;
  brief.write(launcher.path("runs/brief"));
  const auto errors = [&](const std::string& run) {
    const Result result = launcher.run({"scaling", "--network", "400Gb/s", run});
    EXPECT_EQ(result.status.code, 64);
    return result.errors;
  };

  EXPECT_EQ(errors("two"),
            "lockstep: error: cannot predict from the run 'two' and a network\n"
            "  workers: 2; expected 1, without communication\n"
            "  try:     drop --network and give runs of at least three sizes\n");
  EXPECT_EQ(errors("silent"),
            "lockstep: error: cannot predict from one GPU: the size of the gradients is unknown\n"
            "  expected: gradient_bytes in the events of the run, or an option\n"
            "  try:      --parameters 124M\n");
  EXPECT_EQ(errors("zero"),
            "lockstep: error: cannot predict from the run 'zero': unknown ZeRO stage\n"
            "  strategy: deepspeed, whose stage the events do not contain\n"
            "  try:      --zero-stage 2\n");
  EXPECT_EQ(errors("brief"),
            "lockstep: error: cannot measure the run 'brief'\n"
            "  reason: too short: 2 step reports after the warm-up, at least 4 are needed\n"
            "  try:    use a run of at least ten seconds whose program reports steps\n");
  EXPECT_THAT(errors("runs"), HasSubstr("'runs' contains several runs\n"));
}

}  // namespace
}  // namespace lockstep::testing
