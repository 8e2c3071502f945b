// SPDX-License-Identifier: Apache-2.0
//
// Tests of lockstep-ckpt as a program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "training/checkpoint/draft.h"
#include "training/checkpoint/shard.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CkptCommand : public ::testing::Test {
 protected:
  // Writes a checkpoint of a small training with two workers.
  std::filesystem::path save(int64_t step) {
    const std::filesystem::path root = directory_.path() / "run" / "checkpoints";
    Draft draft(root, step);
    std::vector<TensorPiece> all = as_pieces("model.", weights());
    for (TensorPiece& piece :
         as_pieces("optimizer.fc.weight.", {{"exp_avg", torch::ones({3, 4})}})) {
      all.push_back(std::move(piece));
    }
    for (int rank = 1; rank >= 0; --rank) {
      Snapshot snapshot;
      snapshot.take(share_of(all, rank, 2));
      write_shard({root, draft.path(), {}, rank, 2}, snapshot);
    }
    CheckpointState state = {.step = step,
                             .epoch = 1,
                             .step_in_epoch = 2,
                             .global_batch = 64,
                             .world_size = 2,
                             .notes = {{"strategy", "ddp"}},
                             .optimizer = R"({"kind":"Adam","groups":[]})"};
    return complete({root, draft.path(), state, 0, 2}, draft, {});
  }

  static NamedTensors weights() {
    return {{"fc.weight", torch::arange(12, torch::kFloat).view({3, 4}) / 8},
            {"fc.bias", torch::full({3}, -0.5)},
            {"norm.count", torch::scalar_tensor(7, torch::kInt64)}};
  }

  os::CommandResult ckpt(const std::string& line) {
    return os::run_command(
        {"/bin/bash", "-c", fmt::format("{}/lockstep-ckpt {}", LOCKSTEP_BIN_DIR, line)},
        {.directory = directory_.path()});
  }

  // The content of a file according to Python; nothing without PyTorch.
  std::optional<std::string> python(const std::string& file) {
    const os::CommandResult result =
        os::run_command({LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR "/tests/tools/ckpt/load.py", file},
                        {.directory = directory_.path()});
    if (result.status.code == 77) {
      return std::nullopt;
    }
    EXPECT_EQ(result.status.code, 0) << result.errors;
    return result.output;
  }

  os::TemporaryDirectory directory_;
};

constexpr const char* kAsTrained =
    "fc.bias float32 [3] -1.5\nfc.weight float32 [3, 4] 8.25\nnorm.count int64 [] 7\n";

TEST_F(CkptCommand, ShowsWhatACheckpointHolds) {
  save(5);

  const os::CommandResult page = ckpt("inspect run");
  EXPECT_EQ(page.status.code, 0) << page.errors;
  EXPECT_THAT(page.output,
              AllOf(HasSubstr("checkpoint  run/checkpoints/step-00000005\n"),
                    HasSubstr("step        5: 1 epochs and 2 steps, global batch 64\n"),
                    HasSubstr("written by  2 workers, -s ddp\n"),
                    HasSubstr("optimizer   Adam\n"),
                    HasSubstr("tensors     4, 116 B\n"),
                    HasSubstr("  model.fc.weight              F32   [3, 4]\n")));
  EXPECT_THAT(ckpt("inspect --json run").output,
              AllOf(HasSubstr("\"step\": 5"), HasSubstr("\"model.norm.count\": {")));
}

TEST_F(CkptCommand, VerifiesEveryByte) {
  const std::filesystem::path path = save(5);
  EXPECT_EQ(ckpt("verify run").output,
            "run/checkpoints/step-00000005 is intact: 3 files, 4 tensors, 116 B\n");

  flip_bit(path / "shard-00001-of-00002.safetensors", 250);
  const os::CommandResult damaged = ckpt("verify run");
  EXPECT_EQ(damaged.status.code, 74);
  EXPECT_THAT(
      damaged.errors,
      HasSubstr("lockstep-ckpt: error: cannot use checkpoint run/checkpoints/step-00000005: "
                "shard-00001-of-00002.safetensors is damaged"));
  EXPECT_EQ(ckpt("convert run x.pt").status.code, 74);
}

TEST_F(CkptCommand, ConvertsToWhatPythonLoads) {
  save(5);
  const auto written = [&](const std::string& arguments, const std::string& file) {
    const os::CommandResult result = ckpt("convert run " + file + " " + arguments);
    EXPECT_EQ(result.status.code, 0) << result.errors;
    return python(file);
  };
  const auto first = written("", "a.safetensors");
  if (!first) {
    GTEST_SKIP() << LOCKSTEP_PYTHON << " has no PyTorch";
  }

  EXPECT_EQ(*first, kAsTrained);
  EXPECT_EQ(*written("", "a.pt"), kAsTrained);
  EXPECT_EQ(*written("", "pytorch_model.bin"),
            "fc.bias float32 [3] -1.5\nfc.weight float32 [3, 4] 8.25\nnorm.count float32 [] 7\n");
  EXPECT_EQ(*written("--dtype bf16", "b.safetensors"),
            "fc.bias bfloat16 [3] -1.5\nfc.weight bfloat16 [3, 4] 8.25\nnorm.count int64 [] 7\n");
  EXPECT_EQ(*written("--dtype fp16", "h.pt"),
            "fc.bias float16 [3] -1.5\nfc.weight float16 [3, 4] 8.25\nnorm.count int64 [] 7\n");
  EXPECT_EQ(*written("--only optimizer", "o.pt"), "fc.weight.exp_avg float32 [3, 4] 12\n");
}

TEST_F(CkptCommand, ConvertsFilesThereAndBackWithoutADifference) {
  save(5);
  for (const char* step : {"run a.safetensors",
                           "a.safetensors b.pt",
                           "b.pt c.safetensors",
                           "c.safetensors pytorch_model.bin",
                           "pytorch_model.bin d.safetensors"}) {
    const os::CommandResult result = ckpt(std::string("convert ") + step);
    EXPECT_EQ(result.status.code, 0) << step << result.errors;
  }

  EXPECT_EQ(read(directory_.path() / "a.safetensors"), read(directory_.path() / "c.safetensors"));
  NamedTensors back = load_weights(directory_.path() / "b.pt");
  NamedTensors trained = weights();
  std::ranges::sort(trained, {}, [](const auto& item) { return item.first; });
  EXPECT_TRUE(identical(back, trained));
}

TEST_F(CkptCommand, ListsAndPrunesButNeverTheBestOrTheLast) {
  for (const int64_t step : {1, 2, 3, 4}) {
    save(step);
  }
  const std::filesystem::path root = directory_.path() / "run" / "checkpoints";
  std::filesystem::create_symlink("step-00000002", root / "best");

  EXPECT_EQ(ckpt("prune run --keep 1 --dry-run").output,
            "would delete run/checkpoints/step-00000001\n"
            "would delete run/checkpoints/step-00000003\n");
  EXPECT_EQ(ckpt("prune run --keep 1").output,
            "deleted run/checkpoints/step-00000001\ndeleted run/checkpoints/step-00000003\n");
  EXPECT_THAT(ckpt("list run").output,
              ::testing::MatchesRegex(" +2 .*step-00000002\n +4 .*step-00000004\n"));
}

TEST_F(CkptCommand, VerifiesEveryCheckpointOfARun) {
  const std::filesystem::path first = save(1);
  save(2);
  EXPECT_THAT(ckpt("verify run").output,
              AllOf(HasSubstr("step-00000001 is intact"), HasSubstr("step-00000002 is intact")));

  std::filesystem::remove(first / "shard-00001-of-00002.safetensors");
  const os::CommandResult damaged = ckpt("verify run");
  EXPECT_EQ(damaged.status.code, 74);
  EXPECT_THAT(damaged.output,
              AllOf(HasSubstr("shard-00001-of-00002.safetensors is missing"),
                    HasSubstr("step-00000002 is intact")));
  EXPECT_THAT(damaged.errors, HasSubstr("1 of 2 checkpoints in run are damaged"));
  EXPECT_THAT(ckpt("list run").output,
              HasSubstr("step-00000001  (shard-00001-of-00002.safetensors is missing)"));
}

TEST_F(CkptCommand, ListsACheckpointThatIsDamagedWithTheOthers) {
  const std::filesystem::path first = save(1);
  save(2);
  write(first / "state.json", "{");

  const os::CommandResult list = ckpt("list run");

  EXPECT_EQ(list.status.code, 0) << list.errors;
  EXPECT_THAT(list.output,
              ::testing::MatchesRegex(" +1 +- +.*step-00000001  .damaged; see lockstep-ckpt verify"
                                      ".\n +2 .*step-00000002\n"));
  EXPECT_THAT(ckpt("list run --json").output, HasSubstr("\"damaged\": \"cannot read"));
}

// Like a full disk. The writer of libtorch would terminate the program here.
TEST_F(CkptCommand, SaysThatAFileCannotBeWrittenAndLeavesNothing) {
  const std::filesystem::path root = directory_.path() / "run" / "checkpoints";
  Draft draft(root, 1);
  Snapshot snapshot;
  snapshot.take(as_pieces("model.", {{"a", torch::ones({1000})}, {"b", torch::ones({1000})}}));
  write_shard({root, draft.path(), {}, 0, 1}, snapshot);
  complete({root, draft.path(), {.step = 1}, 0, 1}, draft, {});
  for (const char* kilobytes : {"1", "5"}) {
    for (const char* file : {"x.pt", "pytorch_model.bin", "x.safetensors"}) {
      SCOPED_TRACE(fmt::format("{} of {} KiB", file, kilobytes));
      const os::CommandResult result =
          os::run_command({"/bin/bash",
                           "-c",
                           fmt::format("ulimit -f {}; exec {}/lockstep-ckpt convert run {}",
                                       kilobytes,
                                       LOCKSTEP_BIN_DIR,
                                       file)},
                          {.directory = directory_.path()});

      EXPECT_EQ(result.status.code, 74) << result.errors;
      EXPECT_THAT(result.errors, HasSubstr(fmt::format("cannot write .{}.partial", file)));
      EXPECT_FALSE(std::filesystem::exists(directory_.path() / fmt::format(".{}.partial", file)));
      EXPECT_FALSE(std::filesystem::exists(directory_.path() / file));
    }
  }
}

TEST_F(CkptCommand, SaysWhatItCannotDo) {
  save(5);
  const auto refused = [&](const std::string& line, int code, const std::string& words) {
    const os::CommandResult result = ckpt(line);
    EXPECT_EQ(result.status.code, code) << line;
    EXPECT_THAT(result.errors, HasSubstr(words)) << line;
  };

  refused("inspect nothing", 74, "cannot read nothing: it does not exist");
  refused("list nothing", 74, "cannot list nothing: not a directory");
  refused("convert run x.onnx", 64, "unknown file format: x.onnx");
  refused("convert run x.pt --only ema", 64, "it has no tensors \"ema.*\"");
  refused("convert run x.pt --only all", 64, "invalid --only 'all'");
  refused("convert run x.pt --dtype int8", 64, "invalid --dtype 'int8'");
  refused("convert run nowhere/x.pt", 74, "cannot create nowhere/.x.pt.partial: No such file");
  refused("prune run --keep 0", 64, "--keep 0 is out of range");
  refused("frobnicate", 64, "unknown subcommand 'frobnicate'");
  refused("inspekt run", 64, "try:       lockstep-ckpt inspect");
  refused("", 64, "no subcommand given");
  refused("inspect run --jsn", 64, "invalid command line");
  refused("convert run x.pt --entry model", 64, "cannot read --entry model from run");
  std::filesystem::create_directories(directory_.path() / "empty");
  for (const char* command :
       {"inspect empty", "list empty", "verify empty", "prune empty --keep 1"}) {
    refused(command, 74, "cannot use empty: it contains no complete checkpoint");
  }
  refused("prune nothing --keep 1", 74, "cannot use nothing: it does not exist");
  write(directory_.path() / "bad.safetensors", "12345678{");
  refused("inspect bad.safetensors", 74, "its header would be too long");
  const os::CommandResult help = ckpt("convert --help");
  EXPECT_EQ(help.status.code, 0);
  EXPECT_THAT(help.output, HasSubstr("pytorch_model.bin"));
}

TEST_F(CkptCommand, DescribesEachSubcommandByItself) {
  EXPECT_THAT(ckpt("inspect --help").output, HasSubstr("PATH is a checkpoint, a run (its newest"));
  EXPECT_THAT(ckpt("verify --help").output, HasSubstr("PATH is a checkpoint, a run (all its"));
  EXPECT_THAT(ckpt("convert --help").output, HasSubstr("FROM is a checkpoint, a run (its newest"));
  for (const char* command : {"list", "prune"}) {
    const std::string help = ckpt(std::string(command) + " --help").output;
    EXPECT_THAT(help, Not(HasSubstr("PATH")));
    EXPECT_THAT(help, HasSubstr("lockstep-ckpt " + std::string(command) + " runs/mnist"));
    EXPECT_THAT(help, Not(HasSubstr("lockstep-ckpt convert")));
    EXPECT_THAT(help, HasSubstr("Exit codes:"));
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
