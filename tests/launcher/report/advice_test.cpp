// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/advice.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <regex>
#include <set>

#include "launcher/report/made_up_training.h"
#include "support/golden.h"

namespace lockstep::report {
namespace {

using lockstep::testing::kGiB;
using lockstep::testing::MadeUpTraining;
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

void heat_up(Training& wish, double clock) {
  wish.gpu_sample = [clock](contract::GpuSample& gpu, int number, int second) {
    if (number == 3 && second > 50) {
      gpu.sm_clock_mhz = clock;
      gpu.temperature = 91;
    }
  };
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"loader-bound",
       [](Training& wish) {
         wish.utilisation_of = {{2, 0.2}};
         wish.data_of = {{2, 0.3}};
         wish.compute_of = {{2, 0.4}};
       },
       [](Training& wish) {
         wish.utilisation_of = {{2, 0.2}};
         wish.data_of = {{2, 0.2}};
       }},
      {"loader-bound",
       [](Training& wish) {
         wish.gpus = 0;
         wish.data = 0.3;
         wish.compute = 0.5;
       },
       [](Training& wish) {
         wish.gpus = 0;
         wish.data = 0.2;
         wish.compute = 0.5;
       }},
      {"host-bound",
       [](Training& wish) {
         wish.utilisation = 0.5;
         wish.cores = 1.1;
       },
       [](Training& wish) {
         wish.utilisation = 0.5;
         wish.cores = 1.5;
       }},
      {"host-bound",
       [](Training& wish) {
         wish.utilisation = 0.5;
         wish.cores = 0.9;
       },
       [](Training& wish) {
         wish.utilisation = 0.7;
         wish.cores = 0.9;
       }},
      {"gpu-idle",
       [](Training& wish) { wish.utilisation = 0.55; },
       [](Training& wish) {
         wish.utilisation = 0.65;
       }},
      {"gpu-unused",
       [](Training& wish) {
         wish.workers = 2;
         wish.cores = 5;
         wish.memory = 32 * kGiB;
         wish.utilisation_of = {{2, 0}, {3, 0}, {6, 0}, {7, 0}};
         wish.gpu_memory_of = {{2, kGiB}, {3, kGiB}, {6, kGiB}, {7, kGiB}};
       },
       [](Training& wish) {
         wish.utilisation_of = {{2, 0.02}};
         wish.gpu_memory_of = {{2, 0}};
       }},
      {"gpu-memory-unused",
       [](Training& wish) { wish.gpu_memory = 31 * kGiB; },
       [](Training& wish) {
         wish.gpu_memory = 31 * kGiB;
         wish.gpu_memory_of = {{5, 33 * kGiB}};
       }},
      {"gpu-throttled",
       [](Training& wish) { heat_up(wish, 1000); },
       [](Training& wish) {
         heat_up(wish, 1200);
       }},
      {"gpu-errors",
       [](Training& wish) {
         wish.gpu_sample = [](contract::GpuSample& gpu, int number, int second) {
           gpu.ecc_errors = number == 1 && second > 30 ? 7 : 5;
         };
       },
       [](Training& wish) {
         wish.gpu_sample = [](contract::GpuSample& gpu, int, int) {
           gpu.ecc_errors = 5;
         };
       }},
      {"exchange-bound",
       [](Training& wish) {
         wish.exchange = 0.27;
         wish.compute = 0.5;
       },
       [](Training& wish) {
         wish.exchange = 0.23;
         wish.compute = 0.5;
       }},
      {"slow-rank",
       [](Training& wish) {
         wish.compute_of = {{5, 0.79}};
       },  // 0.84 of 0.75: 112 %
       [](Training& wish) {
         wish.compute_of = {{5, 0.76}};
       }},  // 108 %
      {"memory-full",
       [](Training& wish) { wish.memory = 29 * kGiB; },  // 116 of 128
       [](Training& wish) {
         wish.memory = 28 * kGiB;
       }},  // 112
      {"memory-unused",
       [](Training& wish) { wish.memory = 9 * kGiB; },  // 36 of 128
       [](Training& wish) {
         wish.memory = 10 * kGiB;
       }},  // 40
      {"memory-unused",
       [](Training& wish) { wish.memory = 9 * kGiB; },
       [](Training& wish) {
         wish.memory = 9 * kGiB;
         wish.job = "";  // not a Slurm job
       }},
      {"cores-full",
       [](Training& wish) { wish.cores = 3.7; },  // 14.8 of 16
       [](Training& wish) {
         wish.cores = 3.5;
       }},  // 14.0
      {"cores-full",
       [](Training& wish) { wish.cores = 3.7; },
       [](Training& wish) {
         wish.cores = 3.7;
         wish.gpus = 0;  // full cores are fine without GPUs
       }},
      {"cores-shared",
       [](Training& wish) { wish.foreign = 5.5; },  // 10 + 5.5 of 16
       [](Training& wish) {
         wish.foreign = 4;
       }},
      {"cores-idle",
       [](Training& wish) { wish.cores = 1.5; },  // 6 of 16
       [](Training& wish) {
         wish.cores = 1.7;
       }},  // 6.8
      {"cores-idle",
       [](Training& wish) { wish.cores = 1.5; },
       [](Training& wish) {
         wish.cores = 1.5;
         wish.job = "";
       }},
      {"restarts",
       [](Training& wish) { wish.attempt = 1; },
       [](Training&) {
       }},
      {"time-limit",
       [](Training& wish) {
         wish.phase = contract::RunPhase::Cancelled;
         wish.exit_code = 124;
       },
       [](Training& wish) {
         wish.phase = contract::RunPhase::Cancelled;
         wish.exit_code = 143;
       }},
      {"killed",
       [](Training& wish) { wish.phase = contract::RunPhase::Running; },
       [](Training& wish) {
         wish.phase = contract::RunPhase::Failed;
       }},
  };
  return kCases;
}

std::vector<std::string> rules_of(const std::function<void(Training&)>& change) {
  Training wish;
  change(wish);
  return MadeUpTraining(wish).rules();
}

Advice advice_of(const MadeUpTraining& training, const std::string& rule) {
  for (Advice& advice : advise(training.facts())) {
    if (advice.rule == rule) {
      return advice;
    }
  }
  ADD_FAILURE() << "no advice " << rule;
  return {};
}

TEST(Advice, HasNothingToSayOfATrainingThatGoesWell) {
  const MadeUpTraining training;
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

TEST(Advice, TellsTheNumbersAndWhatToType) {
  Training wish;
  wish.utilisation_of = {{2, 0.2}};
  wish.data_of = {{2, 0.6}};
  wish.compute_of = {{2, 0.1}};
  const Advice loader = advice_of(MadeUpTraining(wish), "loader-bound");
  EXPECT_EQ(loader.seen, "GPU 2 of node-a idle 80 % of the time; workers wait up to 60 % for data");
  EXPECT_EQ(loader.means, "loader bound: the GPU waits for batches");
  EXPECT_THAT(loader.tries, Contains(HasSubstr("--num-workers")));
  EXPECT_THAT(loader.tries, Contains(HasSubstr("lockstep data pack")));

  Training slow;
  slow.compute_of = {{5, 0.95}};  // 1.00 of 0.75
  const Advice rank = advice_of(MadeUpTraining(slow), "slow-rank");
  EXPECT_THAT(rank.seen, HasSubstr("rank 5 on node-b takes 129 % of the median step time"));
  EXPECT_THAT(rank.tries, Contains(HasSubstr("--exclude=node-b")));

  Training roomy;
  roomy.memory = 4 * kGiB;  // 16 of 128; 1.3 times that is 20.8
  const Advice memory = advice_of(MadeUpTraining(roomy), "memory-unused");
  EXPECT_THAT(memory.tries, Contains(HasSubstr("--memory 21G")));
  Training idle;
  idle.cores = 1.5;  // 6 of 16; 1.5 times that is 9
  const Advice cores = advice_of(MadeUpTraining(idle), "cores-idle");
  EXPECT_THAT(cores.tries, Contains(HasSubstr("--cpus-per-task 9")));
}

TEST(Advice, TellsHeatFromAPowerLimitAndAProgramFromAGpu) {
  Training hot;
  heat_up(hot, 1000);
  const Advice throttled = advice_of(MadeUpTraining(hot), "gpu-throttled");
  EXPECT_THAT(throttled.seen, AllOf(HasSubstr("GPU 3 of node-a"), HasSubstr("17 %")));
  EXPECT_THAT(throttled.means, HasSubstr("too hot"));

  for (const auto& [xid, word] : {std::pair{79, "support"}, {13, "CUDA_LAUNCH_BLOCKING"}}) {
    Training wish;
    wish.gpu_sample = [xid = xid](contract::GpuSample& gpu, int number, int) {
      if (number == 6) {
        gpu.xid = xid;
      }
    };
    const Advice errors = advice_of(MadeUpTraining(wish), "gpu-errors");
    EXPECT_EQ(errors.seen, "GPU 2 of node-b: XID " + std::to_string(xid));
    EXPECT_THAT(errors.tries.front(), HasSubstr(word));
  }
}

TEST(Advice, SaysThatNoGpuWasUsed) {
  Training wish;
  wish.nodes = 1;
  wish.workers = 1;
  wish.gpus = 1;
  wish.utilisation = 0;
  wish.gpu_memory = 0;
  wish.cores = 10;
  wish.memory = 64 * kGiB;
  const Advice unused = advice_of(MadeUpTraining(wish), "gpu-unused");
  EXPECT_EQ(unused.seen, "GPU 0 never used: 1 worker for 1 GPU");
  EXPECT_THAT(unused.means, HasSubstr("computes on the CPU"));
}

TEST(Advice, SeesCheckpointsThatStopTraining) {
  for (const auto& [stall, comes] : {std::pair{3.5, true}, {2.5, false}}) {
    const MadeUpTraining training;
    training.gang().append({.kind = "checkpoint",
                            .time = MadeUpTraining::kStart + 30,
                            .rank = 0,
                            .fields = {{"step", int64_t{300}}, {"stall_seconds", stall}}});
    EXPECT_EQ(training.rules() == std::vector<std::string>{"checkpoint-stalls"}, comes) << stall;
  }
}

TEST(Advice, SeesALossThatIsNoNumber) {
  const MadeUpTraining events;
  events.gang().append({.kind = "step",
                        .time = MadeUpTraining::kStart + 61,
                        .rank = 0,
                        .fields = {{"step", int64_t{610}}, {"loss", NAN}}});
  EXPECT_EQ(advice_of(events, "loss-not-finite").seen, "the loss is not finite from step 610 on");

  Training wish;
  wish.phase = contract::RunPhase::Failed;
  wish.exit_code = 64;
  const MadeUpTraining failed(wish);
  contract::FailureReport report;
  report.failure.last_lines = {"step 6", "error: cannot continue: the loss is inf at step 7"};
  failed.fail(report);
  EXPECT_EQ(advice_of(failed, "loss-not-finite").seen, "the loss is inf at step 7");

  Training python;
  python.has_events = false;
  const MadeUpTraining output(python);
  output.gang().append(
      "output-0.jsonl",
      R"({"event":"metric","time":1706693430,"rank":0,"name":"loss","value":"nan"})"
      "\n");
  EXPECT_EQ(advice_of(output, "loss-not-finite").seen,
            "the loss is not finite from 30.0 s after the start on");
}

TEST(Advice, SeesHowARunEnded) {
  Training wish;
  wish.phase = contract::RunPhase::Failed;
  wish.exit_code = 137;
  const MadeUpTraining training(wish);
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

  wish.phase = contract::RunPhase::Running;  // no update since: Slurm has killed it
  const MadeUpTraining killed(wish);
  const JobFacts job{.state = "timed out", .has_timed_out = true, .limit_seconds = 3600};
  EXPECT_THAT(killed.rules(job), AllOf(Contains("time-limit"), Not(Contains("killed"))));
}

TEST(Advice, NeedsHalfAMinute) {
  Training wish;
  wish.utilisation = 0.1;
  wish.data = 0.6;
  wish.compute = 0.1;
  wish.memory = kGiB;
  wish.seconds = 29;
  const MadeUpTraining training(wish);
  EXPECT_THAT(training.rules(), IsEmpty());
  EXPECT_THAT(untried(training.facts()),
              AllOf(SizeIs(2), Each(HasSubstr("29.0 s of")), Each(HasSubstr("30 s are needed"))));

  wish.seconds = 30;
  EXPECT_THAT(MadeUpTraining(wish).rules(),
              AllOf(Contains("loader-bound"), Contains("memory-unused")));
}

TEST(Advice, IsOfAnotherKindForProgramsOfOthers) {
  Training wish;
  wish.has_events = false;
  wish.utilisation = 0.4;
  wish.cores = 1;
  const Advice advice = advice_of(MadeUpTraining(wish), "host-bound");
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
