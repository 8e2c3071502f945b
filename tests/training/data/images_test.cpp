// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <gmock/gmock.h>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <torch/cuda.h>
#include <vector>

#include "common/image/pack_writer.h"
#include "common/image/sample.h"
#include "common/image/store.h"
#include "lockstep/datasets.h"
#include "lockstep/loader.h"
#include "support/image_set.h"
#include "training/data/message_of.h"
#include "training/data/sample_job.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> first(int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<int64_t> targets(const Batch& batch) {
  return {batch.target.data_ptr<int64_t>(), batch.target.data_ptr<int64_t>() + batch.size()};
}

// The bytes of each sample of a batch, and its target.
std::vector<std::string> samples(const Batch& batch) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < batch.size(); ++i) {
    const torch::Tensor one = batch.input[i].contiguous();
    all.emplace_back(reinterpret_cast<const char*>(one.data_ptr<uint8_t>()),
                     static_cast<size_t>(one.numel()));
    all.back() += std::to_string(batch.target[i].item<int64_t>());
  }
  return all;
}

TEST(TinyImagenet, GivesBytesWithTheChannelsLastInMemory) {
  const TinyFolders folders(6, 4);
  const DatasetPair pair = tiny_imagenet(folders.path());
  const Batch train = pair.train->batch(first(6));
  const Batch test = pair.test->batch(first(4));

  EXPECT_THAT(pair.classes, ElementsAre("n01", "n02"));
  EXPECT_THAT(pair.origin, HasSubstr("tiny-imagenet-200"));
  EXPECT_EQ(pair.train->size(), 6);
  for (const Batch& batch : {train, test}) {
    EXPECT_EQ(batch.input.sizes().slice(1), (std::vector<int64_t>{3, 64, 64}));
    EXPECT_EQ(batch.input.scalar_type(), torch::kUInt8);
    EXPECT_TRUE(batch.input.is_contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_EQ(batch.target.scalar_type(), torch::kInt64);
  }
  EXPECT_THAT(targets(train), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(targets(test), ElementsAre(0, 1, 0, 1));
  EXPECT_TRUE(test.input[1].equal(pair.test->example(1).input));
  EXPECT_EQ(pair.test->batch({}).size(), 0);
}

TEST(TinyImagenet, LeavesTheImagesOfTheTestAsTheyAre) {
  const TinyFolders folders(2, 3);
  const torch::Tensor image = tiny_imagenet(folders.path()).test->example(2).input;

  // Red increases from left to right, green from top to bottom; blue is the shade.
  EXPECT_NEAR(image[0][32][10].item<int>(), 10 + 255 * 10 / 64, 12);
  EXPECT_NEAR(image[1][48][32].item<int>(), 255 * 48 / 64, 12);
  EXPECT_NEAR(image[2][20][20].item<int>(), 10, 12);
  EXPECT_EQ(tiny_imagenet(folders.path(), {.size = 32}).test->example(0).input.size(2), 32);
}

TEST(Imagenet, CutsTheMiddleOutForATestAndAPartForTraining) {
  const os::TemporaryDirectory directory;
  for (const std::string name :
       {"train/n01/a.JPEG", "train/n02/b.JPEG", "val/n01/c.JPEG", "val/n02/d.JPEG"}) {
    const auto file = directory.path() / "imagenet" / name;
    std::filesystem::create_directories(file.parent_path());
    os::write_file(file, jpeg_text(400, 300, 90));
  }
  const DatasetPair usual = imagenet(directory.path());
  const DatasetPair small = imagenet(directory.path(), {.size = 112, .augments = false});

  EXPECT_EQ(usual.train->batch(first(2)).input.sizes(), (std::vector<int64_t>{2, 3, 224, 224}));
  EXPECT_EQ(usual.test->example(0).input.size(1), 224);
  EXPECT_TRUE(small.train->example(0).input.equal(small.test->example(0).input));
  EXPECT_EQ(small.train->in_epoch(1), nullptr);
  // The middle 7 / 8 of 300 rows are visible: green begins at 1 / 16 of its range.
  EXPECT_NEAR(small.test->example(0).input[1][0][50].item<int>(), 255 / 16, 12);
}

TEST(AugmentedImages, DependOnSeedEpochAndSampleAlone) {
  const TinyFolders folders(8, 2);
  const DatasetPair one = tiny_imagenet(folders.path());
  const DatasetPair same = tiny_imagenet(folders.path(), {.seed = 1});
  const DatasetPair other = tiny_imagenet(folders.path(), {.seed = 2});
  const std::vector<std::string> all = samples(one.train->batch(first(8)));

  EXPECT_EQ(samples(same.train->batch(first(8))), all);
  EXPECT_EQ(samples(one.train->in_epoch(0)->batch(first(8))), all);
  EXPECT_NE(samples(other.train->batch(first(8))), all);
  const std::vector<int64_t> backwards = {7, 3, 3};
  EXPECT_THAT(samples(one.train->batch(backwards)), ElementsAre(all[7], all[3], all[3]));
  std::set<std::string> different(all.begin(), all.end());
  for (const int64_t epoch : {1, 2, 3}) {
    const auto then = samples(one.train->in_epoch(epoch)->batch(first(8)));
    different.insert(then.begin(), then.end());
  }
  EXPECT_EQ(different.size(), 32U);
  EXPECT_EQ(one.test->in_epoch(1), nullptr);
}

// The samples of all workers in each step of an epoch, from `first_step` on. The order within a
// step is ignored.
std::vector<std::multiset<std::string>> epoch_of_workers(const DatasetPtr& dataset,
                                                         int workers,
                                                         int threads,
                                                         int64_t first_step) {
  std::vector<std::multiset<std::string>> steps;
  for (int rank = 0; rank < workers; ++rank) {
    DistributedSampler sampler({.dataset_size = dataset->size(),
                                .global_batch = 6,
                                .rank = rank,
                                .world_size = workers,
                                .tail = Tail::Drop,
                                .seed = 3});
    sampler.set_epoch(2);
    Loader loader(dataset, sampler, {.first_step = first_step, .threads = threads});
    for (size_t step = 0; const auto batch = loader.next(); ++step) {
      steps.resize(std::max(steps.size(), step + 1));
      const auto some = samples(*batch);
      steps[step].insert(some.begin(), some.end());
    }
  }
  return steps;
}

TEST(AugmentedImages, AreTheSameForEveryNumberOfThreadsAndWorkersAndFromEveryStep) {
  const TinyFolders folders(40, 2);
  const DatasetPtr train = tiny_imagenet(folders.path()).train;
  const auto whole = epoch_of_workers(train, 1, 0, 0);
  const std::vector rest(whole.begin() + 4, whole.end());

  ASSERT_EQ(whole.size(), 6U);
  for (const int workers : {1, 2}) {
    for (const int threads : {0, 1, 2, 5, -1}) {
      SCOPED_TRACE(fmt::format("{} workers with {} threads", workers, threads));
      EXPECT_EQ(epoch_of_workers(train, workers, threads, 0), whole);
      EXPECT_EQ(epoch_of_workers(train, workers, threads, 4), rest);
    }
  }
}

TEST(AugmentedImages, AreTheSameFromAPack) {
  const TinyFolders folders(12, 4);
  const DatasetPair files = tiny_imagenet(folders.path());
  const os::TemporaryDirectory packs;
  const image::Sets sets = image::find_tiny_imagenet(folders.path());
  image::write_pack(*sets.train, "train", packs.path() / "train.lspack", {});
  image::write_pack(*sets.test, "val", packs.path() / "val.lspack", {});
  const DatasetPair packed = tiny_imagenet(packs.path());

  EXPECT_THAT(packed.origin, HasSubstr("lspack"));
  EXPECT_EQ(packed.classes, files.classes);
  EXPECT_EQ(samples(packed.train->batch(first(12))), samples(files.train->batch(first(12))));
  EXPECT_EQ(samples(packed.test->batch(first(4))), samples(files.test->batch(first(4))));
}

TEST(DamagedImages, AreRefusedByName) {
  const TinyFolders folders(4, 2);
  folders.write(TinyFolders::train_name(2), "");
  const DatasetPtr train = tiny_imagenet(folders.path()).train;

  EXPECT_EQ(message_of([&] { train->batch(first(4)); }),
            fmt::format("74 cannot decode {}: it is empty\n"
                        "  sample: 1\n"
                        "  try:    --corrupt skip, to continue without such files",
                        folders.file(TinyFolders::train_name(2)).string()));
  EXPECT_EQ(targets(train->batch(std::vector<int64_t>{0, 2})).size(), 2U);
}

TEST(DamagedImages, AreReplacedInTrainingAndLeftOutOfATestWithOneWarningEach) {
  const TinyFolders folders(6, 4);
  const DatasetPtr whole = tiny_imagenet(folders.path(), {.augments = false}).train;
  const auto pictures = samples(whole->batch(first(6)));
  // Samples 1 and 2 of class n01 are truncated and not a JPEG; of the test set, the first two.
  const std::string intact = os::read_file(folders.file(TinyFolders::train_name(2)));
  folders.write(TinyFolders::train_name(2), intact.substr(0, intact.size() / 2));
  folders.write(TinyFolders::train_name(4), "<html>not found</html>");
  folders.write(TinyFolders::test_name(0), "");
  folders.write(TinyFolders::test_name(1), "");
  const ImageOptions skips = {.augments = false, .corrupt = "skip"};
  const DatasetPair pair = tiny_imagenet(folders.path(), skips);

  ::testing::internal::CaptureStderr();
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(
        samples(pair.train->batch(first(6))),
        ElementsAre(pictures[0], pictures[3], pictures[3], pictures[3], pictures[4], pictures[5]));
    EXPECT_THAT(targets(pair.test->batch(first(4))), ElementsAre(0, 1));
    EXPECT_EQ(pair.test->batch(first(2)).size(), 0);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();

  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 4);
  EXPECT_THAT(said,
              AllOf(HasSubstr("n01_001.JPEG: it ends early (1 skipped so far)"),
                    HasSubstr("n01_002.JPEG: it "),
                    HasSubstr("(2 skipped so far)"),
                    HasSubstr("val_000.JPEG: it is empty (1 skipped so far)")));
  const std::string refusal = fmt::format(
      "74 cannot read {}: it is not a valid image\n"
      "  sample: 0\n"
      "  try:    use map_batches() instead of map(): batches omit such samples",
      folders.file(TinyFolders::test_name(0)).string());
  EXPECT_EQ(message_of([&] { pair.test->example(0); }), refusal);
  const DatasetPtr mapped = map_batches(pair.test, [](Batch batch) { return batch; });
  EXPECT_EQ(message_of([&] { mapped->example(0); }), refusal);
}

TEST(DamagedImages, KeepTheirPlaceWithAnAugmentationOfItsOwn) {
  const TinyFolders folders(6, 2);
  folders.write(TinyFolders::train_name(2), "");
  const DatasetPtr train = tiny_imagenet(folders.path(), {.corrupt = "skip"}).train;

  ::testing::internal::CaptureStderr();
  const auto once = epoch_of_workers(train, 1, 0, 0);
  EXPECT_EQ(once[0].size(), 6U);
  for (const int threads : {1, 2, 5}) {
    EXPECT_EQ(epoch_of_workers(train, 2, threads, 0), once);
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::set(once[0].begin(), once[0].end()).size(), 6U);
}

TEST(DamagedImages, EndATrainingWithoutAnyOther) {
  const TinyFolders folders(2, 2);
  folders.write(TinyFolders::train_name(0), "");
  folders.write(TinyFolders::train_name(1), "");
  const DatasetPtr train = tiny_imagenet(folders.path(), {.corrupt = "skip"}).train;

  ::testing::internal::CaptureStderr();
  EXPECT_THAT(message_of([&] { train->batch(first(1)); }),
              HasSubstr("74 cannot train: no file is a valid image\n  files: 2"));
  ::testing::internal::GetCapturedStderr();
}

TEST(ImageOptions, ThatMakeNoSenseAreRefused) {
  const os::TemporaryDirectory nothing;
  EXPECT_EQ(message_of([&] { imagenet(nothing.path(), {.size = -1}); }),
            "64 invalid image size of -1 pixels\n"
            "  expected: 1 to 4096; 0: default of the data set");
  EXPECT_EQ(message_of([&] { tiny_imagenet(nothing.path(), {.corrupt = "ignore"}); }),
            "64 invalid --corrupt 'ignore'\n"
            "  expected: refuse or skip\n"
            "  try:      --corrupt skip");
  EXPECT_THAT(message_of([&] { imagenet(nothing.path()); }), HasSubstr("74 cannot find"));
}

TEST(ImagesForAGpu, NeedAGpu) {
  const TinyFolders folders(2, 2);

  EXPECT_EQ(message_of([&] { tiny_imagenet(folders.path(), {.jpeg = "gpu"}); }),
            "64 cannot decode JPEG files on a GPU: the training runs on the CPU\n"
            "  requested: --jpeg gpu\n"
            "  try:       --device cuda, or --jpeg auto");
  EXPECT_THAT(message_of([&] { tiny_imagenet(folders.path(), {.jpeg = "tpu"}); }),
              HasSubstr("invalid --jpeg 'tpu'"));
  EXPECT_EQ(tiny_imagenet(folders.path(), {.jpeg = "auto"}).train->size(), 2);
}

TEST(ImagesForAGpu, NeedNvjpegUnlessTheCpuMayDecode) {
  if (torch::cuda::is_available()) {
    GTEST_SKIP() << "needs a machine without a GPU";
  }
  const TinyFolders folders(2, 2);
  ImageOptions options{.device = torch::Device(torch::kCUDA, 0), .jpeg = "gpu"};

  EXPECT_THAT(message_of([&] { tiny_imagenet(folders.path(), options); }),
              HasSubstr("69 cannot decode JPEG files on a GPU: "));

  options.jpeg = "auto";
  EXPECT_EQ(tiny_imagenet(folders.path(), options).train->batch(first(2)).size(), 2);
}

// The decoder on a GPU averages luma from its full size. Chroma with half as many rows and columns
// is reduced by one step less.
TEST(SampleJobs, DescribePlanesAsLibjpegReducesThem) {
  image::Maker maker(image::Recipe{.size = 32, .resize = 32});
  image::RenderPlan plan;
  const std::string text = jpeg_text(101, 67, 0);
  const auto file = std::as_bytes(std::span(text.data(), text.size()));
  const auto header = maker.plan(file, 1, plan);
  const kernels::SampleJob job = data::describe_job(header, plan);

  EXPECT_EQ(header.coding, image::Coding::Yuv420);
  EXPECT_EQ(plan.eighths, 4);
  EXPECT_THAT((std::vector{job.planes[0].width, job.planes[0].height, job.planes[0].shift}),
              ElementsAre(101, 67, 1));
  EXPECT_THAT((std::vector{job.planes[1].width, job.planes[1].height, job.planes[1].shift}),
              ElementsAre(51, 34, 0));
  EXPECT_FALSE(job.halves_x || job.halves_y);
  EXPECT_LE(job.left + job.width, 51);
}

}  // namespace
}  // namespace lockstep
