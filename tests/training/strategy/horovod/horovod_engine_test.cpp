// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/os/command.h"
#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/comes_true.h"
#include "support/run_workers.h"
#include "training/strategy/horovod/engine.h"

namespace lockstep::strategy::horovod {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Engine> make_engine(Communicator& comm,
                                    const HorovodOptions& options = {},
                                    Engine::Report report = {}) {
  return std::make_unique<Engine>(comm.subset(comm.size()), options, std::move(report));
}

// "tensor 3" on this rank: a few elements that depend on rank and number.
torch::Tensor value_of(int number, int rank) {
  return torch::arange(number + 1, torch::kFloat32) + static_cast<float>(100 * rank + number);
}

Announcement tensor(int number, int rank) {
  return {.name = fmt::format("tensor {}", number), .value = value_of(number, rank)};
}

torch::Tensor sum_of(int number, int size) {
  torch::Tensor sum = torch::zeros({number + 1});
  for (int rank = 0; rank < size; ++rank) {
    sum += value_of(number, rank);
  }
  return sum;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no Error";
}

TEST(Engine, SumsTensorsThatAreReadyInAnotherOrderOnEachRank) {
  for (const int size : {1, 2, 3, 4}) {
    for (const int64_t fusion : {0, 64, 1 << 20}) {
      run_workers(size, [&](Communicator& comm) {
        const auto engine = make_engine(comm, {.fusion_bytes = fusion, .cycle_ms = 0.2});
        for (int step = 0; step < 3; ++step) {
          std::vector<Announcement> tensors;
          for (int i = 0; i < 20; ++i) {
            tensors.push_back(tensor((i * 7 + comm.rank() * 3 + step) % 20, comm.rank()));
          }
          for (const Announcement& each : tensors) {
            engine->announce({each});
            if (each.value.numel() % 6 == comm.rank()) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
          }
          EXPECT_THAT(engine->wait(), IsEmpty());
          for (const Announcement& each : tensors) {
            const int number = static_cast<int>(each.value.numel()) - 1;
            EXPECT_TRUE(each.value.equal(sum_of(number, size))) << each.name << " of " << size;
          }
        }
      });
    }
  }
}

TEST(Engine, FusesSmallTensorsIntoOneBuffer) {
  const auto reductions = [](int64_t fusion_bytes) {
    int64_t count = 0;
    run_workers(2, [&](Communicator& comm) {
      const auto engine = make_engine(comm, {.fusion_bytes = fusion_bytes});
      std::vector<Announcement> tensors;
      for (int i = 0; i < 50; ++i) {
        tensors.push_back(tensor(i, comm.rank()));
      }
      engine->announce(tensors);
      engine->wait();
      if (comm.rank() == 0) {
        count = engine->counts().reductions;
      }
    });
    return count;
  };
  EXPECT_EQ(reductions(1 << 20), 1);
  EXPECT_EQ(reductions(0), 50);
}

TEST(Engine, SendsNamesOnceOnly) {
  run_workers(3, [](Communicator& comm) {
    const auto engine = make_engine(comm);
    for (int step = 0; step < 5; ++step) {
      engine->announce({tensor(1, comm.rank()), tensor(2, comm.rank())});
      engine->wait();
    }
    EXPECT_EQ(engine->counts().full_rounds, 1);
  });
}

TEST(Engine, IsRightWithACacheThatIsTooSmallOrNone) {
  for (const int64_t capacity : {0, 1, 3}) {
    run_workers(3, [&](Communicator& comm) {
      const auto engine = make_engine(comm, {.cycle_ms = 0.2, .cache_capacity = capacity});
      for (int step = 0; step < 6; ++step) {
        std::vector<Announcement> tensors;
        for (int i = 0; i < 7; ++i) {
          tensors.push_back(tensor((i + step * comm.rank()) % 7, comm.rank()));
          engine->announce({tensors.back()});
        }
        engine->wait();
        for (const Announcement& each : tensors) {
          const int number = static_cast<int>(each.value.numel()) - 1;
          EXPECT_TRUE(each.value.equal(sum_of(number, 3))) << each.name;
        }
      }
      EXPECT_GT(engine->counts().full_rounds, 1);
    });
  }
}

TEST(Engine, ForgetsATensorWhoseShapeHasChanged) {
  run_workers(2, [](Communicator& comm) {
    const auto engine = make_engine(comm);
    for (const int64_t length : {3, 3, 5, 5}) {
      const torch::Tensor ones = torch::ones({length});
      engine->announce({{.name = "a", .value = ones}});
      engine->wait();
      EXPECT_TRUE(ones.equal(torch::full({length}, 2.0F)));
    }
    EXPECT_EQ(engine->counts().full_rounds, 2);
  });
}

TEST(Engine, NamesTensorShapesAndRanksThatDoNotMatch) {
  for (const int known_before : {0, 1}) {
    run_workers(3, [&](Communicator& comm) {
      const auto engine = make_engine(comm);
      for (int i = 0; i < known_before; ++i) {
        engine->announce({{.name = "fc1.weight", .value = torch::ones({3, 4})}});
        engine->wait();
      }
      const int64_t rows = comm.rank() == 1 ? 4 : 3;
      EXPECT_EQ(message_of([&] {
                  engine->announce({{.name = "fc1.weight", .value = torch::ones({rows, 4})}});
                  engine->wait();
                }),
                "cannot reduce 'fc1.weight': Mismatched allreduce tensor shapes\n"
                "  ranks 0, 2: [3, 4]\n"
                "  rank 1:     [4, 4]\n"
                "  try:        use the same model and options on every worker");
      EXPECT_THAT(message_of([&] { engine->announce({tensor(1, comm.rank())}); }),
                  HasSubstr("Mismatched"));
    });
  }
}

TEST(Engine, ReportsATensorThatOneRankNeverAnnounces) {
  for (const int known_before : {0, 1}) {
    std::string report;
    run_workers(3, [&](Communicator& comm) {
      const auto engine = make_engine(comm,
                                      {.stall_warning = 0.1, .stall_shutdown = 2},
                                      [&report](const std::string& text) { report = text; });
      for (int i = 0; i < known_before; ++i) {
        engine->announce({tensor(1, comm.rank()), tensor(2, comm.rank())});
        engine->wait();
      }
      const std::string message = message_of([&] {
        std::vector<Announcement> tensors = {tensor(1, comm.rank())};
        if (comm.rank() != 1) {
          tensors.push_back(tensor(2, comm.rank()));
        }
        engine->announce(tensors);
        engine->wait();
        while (true) {  // rank 1 is busy elsewhere
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          engine->announce({});
        }
      });
      EXPECT_THAT(message, HasSubstr("exchange of gradients stalled for more than 2 s"));
      EXPECT_THAT(message, HasSubstr("tensor 2: ready on ranks 0, 2; missing on rank 1 for "));
    });
    EXPECT_THAT(report, HasSubstr("tensor 2: ready on ranks 0, 2; missing on rank 1 for "));
    EXPECT_THAT(report, Not(HasSubstr("tensor 1")));
  }
}

TEST(Engine, IgnoresATensorThatNoRankHas) {
  run_workers(2, [](Communicator& comm) {
    const auto engine = make_engine(comm);
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor nowhere = torch::zeros({3});
      const torch::Tensor somewhere = comm.rank() == 1 ? torch::full({3}, 5.0F) : torch::zeros({3});
      engine->announce({{.name = "nowhere", .value = nowhere, .empty = true},
                        {.name = "somewhere", .value = somewhere, .empty = comm.rank() == 0}});
      EXPECT_THAT(engine->wait(), ElementsAre("nowhere"));
      EXPECT_TRUE(somewhere.eq(5).all().item<bool>());
    }
  });
}

TEST(Engine, LetsWorkersJoinWhenTheyHaveNoMore) {
  run_workers(3, [](Communicator& comm) {
    const auto engine = make_engine(comm, {.cycle_ms = 0.2});
    // Rank r takes part in 1 + 2r steps; twice, because training may continue after a join.
    for (int round = 0; round < 2; ++round) {
      for (int step = 0; step < 1 + 2 * comm.rank(); ++step) {
        const torch::Tensor mine = torch::full({4}, static_cast<float>(comm.rank() + 1));
        engine->announce({{.name = "a", .value = mine}});
        engine->wait();
        float sum = 0;
        for (int rank = 0; rank < comm.size(); ++rank) {
          sum += step < 1 + 2 * rank ? static_cast<float>(rank + 1) : 0.0F;
        }
        EXPECT_TRUE(mine.eq(sum).all().item<bool>()) << step << " on " << comm.rank();
      }
      EXPECT_EQ(engine->join(), 2);
    }
  });
}

TEST(Engine, ReportsToTheOthersThatAWorkerHasLeft) {
  run_workers(3, [](Communicator& comm) {
    auto engine = make_engine(comm);
    if (comm.rank() == 2) {
      engine.reset();
      return;
    }
    EXPECT_EQ(message_of([&] {
                engine->announce({tensor(1, comm.rank())});
                engine->wait();
              }),
              "rank 2 has left the exchange of gradients\n"
              "  try: check its output; if it had fewer batches than the others, call join() on "
              "it");
  });
}

TEST(Engine, TravelsInHalfPrecisionAndScalesOutsideOfIt) {
  run_workers(2, [](Communicator& comm) {
    const auto engine = make_engine(comm);
    // 80 000 exceeds the range of half; a quarter of it does not.
    const torch::Tensor large = torch::full({5}, 80000.0F);
    engine->announce({{.name = "a",
                       .value = large,
                       .operation = {.wire = torch::kHalf, .before = 0.25, .after = 2}}});
    engine->wait();
    EXPECT_TRUE(large.eq(80000).all().item<bool>());
    EXPECT_EQ(large.scalar_type(), torch::kFloat32);
  });
}

TEST(Engine, ReducesGradientsOfAnyLayout) {
  run_workers(2, [](Communicator& comm) {
    for (const int64_t fusion : {0, 1 << 20}) {
      const auto engine = make_engine(comm, {.fusion_bytes = fusion});
      const torch::Tensor turned = torch::arange(12, torch::kFloat64).view({3, 4}).t();
      const torch::Tensor scalar = torch::full({}, comm.rank(), torch::dtype(torch::kFloat64));
      const torch::Tensor nothing = torch::empty({0}, torch::dtype(torch::kFloat64));
      engine->announce({{.name = "turned", .value = turned},
                        {.name = "scalar", .value = scalar},
                        {.name = "nothing", .value = nothing}});
      EXPECT_THAT(engine->wait(), IsEmpty());
      EXPECT_TRUE(turned.equal(torch::arange(12, torch::kFloat64).view({3, 4}).t() * 2));
      EXPECT_EQ(scalar.item<double>(), 1);
    }
  });
}

// Checks that every phase ends within the phase in which it began; returns the phases of each row.
std::map<std::string, std::vector<std::string>> phases_of(const nlohmann::json& trace) {
  std::map<int, std::string> rows;
  std::map<std::string, std::vector<std::string>> phases;
  std::map<std::string, std::vector<std::string>> open;
  double last = 0;
  for (const auto& event : trace) {
    const std::string kind = event.at("ph");
    if (kind == "M") {
      if (event.at("name") == "process_name") {
        rows[event.at("pid")] = event.at("args").at("name");
      }
      continue;
    }
    const std::string row = rows.at(event.at("pid"));
    EXPECT_GE(event.at("ts").get<double>(), last);
    last = event.at("ts");
    const std::string name = event.at("name");
    if (kind == "E") {
      // Chrome accepts an end without a name, other viewers do not.
      EXPECT_FALSE(open[row].empty()) << row;
      EXPECT_EQ(name, open[row].empty() ? "" : open[row].back()) << row;
      open[row].resize(open[row].empty() ? 0 : open[row].size() - 1);
      continue;
    }
    phases[row].push_back(std::string(open[row].size(), ' ') + name);
    if (kind == "B") {
      open[row].push_back(name);
    }
  }
  for (const auto& [row, names] : open) {
    EXPECT_THAT(names, IsEmpty()) << row;
  }
  return phases;
}

TEST(Timeline, HasTheNestedPhasesOfEveryTensor) {
  const os::TemporaryDirectory directory;
  const std::string path = directory.path() / "timeline.json";
  run_workers(2, [&](Communicator& comm) {
    const auto engine = make_engine(comm, {.timeline = path, .mark_cycles = true});
    for (int step = 0; step < 2; ++step) {
      engine->announce({tensor(1, comm.rank()), {.name = "say \"b\"", .value = torch::ones({2})}});
      engine->wait();
    }
  });

  // Python must be able to parse it, too.
  const os::CommandResult python =
      os::run_command({"python3", "-c", "import json,sys; json.load(open(sys.argv[1]))", path});
  EXPECT_EQ(python.status.code, 0) << python.errors;
  const auto phases = phases_of(nlohmann::json::parse(os::read_file(path)));
  EXPECT_THAT(phases.at("cycles"), ::testing::Contains("CYCLE_START"));
  for (const char* name : {"tensor 1", "say \"b\""}) {
    EXPECT_THAT(phases.at(name),
                ElementsAre("NEGOTIATE_ALLREDUCE",
                            " 0",
                            " 1",
                            "ALLREDUCE",
                            " MEMCPY_IN_FUSION_BUFFER",
                            " THREADS_ALLREDUCE",
                            " MEMCPY_OUT_FUSION_BUFFER",
                            "NEGOTIATE_ALLREDUCE",
                            " 0",
                            "ALLREDUCE",
                            " MEMCPY_IN_FUSION_BUFFER",
                            " THREADS_ALLREDUCE",
                            " MEMCPY_OUT_FUSION_BUFFER"));
  }
}

TEST(Timeline, CanBeReadBeforeItIsClosed) {
  const os::TemporaryDirectory directory;
  const std::string path = directory.path() / "timeline.json";
  Timeline timeline(path, false);
  timeline.begin("a", "ALLREDUCE");
  timeline.end("a");

  std::string text;
  EXPECT_TRUE(lockstep::testing::comes_true([&] {
    text = os::read_file(path);
    return text.find("\"E\"") != std::string::npos;
  }));

  EXPECT_EQ(nlohmann::json::parse(text + "]").size(), 4);
}

TEST(Timeline, SaysWhereItCannotBeWritten) {
  EXPECT_THAT(message_of([] { Timeline("/nowhere/at/all.json", false); }),
              HasSubstr("cannot write the timeline /nowhere/at/all.json\n"
                        "  reason: No such file or directory  (system)"));
}

TEST(Autotune, ChangesAllWorkersAtOnceAndStaysRight) {
  const os::TemporaryDirectory directory;
  const std::string path = directory.path() / "autotune.csv";
  run_workers(2, [&](Communicator& comm) {
    const auto engine = make_engine(comm,
                                    {.autotune = true,
                                     .autotune_log = path,
                                     .autotune_warmup_samples = 1,
                                     .autotune_steps_per_sample = 2,
                                     .autotune_max_samples = 6});
    for (int step = 0; step < 20; ++step) {
      std::vector<Announcement> tensors;
      for (int i = 0; i < 5; ++i) {
        tensors.push_back(tensor(i, comm.rank()));
      }
      engine->announce(tensors);
      engine->wait();
      engine->end_step();
      for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(tensors[static_cast<size_t>(i)].value.equal(sum_of(i, 2)));
      }
    }
  });

  const std::string log = os::read_file(path);
  EXPECT_THAT(log, HasSubstr("sample,fusion_bytes,cycle_ms,bytes_per_second\n1,67108864,1.000,"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 7);
}

}  // namespace
}  // namespace lockstep::strategy::horovod
