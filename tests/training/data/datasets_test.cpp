// SPDX-License-Identifier: Apache-2.0
#include "lockstep/datasets.h"

#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <numeric>
#include <optional>
#include <string>
#include <vector>
#include <zlib.h>

#include "common/os/environment.h"
#include "common/os/files.h"
#include "training/data/digits.h"
#include "training/data/message_of.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

// `count` images; pixel p of image i is (i + p) % 256, its label i % 10.
std::string images(uint8_t count) {
  std::string bytes("\0\0\x08\x03\0\0\0\0\0\0\0\x1c\0\0\0\x1c", 16);
  bytes[7] = static_cast<char>(count);
  for (int i = 0; i < count; ++i) {
    for (int pixel = 0; pixel < 784; ++pixel) {
      bytes.push_back(static_cast<char>((i + pixel) % 256));
    }
  }
  return bytes;
}

std::string labels(uint8_t count) {
  std::string bytes("\0\0\x08\x01\0\0\0\0", 8);
  bytes[7] = static_cast<char>(count);
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(i % 10));
  }
  return bytes;
}

void write_mnist(const fs::path& directory, uint8_t train_count = 20) {
  os::make_directories(directory);
  os::write_file(directory / "train-images-idx3-ubyte", images(train_count));
  os::write_file(directory / "train-labels-idx1-ubyte", labels(train_count));
  os::write_file(directory / "t10k-images-idx3-ubyte", images(5));
  os::write_file(directory / "t10k-labels-idx1-ubyte", labels(5));
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> indices(static_cast<size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

TEST(Mnist, IsFoundInEachOfItsThreePlaces) {
  for (const char* place : {"mnist", ".", "MNIST/raw"}) {
    const os::TemporaryDirectory directory;
    write_mnist(directory.path() / place);
    const DatasetPair pair = mnist(directory.path());

    EXPECT_EQ(pair.train->size(), 20) << place;
    EXPECT_EQ(pair.test->size(), 5) << place;
    EXPECT_THAT(pair.origin, HasSubstr("MNIST in " + directory.path().string()));
  }
}

TEST(Mnist, MakesTheBatchThatToTensorAndNormalizeMake) {
  const os::TemporaryDirectory directory;
  write_mnist(directory.path());
  const std::vector<int64_t> indices = {7, 0, 19, 7};
  const Batch batch = mnist(directory.path()).train->batch(indices);

  ASSERT_EQ(batch.input.sizes(), (std::vector<int64_t>{4, 1, 28, 28}));
  EXPECT_EQ(batch.input.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(batch.target, torch::tensor({7, 0, 9, 7}, torch::kInt64)));
  const auto bytes = (torch::tensor(indices).view({4, 1}) + torch::arange(784)).remainder(256);
  const auto expected = (bytes.to(torch::kFloat32).div(255).sub(0.1307F)).div(0.3081F);
  EXPECT_TRUE(torch::equal(batch.input, expected.view({4, 1, 28, 28})));
}

TEST(Mnist, GivesExamplesWithoutABatchDimension) {
  const os::TemporaryDirectory directory;
  write_mnist(directory.path());
  const Example one = mnist(directory.path()).test->example(3);

  EXPECT_EQ(one.input.sizes(), (std::vector<int64_t>{1, 28, 28}));
  EXPECT_EQ(one.target.dim(), 0);
  EXPECT_EQ(one.target.item<int64_t>(), 3);
}

TEST(Mnist, PrefersPlainFilesAndReadsCompressedOnes) {
  const os::TemporaryDirectory directory;
  write_mnist(directory.path());
  const auto plain = directory.path() / "train-images-idx3-ubyte";
  gzFile packed = gzopen((plain.string() + ".gz").c_str(), "wb");
  const std::string content = images(20);
  gzwrite(packed, content.data(), static_cast<unsigned>(content.size()));
  gzclose(packed);
  const auto indices = range(0, 20);
  const Batch from_plain = mnist(directory.path()).train->batch(indices);
  fs::remove(plain);
  const Batch from_packed = mnist(directory.path()).train->batch(indices);

  EXPECT_TRUE(torch::equal(from_plain.input, from_packed.input));
}

TEST(Mnist, ReportsWhereItLookedAndWhatToDo) {
  const os::TemporaryDirectory directory;
  const std::string root = directory.path().string();
  os::make_directories(directory.path() / "mnist");
  os::write_file(directory.path() / "mnist" / "train-images-idx3-ubyte", images(1));
  os::write_file(directory.path() / "mnist" / "t10k-labels-idx1-ubyte.gz", "");

  EXPECT_EQ(message_of([&] { mnist(directory.path()); }),
            fmt::format(
                "74 cannot find MNIST in {0}\n"
                "  searched: {0}/mnist  (missing train-labels-idx1-ubyte, t10k-images-idx3-ubyte)\n"
                "  searched: {0}  (none of the four files)\n"
                "  searched: {0}/MNIST/raw  (no such directory)\n"
                "  try:      lockstep data fetch mnist --data-dir {0}\n"
                "  try:      --generated-digits, to train on generated digits without a download",
                root));
}

TEST(Mnist, RefusesADirectoryThatIsNotThere) {
  EXPECT_EQ(message_of([] { mnist("no/such/data"); }),
            "74 cannot find MNIST in no/such/data\n"
            "  searched: no/such/data/mnist  (no such directory)\n"
            "  searched: no/such/data  (no such directory)\n"
            "  searched: no/such/data/MNIST/raw  (no such directory)\n"
            "  try:      lockstep data fetch mnist --data-dir no/such/data\n"
            "  try:      --generated-digits, to train on generated digits without a download");
}

TEST(Mnist, HasTheLabelCountsOfTheRealFiles) {
  const auto named = os::find_variable(os::environment(), "LOCKSTEP_DATA_DIR");
  const fs::path root = named ? fs::path(*named) : fs::path(LOCKSTEP_SOURCE_DIR) / "data";
  std::optional<DatasetPair> pair;
  try {
    pair = mnist(root);
  } catch (const Error& error) {
    GTEST_SKIP() << "needs the real files: " << error.what();
  }

  ASSERT_EQ(pair->train->size(), 60000);
  ASSERT_EQ(pair->test->size(), 10000);
  const Batch test = pair->test->batch(range(0, 10000));
  const auto counts = torch::bincount(test.target);
  const auto known =
      torch::tensor({980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}, torch::kInt64);
  EXPECT_TRUE(torch::equal(counts, known)) << counts;
}

TEST(GeneratedDigits, AreTheSameToTheBitOnEveryPlatform) {
  const data::LabelledImages images = data::draw_digits(1000, 1, 0);
  const auto sum = [](const data::Bytes& bytes) {
    return crc32(0, bytes.span.data(), static_cast<uInt>(bytes.span.size()));
  };

  EXPECT_EQ(sum(images.pixels), 4163297688U);
  EXPECT_EQ(sum(images.labels), 2106693941U);
}

TEST(GeneratedDigits, DependOnSeedAndIndexOnly) {
  const auto few = range(0, 50);
  const Batch small = generated_digits(50, 50, 1).train->batch(few);
  const Batch large = generated_digits(200, 10, 1).train->batch(few);
  const Batch other = generated_digits(50, 50, 2).train->batch(few);

  EXPECT_TRUE(torch::equal(small.input, large.input));
  EXPECT_TRUE(torch::equal(small.target, large.target));
  EXPECT_FALSE(torch::equal(small.input, other.input));
}

TEST(GeneratedDigits, LookLikeMnistToAModel) {
  const DatasetPair pair = generated_digits(2000, 500, 1);
  const Batch train = pair.train->batch(range(0, 2000));
  const Batch test = pair.test->batch(range(0, 500));

  EXPECT_EQ(train.input.sizes(), (std::vector<int64_t>{2000, 1, 28, 28}));
  EXPECT_EQ(train.target.scalar_type(), torch::kInt64);
  EXPECT_GT(torch::bincount(train.target, {}, 10).min().item<int64_t>(), 150);
  EXPECT_NEAR(train.input.mean().item<double>(), 0.0, 0.3);
  EXPECT_FALSE(torch::equal(train.input.slice(0, 0, 500), test.input));
  EXPECT_EQ(pair.origin, "generated digits, seed 1");
}

// Without learning: the nearest of 2000 generated digits usually, but not always, has the same
// label.
TEST(GeneratedDigits, AreRecognisableButNotTrivial) {
  const DatasetPair pair = generated_digits(2000, 200, 1);
  const Batch train = pair.train->batch(range(0, 2000));
  const Batch test = pair.test->batch(range(0, 200));
  const auto nearest = torch::cdist(test.input.flatten(1), train.input.flatten(1)).argmin(1);
  const auto right = train.target.index_select(0, nearest).eq(test.target).sum().item<int64_t>();

  EXPECT_GT(right, 120);
  EXPECT_LT(right, 200);
}

TEST(GeneratedDigits, RefuseToBeNone) {
  EXPECT_EQ(message_of([] { generated_digits(0, 10, 1); }),
            "64 cannot generate an empty data set\n"
            "  train: 0\n"
            "  test:  10");
}

}  // namespace
}  // namespace lockstep
