// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointDirectory : public ::testing::Test {
 protected:
  std::filesystem::path commit(int64_t step, std::map<std::string, double> metrics = {}) {
    CheckpointWriter writer(root_, {.step = step, .metrics = std::move(metrics)});
    writer.add_tensors(kModelPart, {{"w", torch::full({8}, static_cast<double>(step))}});
    return writer.commit();
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> result;
    for (const CheckpointEntry& entry : list_checkpoints(root_)) {
      result.push_back(entry.step);
    }
    return result;
  }

  // All names below the root, including hidden ones.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      result.push_back(entry.path().filename().string());
    }
    std::ranges::sort(result);
    return result;
  }

  std::vector<std::string> damage_;
  DamageReport note_ = [this](const Error& error) {
    damage_.emplace_back(error.what());
  };
  os::TemporaryDirectory directory_;
  std::filesystem::path root_ = directory_.path() / "checkpoints";
};

TEST_F(CheckpointDirectory, GivesBackWhatWasPutIn) {
  const CheckpointState state = {.step = 938,
                                 .epoch = 1,
                                 .step_in_epoch = 469,
                                 .seed = 0xfedcba9876543210,
                                 .global_batch = 128,
                                 .world_size = 4,
                                 .metrics = {{"accuracy", 0.1 + 0.2}},
                                 .notes = {{"schedule", "cosine \"\n"}}};
  torch::Tensor weight = torch::randn({3, 3});
  const torch::Tensor original = weight.clone();
  CheckpointWriter writer(root_, state);
  writer.add_tensors(kModelPart, {{"w", weight}});
  writer.add_value(kOptimizerPart, 0.25);
  writer.add_text("sampler.txt", "shuffled");
  weight.zero_();

  const std::filesystem::path path = writer.commit();

  EXPECT_EQ(path, root_ / "step-00000938");
  const CheckpointReader reader(path);
  EXPECT_EQ(reader.state(), state);
  EXPECT_TRUE(identical(reader.tensors(kModelPart), {{"w", original}}));
  EXPECT_EQ(reader.value(kOptimizerPart).toDouble(), 0.25);
  EXPECT_EQ(reader.text("sampler.txt"), "shuffled");
  EXPECT_THAT(names(), ElementsAre("step-00000938"));
  EXPECT_EQ(error_of([&] { reader.tensors(kRandomPart); }),
            "64 cannot find \"rng.pt\" in checkpoint " + path.string() +
                "\n  parts: model.pt, optimizer.pt, sampler.txt, state.json  (manifest.json)");
}

TEST_F(CheckpointDirectory, WritesTextsThatPeopleCanRead) {
  CheckpointWriter writer(root_, {.step = 2, .seed = 7, .metrics = {{"loss", NAN}}});
  writer.add_text("a.txt", "hello");
  const std::filesystem::path path = writer.commit();

  EXPECT_EQ(read(path / "state.json"),
            R"({
  "version": 1,
  "step": 2,
  "epoch": 0,
  "step_in_epoch": 0,
  "seed": 7,
  "global_batch": 0,
  "world_size": 1,
  "metrics": {
    "loss": null
  },
  "notes": {}
}
)");
  EXPECT_THAT(read(path / "manifest.json"), HasSubstr(R"({
  "version": 1,
  "files": {
    "a.txt": {
      "bytes": 5,
      "xxh3_64": "9555e8555c62dcfd"
    },)"));
  EXPECT_THAT(read(path / "COMPLETE"),
              ::testing::MatchesRegex("xxh3_64 [0-9a-f]+ manifest.json\n"));
  EXPECT_TRUE(std::isnan(CheckpointReader(path).state().metrics.at("loss")));
}

TEST_F(CheckpointDirectory, TakesEachPartOnceUnderAPlainName) {
  CheckpointWriter writer(root_, {});
  writer.add_text("a", "1");

  EXPECT_EQ(error_of([&] { writer.add_text("a", "2"); }),
            "64 cannot add the part \"a\" to a checkpoint: this name is already used");
  for (const char* name : {"", ".hidden", "a/b", "..", "COMPLETE", "state.json", "manifest.json"}) {
    EXPECT_EQ(error_of([&] { writer.add_text(name, ""); }),
              "64 cannot add the part \"" + std::string(name) +
                  "\" to a checkpoint: not a plain file name");
  }
}

TEST_F(CheckpointDirectory, IsListedOnlyWhenComplete) {
  EXPECT_THAT(list_checkpoints(root_), IsEmpty());
  EXPECT_FALSE(find_latest_checkpoint(root_));

  commit(10);
  commit(9);
  commit(123456789);
  std::filesystem::create_directories(root_ / "step-00000011");
  std::filesystem::create_directories(root_ / "step-12");
  std::filesystem::create_directories(root_ / "other");

  EXPECT_THAT(steps(), ElementsAre(9, 10, 123456789));
  EXPECT_EQ(find_latest_checkpoint(root_)->state().step, 123456789);
  EXPECT_EQ(error_of([&] { CheckpointReader reader(root_ / "step-00000011"); }),
            "74 cannot use checkpoint " + root_.string() +
                "/step-00000011: it is incomplete (no file COMPLETE)");
}

TEST_F(CheckpointDirectory, IsReplacedByOneOfTheSameStep) {
  commit(5);
  CheckpointWriter writer(root_, {.step = 5});
  writer.add_text("second.txt", "2");
  writer.commit();

  EXPECT_THAT(names(), ElementsAre("step-00000005"));
  EXPECT_EQ(find_latest_checkpoint(root_)->text("second.txt"), "2");
}

TEST_F(CheckpointDirectory, OfDeadWritersIsRemovedAtTheNextCommit) {
  commit(1);
  for (const char* name : {".step-00000002.partial", ".trash-step-00000000", "step-00000003"}) {
    std::filesystem::create_directories(root_ / name);
    write(root_ / name / "model.pt", "half");
  }
  std::filesystem::create_directories(root_ / ".step-00000007.partial");
  const auto alive = os::DirectoryLock::find(root_ / ".step-00000007.partial");

  commit(4);

  EXPECT_THAT(names(), ElementsAre(".step-00000007.partial", "step-00000001", "step-00000004"));
}

TEST_F(CheckpointDirectory, WithAnyFileDamagedIsRefused) {
  const std::filesystem::path path = commit(1);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string good = read(entry.path());
    SCOPED_TRACE(entry.path().filename());
    for (const size_t byte : {size_t{0}, good.size() / 2, good.size() - 1}) {
      flip_bit(entry.path(), byte);
      EXPECT_THAT(error_of([&] { CheckpointReader reader(path); }),
                  HasSubstr("74 cannot use checkpoint " + path.string()));
      write(entry.path(), good.substr(0, byte));
      EXPECT_THAT(error_of([&] { CheckpointReader reader(path); }),
                  HasSubstr("74 cannot use checkpoint " + path.string()));
      write(entry.path(), good);
    }
    std::filesystem::remove(entry.path());
    EXPECT_THAT(error_of([&] { CheckpointReader reader(path); }),
                HasSubstr("74 cannot use checkpoint " + path.string()));
    write(entry.path(), good);
  }
  EXPECT_EQ(CheckpointReader(path).state().step, 1);
}

TEST_F(CheckpointDirectory, WhenDamagedIsPassedOverForTheOneBefore) {
  commit(1);
  commit(2);
  commit(3);
  const std::filesystem::path second = root_ / "step-00000002" / "model.pt";
  flip_bit(second, 100);
  std::filesystem::resize_file(root_ / "step-00000003" / "model.pt", 50);

  const std::optional<CheckpointReader> latest = find_latest_checkpoint(root_, note_);

  EXPECT_EQ(latest->state().step, 1);
  const auto size = std::to_string(std::filesystem::file_size(second));
  ASSERT_EQ(damage_.size(), 2);
  EXPECT_EQ(damage_[0],
            "cannot use checkpoint " + root_.string() +
                "/step-00000003: model.pt has the wrong size\n  expected: " + size +
                " bytes  (manifest.json)\n  found:    50 bytes  (model.pt)");
  EXPECT_THAT(damage_[1],
              ::testing::MatchesRegex("cannot use checkpoint " + root_.string() +
                                      "/step-00000002: model.pt is damaged\n  expected: XXH3 "
                                      "[0-9a-f]+  .manifest.json.\n  found:    XXH3 [0-9a-f]+  "
                                      ".model.pt."));
}

TEST_F(CheckpointDirectory, OfANewerFormatIsNotTakenForADamagedOne) {
  commit(1);
  const std::filesystem::path path = commit(2);
  const std::string manifest = "{\"version\": 9}";
  write(path / "manifest.json", manifest);
  write(path / "COMPLETE", complete_text(manifest));

  EXPECT_EQ(
      error_of([&] { find_latest_checkpoint(root_, note_); }),
      "64 cannot read " + path.string() +
          "/manifest.json: it was written by a newer version of lockstep\n  found:    version 9  "
          "(manifest.json)\n  expected: up to version 2  (this program)");
}

TEST_F(CheckpointDirectory, SaysWhyItCannotBeWritten) {
  write(directory_.path() / "file", "");
  root_ = directory_.path() / "file";

  EXPECT_THAT(error_of([&] { commit(1); }),
              HasSubstr("74 cannot create directory " + root_.string() + ": Not a directory\n"));
}

TEST_F(CheckpointDirectory, RetentionKeepsTheLastAndTheBest) {
  const Retention retention = {.keep_last = 2, .best_metric = "accuracy"};
  const double accuracies[] = {0.5, 0.9, 0.7, 0.9, NAN, 0.8};
  for (int64_t step = 0; step < 6; ++step) {
    commit(step, {{"accuracy", accuracies[step]}});
    prune_checkpoints(root_, retention);
  }

  EXPECT_THAT(names(), ElementsAre("best", "step-00000001", "step-00000004", "step-00000005"));
  EXPECT_EQ(CheckpointReader(root_ / "best").state().step, 1);

  commit(6, {{"accuracy", 0.95}});
  const std::vector<CheckpointEntry> dropped = prune_checkpoints(root_, retention);

  EXPECT_THAT(dropped,
              ElementsAre(CheckpointEntry{1, root_ / "step-00000001"},
                          CheckpointEntry{4, root_ / "step-00000004"}));
  EXPECT_EQ(std::filesystem::read_symlink(root_ / "best"), "step-00000006");
}

TEST_F(CheckpointDirectory, RetentionFindsTheSmallestWhereThatIsBest) {
  for (int64_t step = 1; step <= 3; ++step) {
    commit(step, {{"loss", step == 2 ? 0.1 : 0.5}});
  }

  prune_checkpoints(root_, {.keep_last = 1, .best_metric = "loss", .best_is_max = false});

  EXPECT_THAT(steps(), ElementsAre(2, 3));
}

TEST_F(CheckpointDirectory, RetentionKeepsWhatIsYoung) {
  for (int64_t step = 1; step <= 4; ++step) {
    commit(step);
  }
  for (const char* old : {"step-00000001", "step-00000003"}) {
    std::filesystem::last_write_time(
        root_ / old / "COMPLETE",
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  }

  prune_checkpoints(root_, {.keep_last = 1, .keep_for = std::chrono::hours(1)});

  EXPECT_THAT(steps(), ElementsAre(2, 4));
}

TEST_F(CheckpointDirectory, RetentionNeverDeletesTheOnlyGoodOne) {
  commit(1);
  commit(2);
  flip_bit(root_ / "step-00000002" / "model.pt", 0);

  EXPECT_THAT(prune_checkpoints(root_, {.keep_last = 0}), IsEmpty());
  EXPECT_EQ(find_latest_checkpoint(root_, note_)->state().step, 1);

  commit(3);
  prune_checkpoints(root_, {.keep_last = 0});
  EXPECT_THAT(steps(), ElementsAre(3));
}

}  // namespace
}  // namespace lockstep::checkpoint
