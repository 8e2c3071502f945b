// SPDX-License-Identifier: Apache-2.0
//
// Images decoded by nvJPEG, compared with those of libjpeg.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <gmock/gmock.h>
#include <numeric>
#include <torch/cuda.h>

#include "common/image/jpegs.h"
#include "lockstep/loader.h"
#include "training/data/image_files.h"

namespace lockstep {
namespace {

using data::Damaged;
using image::File;
using image::Jpeg;

// Files in memory. The label of a file is its number.
class FileStore : public image::Store {
 public:
  explicit FileStore(std::vector<File> files) : files_(std::move(files)) {}

  int64_t size() const override { return std::ssize(files_); }
  int64_t label(int64_t index) const override { return index; }
  std::string name(int64_t index) const override { return "file " + std::to_string(index); }
  std::span<const std::byte> read(int64_t index, std::vector<std::byte>&) const override {
    return files_[static_cast<size_t>(index)];
  }
  const std::vector<image::ClassName>& classes() const override { return classes_; }

 private:
  std::vector<File> files_;
  std::vector<image::ClassName> classes_;
};

// Waves, edges and some noise, different in each channel.
Jpeg photo(int width, int height, int horizontal, int vertical, int channels = 3) {
  Jpeg jpeg;
  jpeg.width = width;
  jpeg.height = height;
  jpeg.channels = channels;
  jpeg.horizontal = horizontal;
  jpeg.vertical = vertical;
  jpeg.quality = 90;
  jpeg.pixel = [](int x, int y, int c) {
    const double wave = 60 * std::sin(x * 0.05 + c) * std::cos(y * 0.04 * (c + 1));
    const int noise = (x * 7919 + y * 104729 + c * 31) % 21 - 10;
    const int edge = (x / 40 + y / 30) % 2 == 0 ? 40 : -40;
    return std::clamp(128 + static_cast<int>(wave) + noise + edge, 0, 255);
  };
  return jpeg;
}

std::vector<int64_t> numbers(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

data::ImageFilesOptions options_of(Damaged damaged, bool augments = true) {
  return {.recipe = {.size = 224, .augments = augments},
          .seed = 7,
          .damaged = damaged,
          .gpu = torch::Device(torch::kCUDA, 0)};
}

class GpuImages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) {
      GTEST_SKIP() << "needs a GPU";
    }
    try {
      check(data::image_files(
                std::make_shared<FileStore>(std::vector<File>{encode(photo(64, 64, 2, 2))}),
                options_of(Damaged::Refuse)),
            1);
    } catch (const std::exception& missing) {
      GTEST_SKIP() << "needs nvJPEG: " << missing.what();
    }
  }

  // The batch of the first samples for the GPU, compared with that of the CPU.
  static void check(const DatasetPtr& dataset, int64_t count) {
    const std::vector<int64_t> all = numbers(count);
    Loader loader(dataset, 1, [&](int64_t) { return all; }, {.pin_memory = true});
    const Batch batch = *loader.next();
    const Batch usual = dataset->batch(all);

    ASSERT_TRUE(batch.input.is_cuda() && batch.target.is_cuda());
    EXPECT_TRUE(batch.input.is_contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(batch.target.cpu().equal(usual.target));
    ASSERT_EQ(batch.size(), usual.size());
    const torch::Tensor difference =
        (batch.input.cpu().to(torch::kFloat32) - usual.input.to(torch::kFloat32)).abs();
    for (int64_t i = 0; i < batch.size(); ++i) {
      const auto most = difference[i].max().item<float>();
      std::printf("sample %2d: maximum %g, mean %.3f levels\n",
                  static_cast<int>(usual.target[i].item<int64_t>()),
                  static_cast<double>(most),
                  static_cast<double>(difference[i].mean().item<float>()));
      EXPECT_LE(most, 2) << "sample " << i;
    }
  }
};

std::vector<File> files_of_all_kinds() {
  Jpeg turned = photo(500, 375, 2, 2);
  turned.orientation = 6;
  Jpeg progressive = photo(500, 375, 2, 2);
  progressive.is_progressive = true;
  Jpeg restarts = photo(500, 375, 2, 2);
  restarts.restarts = 1;
  return {encode(photo(500, 375, 2, 2)),     // 0: 4:2:0
          encode(photo(501, 377, 2, 2)),     // 1
          encode(photo(500, 375, 2, 1)),     // 2: 4:2:2
          encode(photo(499, 375, 1, 1)),     // 3: 4:4:4
          encode(photo(500, 375, 1, 1, 1)),  // 4: grey
          encode(photo(1203, 907, 2, 2)),    // 5: reduced by libjpeg
          encode(photo(100, 130, 2, 2)),     // 6: enlarged
          encode(turned),                    // 7: EXIF orientation
          encode(restarts),                  // 8
          encode(progressive),               // 9: from here on, only the CPU
          encode(photo(400, 300, 1, 1, 4)),  // 10: CMYK
          encode(photo(400, 300, 1, 2)),     // 11: 4:4:0
          encode(photo(8, 8, 2, 2))};        // 12: tiny
}

TEST_F(GpuImages, AreWithinTwoLevelsOfThoseOfTheCpu) {
  constexpr int64_t kOnGpu = 9;
  for (const bool augments : {false, true}) {
    const std::vector<File> files = files_of_all_kinds();
    const auto dataset = data::image_files(std::make_shared<FileStore>(files),
                                           options_of(Damaged::Refuse, augments));
    check(dataset, std::ssize(files));

    const data::DecodeCounts counts = data::decode_counts(*dataset);
    EXPECT_EQ(counts.gpu, kOnGpu);
    EXPECT_EQ(counts.cpu, std::ssize(files) - kOnGpu);
  }
}

TEST_F(GpuImages, FallBackToTheCpuForCorruptFiles) {
  File truncated = encode(photo(500, 375, 2, 2));
  truncated.resize(truncated.size() / 2);
  const std::vector<File> files = {encode(photo(500, 375, 2, 2)),
                                   image::bytes_of("\x89PNG is none"),
                                   encode(photo(400, 300, 2, 2)),
                                   truncated,
                                   encode(photo(300, 400, 2, 2))};
  const auto store = std::make_shared<FileStore>(files);
  for (const Damaged damaged : {Damaged::Replace, Damaged::LeaveOut}) {
    check(data::image_files(store, options_of(damaged)), 5);
  }
  EXPECT_ANY_THROW(check(data::image_files(store, options_of(Damaged::Refuse)), 5));
}

TEST_F(GpuImages, ComeInTheSameOrderFromSeveralThreads) {
  std::vector<File> files;
  for (int i = 0; i < 24; ++i) {
    files.push_back(encode(photo(100 + 17 * i, 300 - 5 * i, 2, 2)));
  }
  const auto dataset =
      data::image_files(std::make_shared<FileStore>(files), options_of(Damaged::Refuse));
  const DatasetPtr epoch = dataset->in_epoch(3);
  const auto indices = [](int64_t step) {
    return std::vector<int64_t>{step * 5 % 24, step * 7 % 24, step * 11 % 24};
  };
  constexpr int64_t kSteps = 40;
  Loader loader(epoch, kSteps, indices, {.threads = 3, .pin_memory = true});
  for (int64_t step = 0; step < kSteps; ++step) {
    const Batch batch = *loader.next();
    const Batch usual = epoch->batch(indices(step));

    EXPECT_TRUE(batch.target.cpu().equal(usual.target));
    EXPECT_LE(
        (batch.input.cpu().to(torch::kInt) - usual.input.to(torch::kInt)).abs().max().item<int>(),
        2);
  }
}

}  // namespace
}  // namespace lockstep
