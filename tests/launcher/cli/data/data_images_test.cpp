// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::Launcher;
using lockstep::testing::Result;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A small generated data set in data/.
class Images : public ::testing::Test {
 protected:
  Result make() {
    return launcher.run({"data",
                         "make",
                         "tiny-imagenet-like",
                         "--classes",
                         "2",
                         "--per-class",
                         "3",
                         "--val-per-class",
                         "1"});
  }

  std::string refusal(std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    const Result result = launcher.run(words);
    EXPECT_THAT(result.output, IsEmpty());
    return std::to_string(result.status.code) + " " + result.errors;
  }

  fs::path train(const std::string& file) const {
    return launcher.path("data/tiny-imagenet-like/train/n90000001/images/" + file);
  }

  Launcher launcher;
};

TEST_F(Images, AreMadePackedAndChecked) {
  Result result = make();
  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_EQ(result.output,
            "tiny-imagenet-like generated: data/tiny-imagenet-like, 2 classes with 3 training and "
            "1 validation images each\n");

  result = launcher.run({"data", "check", "tiny-imagenet"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_EQ(result.output,
            "tiny-imagenet: 6 training images, 2 validation images, 2 classes, 0 corrupt\n");
  EXPECT_EQ(result.errors, "lockstep: checking generated images in data/tiny-imagenet-like\n");

  result = launcher.run({"data", "pack", "tiny-imagenet", "--short-side", "32"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output,
              HasSubstr("data/tiny-imagenet-train.lspack: 6 images, 6 scaled down, 0 corrupt, "));
  EXPECT_THAT(result.output, HasSubstr("data/tiny-imagenet-val.lspack: 2 images, 2 scaled down"));

  result = launcher.run({"data", "check", "tiny-imagenet"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_EQ(result.errors,
            "lockstep: checking generated images in data/tiny-imagenet-train.lspack and "
            "tiny-imagenet-val.lspack, packed from tiny-imagenet-like\n");

  // Packs again from the folders, not from the scaled images of the packs.
  result = launcher.run({"data", "pack", "tiny-imagenet", "--short-side", "48"});
  EXPECT_EQ(result.errors, "lockstep: packing generated images in data/tiny-imagenet-like\n");
  EXPECT_THAT(result.output, HasSubstr("6 images, 6 scaled down"));
}

TEST_F(Images, MustBeThereToTrainAndToValidate) {
  make();
  fs::remove_all(launcher.path("data/tiny-imagenet-like/val/images"));
  fs::create_directory(launcher.path("data/tiny-imagenet-like/val/images"));
  std::ofstream(launcher.path("data/tiny-imagenet-like/val/val_annotations.txt")) << "";
  const Result result = launcher.run({"data", "check", "tiny-imagenet"});

  EXPECT_EQ(result.status.code, 1) << result.errors;
  EXPECT_EQ(result.output,
            "tiny-imagenet: 6 training images, 0 validation images, 2 classes, 0 corrupt\n"
            "no validation images: train with --no-validation\n");
}

TEST_F(Images, ThatAreCopiedAsTheyAreAreNotCalledSound) {
  make();
  const Result result = launcher.run({"data", "pack", "tiny-imagenet"});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output,
              HasSubstr("data/tiny-imagenet-train.lspack: 6 images, copied without a check, "));
}

TEST_F(Images, ThatAreCorruptAreNamed) {
  make();
  std::ofstream(train("n90000001_0.JPEG")) << "";
  std::ofstream(train("n90000001_2.JPEG")) << "\x89PNG....";
  fs::resize_file(train("n90000001_1.JPEG"), 700);
  const std::string folder = "data/tiny-imagenet-like/train/n90000001/images/n90000001_";

  Result result = launcher.run({"data", "check", "tiny-imagenet", "--threads", "1"});
  EXPECT_EQ(result.status.code, 1);
  EXPECT_EQ(result.output,
            folder + "0.JPEG: is empty\n" + folder + "1.JPEG: ends early\n" + folder +
                "2.JPEG: is a PNG file, not a JPEG, like n02105855_2933.JPEG of ImageNet "
                "(--corrupt skip trains without it)\n"
                "tiny-imagenet: 6 training images, 2 validation images, 2 classes, 3 corrupt\n");

  result = launcher.run({"data", "pack", "tiny-imagenet", "--short-side", "32", "--output", "out"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, HasSubstr(folder + "0.JPEG: is empty\n"));
  EXPECT_THAT(result.output,
              HasSubstr("out/tiny-imagenet-train.lspack: 6 images, 3 scaled down, 3 corrupt, "));
  EXPECT_FALSE(fs::exists(launcher.path("data/tiny-imagenet-train.lspack")));
}

TEST_F(Images, AreNotPackedWhereThereAreNone) {
  make();
  const fs::path set = launcher.path("data/tiny-imagenet-like");
  std::ofstream(set / "wnids.txt") << "";
  std::ofstream(set / "val/val_annotations.txt") << "";
  for (const char* folder : {"train", "val/images"}) {
    fs::remove_all(set / folder);
    fs::create_directories(set / folder);
  }

  const Result result = launcher.run({"data", "pack", "tiny-imagenet"});

  EXPECT_EQ(result.status.code, 64);
  EXPECT_EQ(result.errors,
            "lockstep: error: cannot pack TinyImageNet in data/tiny-imagenet-like: no training "
            "images\n  try: lockstep data check tiny-imagenet\n");
  EXPECT_FALSE(fs::exists(launcher.path("data/tiny-imagenet-train.lspack")));
}

TEST_F(Images, AreNotMadeOverWhatIsThere) {
  fs::create_directories(launcher.path("data/tiny-imagenet-like"));
  std::ofstream(launcher.path("data/tiny-imagenet-like/mine")) << "keep me\n";

  const Result result = make();

  EXPECT_EQ(result.status.code, 64);
  EXPECT_EQ(
      result.errors,
      "lockstep: error: cannot make tiny-imagenet-like: data/tiny-imagenet-like already exists\n"
      "  try: rm -r data/tiny-imagenet-like, or another --data-dir\n");
  EXPECT_EQ(lockstep::testing::read_text(launcher.path("data/tiny-imagenet-like/mine")),
            "keep me\n");
}

TEST_F(Images, AreAsLargeAsAsked) {
  const Result result = launcher.run({"data",
                                      "make",
                                      "tiny-imagenet-like",
                                      "--classes",
                                      "2",
                                      "--per-class",
                                      "4",
                                      "--val-per-class",
                                      "1",
                                      "--size",
                                      "500x375"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  // The size of a photograph with these edges.
  EXPECT_NEAR(static_cast<double>(fs::file_size(train("n90000001_0.JPEG"))), 90000, 60000);
}

TEST_F(Images, AreRefusedWithWhatWouldDo) {
  EXPECT_EQ(refusal({"make", "tiny-imagenet"}),
            "64 lockstep: error: cannot make 'tiny-imagenet': unknown image data set\n"
            "  available: tiny-imagenet-like\n"
            "  try:       lockstep data make tiny-imagenet-like\n");
  EXPECT_EQ(refusal({"make"}),
            "64 lockstep: error: cannot make: no data set given\n"
            "  available: tiny-imagenet-like\n"
            "  try:       lockstep data make tiny-imagenet-like\n");
  EXPECT_EQ(refusal({"pack", "tiny-imagnet"}),
            "64 lockstep: error: cannot pack 'tiny-imagnet': unknown image data set\n"
            "  available: tiny-imagenet, imagenet\n"
            "  try:       lockstep data pack tiny-imagenet\n");
  EXPECT_EQ(refusal({"check", "mnist"}),
            "64 lockstep: error: cannot check 'mnist': unknown image data set\n"
            "  available: tiny-imagenet, imagenet\n"
            "  try:       lockstep data check tiny-imagenet\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--classes", "201"}),
            "64 lockstep: error: --classes 201 is out of range\n"
            "  expected: 2 to 200\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--per-class", "0"}),
            "64 lockstep: error: --per-class 0 is out of range\n"
            "  expected: 1 to 1000000\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--size", "5by5"}),
            "64 lockstep: error: invalid value '5by5' for --size\n"
            "  expected: PIXELS or WIDTHxHEIGHT\n"
            "  try:      --size 64, or --size 500x375\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--size", "64x4"}),
            "64 lockstep: error: --size 4 is out of range\n"
            "  expected: 8 to 20000\n");
  EXPECT_EQ(refusal({"pack", "imagenet", "--quality", "101"}),
            "64 lockstep: error: --quality 101 is out of range\n"
            "  expected: 1 to 100\n");
  EXPECT_EQ(refusal({"check", "imagenet", "--threads", "-1"}),
            "64 lockstep: error: --threads -1 is out of range\n"
            "  expected: 0 to 1024\n");
  EXPECT_EQ(refusal({"check", "imagenet"}),
            "74 lockstep: error: cannot find ImageNet in data\n"
            "  searched: data/imagenet  (no such directory)\n"
            "  searched: data/ILSVRC  (no such directory)\n"
            "  searched: data/imagenet/ILSVRC  (no such directory)\n"
            "  searched: data  (no such directory)\n"
            "  try:      put train/ and val/ of ImageNet into data/imagenet\n");
}

}  // namespace
}  // namespace lockstep::cli
