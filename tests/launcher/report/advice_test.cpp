// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/advice.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <regex>
#include <set>

#include "launcher/report/fake_training.h"
#include "support/golden.h"

namespace lockstep::report {
namespace {

using lockstep::testing::FakeTraining;
using lockstep::testing::kGiB;
using lockstep::testing::read_text;
using lockstep::testing::Training;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

struct Case {
  std::string rule;
  std::function<void(Training&)> fires;
  std::function<void(Training&)> does_not;  // just below the threshold
};

void heat_up(Training& shape, double clock) {
  shape.gpu_sample = [clock](contract::GpuSample& gpu, int number, int second) {
    if (number == 3 && second > 50) {
      gpu.sm_clock_mhz = clock;
      gpu.temperature = 91;
    }
  };
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"loader-bound",
       [](Training& shape) {
         shape.utilisation_of = {{2, 0.2}};
         shape.data_of = {{2, 0.3}};
         shape.compute_of = {{2, 0.4}};
       },
       [](Training& shape) {
         shape.utilisation_of = {{2, 0.2}};
         shape.data_of = {{2, 0.2}};
       }},
      {"loader-bound",
       [](Training& shape) {
         shape.gpus = 0;
         shape.data = 0.3;
         shape.compute = 0.5;
       },
       [](Training& shape) {
         shape.gpus = 0;
         shape.data = 0.2;
         shape.compute = 0.5;
       }},
      {"host-bound",
       [](Training& shape) {
         shape.utilisation = 0.5;
         shape.cores = 1.1;
       },
       [](Training& shape) {
         shape.utilisation = 0.5;
         shape.cores = 1.5;
       }},
      {"host-bound",
       [](Training& shape) {
         shape.utilisation = 0.5;
         shape.cores = 0.9;
       },
       [](Training& shape) {
         shape.utilisation = 0.7;
         shape.cores = 0.9;
       }},
      {"gpu-idle",
       [](Training& shape) { shape.utilisation = 0.55; },
       [](Training& shape) {
         shape.utilisation = 0.65;
       }},
      {"gpu-unused",
       [](Training& shape) {
         shape.workers = 2;
         shape.cores = 5;
         shape.memory = 32 * kGiB;
         shape.utilisation_of = {{2, 0}, {3, 0}, {6, 0}, {7, 0}};
         shape.gpu_memory_of = {{2, kGiB}, {3, kGiB}, {6, kGiB}, {7, kGiB}};
       },
       [](Training& shape) {
         shape.utilisation_of = {{2, 0.02}};
         shape.gpu_memory_of = {{2, 0}};
       }},
      {"gpu-memory-unused",
       [](Training& shape) { shape.gpu_memory = 31 * kGiB; },
       [](Training& shape) {
         shape.gpu_memory = 31 * kGiB;
         shape.gpu_memory_of = {{5, 33 * kGiB}};
       }},
      {"gpu-throttled",
       [](Training& shape) { heat_up(shape, 1000); },
       [](Training& shape) {
         heat_up(shape, 1200);
       }},
      {"gpu-errors",
       [](Training& shape) {
         shape.gpu_sample = [](contract::GpuSample& gpu, int number, int second) {
           gpu.ecc_errors = number == 1 && second > 30 ? 7 : 5;
         };
       },
       [](Training& shape) {
         shape.gpu_sample = [](contract::GpuSample& gpu, int, int) {
           gpu.ecc_errors = 5;
         };
       }},
      {"exchange-bound",
       [](Training& shape) {
         shape.exchange = 0.27;
         shape.compute = 0.5;
       },
       [](Training& shape) {
         shape.exchange = 0.23;
         shape.compute = 0.5;
       }},
      {"slow-rank",
       [](Training& shape) {
         shape.compute_of = {{5, 0.79}};
       },  // 0.84 of 0.75: 112 %
       [](Training& shape) {
         shape.compute_of = {{5, 0.76}};
       }},  // 108 %
      {"memory-full",
       [](Training& shape) { shape.memory = 29 * kGiB; },  // 116 of 128
       [](Training& shape) {
         shape.memory = 28 * kGiB;
       }},  // 112
      {"memory-unused",
       [](Training& shape) { shape.memory = 9 * kGiB; },  // 36 of 128
       [](Training& shape) {
         shape.memory = 10 * kGiB;
       }},  // 40
      {"memory-unused",
       [](Training& shape) { shape.memory = 9 * kGiB; },
       [](Training& shape) {
         shape.memory = 9 * kGiB;
         shape.job = "";  // not a Slurm job
       }},
      {"cores-full",
       [](Training& shape) { shape.cores = 3.7; },  // 14.8 of 16
       [](Training& shape) {
         shape.cores = 3.5;
       }},  // 14.0
      {"cores-full",
       [](Training& shape) { shape.cores = 3.7; },
       [](Training& shape) {
         shape.cores = 3.7;
         shape.gpus = 0;  // full cores are fine without GPUs
       }},
      {"cores-shared",
       [](Training& shape) { shape.foreign = 5.5; },  // 10 + 5.5 of 16
       [](Training& shape) {
         shape.foreign = 4;
       }},
      {"cores-idle",
       [](Training& shape) { shape.cores = 1.5; },  // 6 of 16
       [](Training& shape) {
         shape.cores = 1.7;
       }},  // 6.8
      {"cores-idle",
       [](Training& shape) { shape.cores = 1.5; },
       [](Training& shape) {
         shape.cores = 1.5;
         shape.job = "";
       }},
      {"restarts",
       [](Training& shape) { shape.attempt = 1; },
       [](Training&) {
       }},
      {"time-limit",
       [](Training& shape) {
         shape.phase = contract::RunPhase::Cancelled;
         shape.exit_code = 124;
       },
       [](Training& shape) {
         shape.phase = contract::RunPhase::Cancelled;
         shape.exit_code = 143;
       }},
      {"killed",
       [](Training& shape) { shape.phase = contract::RunPhase::Running; },
       [](Training& shape) {
         shape.phase = contract::RunPhase::Failed;
       }},
  };
  return kCases;
}

std::vector<std::string> rules_of(const std::function<void(Training&)>& change) {
  Training shape;
  change(shape);
  return FakeTraining(shape).rules();
}

Advice advice_of(const FakeTraining& training, const std::string& rule) {
  for (Advice& advice : advise(training.facts())) {
    if (advice.rule == rule) {
      return advice;
    }
  }
  ADD_FAILURE() << "no advice " << rule;
  return {};
}

TEST(Advice, HasNothingToSayOfATrainingThatGoesWell) {
  const FakeTraining training;
  EXPECT_THAT(training.rules(), IsEmpty());
  EXPECT_THAT(untried(training.facts()), IsEmpty());
}

TEST(Advice, ComesAtItsThresholdAndNotBefore) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.rule);
    EXPECT_THAT(rules_of(one.fires), Contains(one.rule));
    EXPECT_THAT(rules_of(one.does_not), Not(Contains(one.rule)));
  }
}

TEST(Advice, ComesOfEachCauseAlone) {
  // Rules that describe the same symptom would both apply here.
  for (const std::string rule : {"loader-bound", "gpu-idle", "memory-full", "cores-full"}) {
    for (const Case& one : cases()) {
      if (one.rule == rule) {
        EXPECT_THAT(rules_of(one.fires), ElementsAre(rule));
      }
    }
  }
}

TEST(Advice, HasACaseForEveryRule) {
  std::set<std::string> tested = {
      "out-of-memory", "failed", "loss-not-finite", "checkpoint-stalls"};
  for (const Case& one : cases()) {
    tested.insert(one.rule);
  }
  for (const std::string_view name : rule_names()) {
    EXPECT_TRUE(tested.contains(std::string(name))) << name;
  }
}

TEST(Advice, ReportsTheNumbersAndTheCommandToUse) {
  Training shape;
  shape.utilisation_of = {{2, 0.2}};
  shape.data_of = {{2, 0.6}};
  shape.compute_of = {{2, 0.1}};
  const Advice loader = advice_of(FakeTraining(shape), "loader-bound");
  EXPECT_EQ(loader.seen, "GPU 2 of node-a idle 80 % of the time; workers wait up to 60 % for data");
  EXPECT_EQ(loader.means, "loader bound: the GPU waits for batches");
  EXPECT_THAT(loader.tries, Contains(HasSubstr("--num-workers")));
  EXPECT_THAT(loader.tries, Contains(HasSubstr("lockstep data pack")));

  Training slow;
  slow.compute_of = {{5, 0.95}};  // 1.00 of 0.75
  const Advice rank = advice_of(FakeTraining(slow), "slow-rank");
  EXPECT_THAT(rank.seen, HasSubstr("rank 5 on node-b takes 129 % of the median step time"));
  EXPECT_THAT(rank.tries, Contains(HasSubstr("--exclude=node-b")));

  Training roomy;
  roomy.memory = 4 * kGiB;  // 16 of 128; 1.3 times that is 20.8
  const Advice memory = advice_of(FakeTraining(roomy), "memory-unused");
  EXPECT_THAT(memory.tries, Contains(HasSubstr("--memory 21G")));
  Training idle;
  idle.cores = 1.5;  // 6 of 16; 1.5 times that is 9
  const Advice cores = advice_of(FakeTraining(idle), "cores-idle");
  EXPECT_THAT(cores.tries, Contains(HasSubstr("--cpus-per-task 9")));
}

TEST(Advice, DistinguishesHeatFromAPowerLimitAndAProgramFromAGpu) {
  Training hot;
  heat_up(hot, 1000);
  const Advice throttled = advice_of(FakeTraining(hot), "gpu-throttled");
  EXPECT_THAT(throttled.seen, AllOf(HasSubstr("GPU 3 of node-a"), HasSubstr("17 %")));
  EXPECT_THAT(throttled.means, HasSubstr("too hot"));

  for (const auto& [xid, word] : {std::pair{79, "support"}, {13, "CUDA_LAUNCH_BLOCKING"}}) {
    Training shape;
    shape.gpu_sample = [xid = xid](contract::GpuSample& gpu, int number, int) {
      if (number == 6) {
        gpu.xid = xid;
      }
    };
    const Advice errors = advice_of(FakeTraining(shape), "gpu-errors");
    EXPECT_EQ(errors.seen, "GPU 2 of node-b: XID " + std::to_string(xid));
    EXPECT_THAT(errors.tries.front(), HasSubstr(word));
  }
}

TEST(Advice, SaysThatNoGpuWasUsed) {
  Training shape;
  shape.nodes = 1;
  shape.workers = 1;
  shape.gpus = 1;
  shape.utilisation = 0;
  shape.gpu_memory = 0;
  shape.cores = 10;
  shape.memory = 64 * kGiB;
  const Advice unused = advice_of(FakeTraining(shape), "gpu-unused");
  EXPECT_EQ(unused.seen, "GPU 0 never used: 1 worker for 1 GPU");
  EXPECT_THAT(unused.means, HasSubstr("computes on the CPU"));
}

TEST(Advice, SeesCheckpointsThatStopTraining) {
  for (const auto& [stall, comes] : {std::pair{3.5, true}, {2.5, false}}) {
    const FakeTraining training;
    training.fake_run().append({.kind = "checkpoint",
                                .time = FakeTraining::kStart + 30,
                                .rank = 0,
                                .fields = {{"step", int64_t{300}}, {"stall_seconds", stall}}});
    EXPECT_EQ(training.rules() == std::vector<std::string>{"checkpoint-stalls"}, comes) << stall;
  }
}

TEST(Advice, SeesALossThatIsNoNumber) {
  const FakeTraining events;
  events.fake_run().append({.kind = "step",
                            .time = FakeTraining::kStart + 61,
                            .rank = 0,
                            .fields = {{"step", int64_t{610}}, {"loss", NAN}}});
  EXPECT_EQ(advice_of(events, "loss-not-finite").seen, "the loss is not finite from step 610 on");

  Training shape;
  shape.phase = contract::RunPhase::Failed;
  shape.exit_code = 64;
  const FakeTraining failed(shape);
  contract::FailureReport report;
  report.failure.last_lines = {"step 6", "error: cannot continue: the loss is inf at step 7"};
  failed.fail(report);
  EXPECT_EQ(advice_of(failed, "loss-not-finite").seen, "the loss is inf at step 7");

  Training python;
  python.has_events = false;
  const FakeTraining output(python);
  output.fake_run().append(
      "output-0.jsonl",
      R"({"event":"metric","time":1706693430,"rank":0,"name":"loss","value":"nan"})"
      "\n");
  EXPECT_EQ(advice_of(output, "loss-not-finite").seen,
            "the loss is not finite from 30.0 s after the start on");
}

TEST(Advice, SeesHowARunEnded) {
  Training shape;
  shape.phase = contract::RunPhase::Failed;
  shape.exit_code = 137;
  const FakeTraining training(shape);
  EXPECT_THAT(training.rules(), ElementsAre("failed"));
  contract::FailureReport report;
  report.failure.who = "rank 1";
  report.failure.rank = 1;
  report.failure.out_of_memory = contract::OutOfMemory::Yes;
  report.how = "was killed by SIGKILL";
  report.hint = "a smaller batch";
  training.fail(report);
  EXPECT_THAT(training.rules(), ElementsAre("out-of-memory"));
  report.failure.out_of_memory = contract::OutOfMemory::Perhaps;
  training.fail(report);
  const Advice failed = advice_of(training, "failed");
  EXPECT_EQ(failed.seen, "failed: rank 1 was killed by SIGKILL");
  EXPECT_THAT(
      failed.tries,
      ElementsAre("a smaller batch", "last lines of its log: lockstep logs --rank 1 -n 20 4711"));

  shape.phase = contract::RunPhase::Running;  // no update since: Slurm has killed it
  const FakeTraining killed(shape);
  const JobFacts job{.state = "timed out", .has_timed_out = true, .limit_seconds = 3600};
  EXPECT_THAT(killed.rules(job), AllOf(Contains("time-limit"), Not(Contains("killed"))));
}

TEST(Advice, NeedsHalfAMinute) {
  Training shape;
  shape.utilisation = 0.1;
  shape.data = 0.6;
  shape.compute = 0.1;
  shape.memory = kGiB;
  shape.seconds = 29;
  const FakeTraining training(shape);
  EXPECT_THAT(training.rules(), IsEmpty());
  EXPECT_THAT(untried(training.facts()),
              AllOf(SizeIs(2), Each(HasSubstr("29.0 s of")), Each(HasSubstr("30 s are needed"))));

  shape.seconds = 30;
  EXPECT_THAT(FakeTraining(shape).rules(),
              AllOf(Contains("loader-bound"), Contains("memory-unused")));
}

TEST(Advice, IsOfAnotherKindForProgramsOfOthers) {
  Training shape;
  shape.has_events = false;
  shape.utilisation = 0.4;
  shape.cores = 1;
  const Advice advice = advice_of(FakeTraining(shape), "host-bound");
  EXPECT_THAT(advice.tries, Contains(HasSubstr("torch.compile")));
  EXPECT_THAT(advice.tries, Not(Contains(HasSubstr("--batch-size"))));
}

// All help texts and documentation pages, which contain every option of lockstep and of Slurm.
std::string all_pages() {
  std::string text;
  const std::filesystem::path tree(LOCKSTEP_SOURCE_DIR);
  for (const char* folder : {"tests/golden", "docs"}) {
    for (const auto& entry : std::filesystem::directory_iterator(tree / folder)) {
      const std::string name = entry.path().filename().string();
      const bool is_help = name.starts_with("help") && name != "help_report.txt";
      const bool is_doc = name.ends_with(".md") && name != "report.md" && name != "cli.md";
      if (is_help || is_doc) {
        text += read_text(entry.path());
      }
    }
  }
  return text;
}

TEST(Advice, ProposesOnlyOptionsThatThereAre) {
  const std::string pages = all_pages();
  const std::filesystem::path sources =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "src/launcher/report";
  std::string code;
  for (const char* file : {"advice_run.cpp", "advice_gpu.cpp", "advice_host.cpp"}) {
    code += read_text(sources / file);
  }
  const std::regex option("--[a-z][a-z-]+");
  std::set<std::string> options;
  for (std::sregex_iterator match(code.begin(), code.end(), option), end; match != end; ++match) {
    options.insert(match->str());
  }

  EXPECT_THAT(options, SizeIs(::testing::Ge(15U)));
  for (const std::string& one : options) {
    EXPECT_TRUE(std::regex_search(pages, std::regex(one + "([^a-z-]|$)"))) << one;
  }
}

}  // namespace
}  // namespace lockstep::report
