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

// A small drawn set in data/.
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
            "tiny-imagenet-like is here: data/tiny-imagenet-like, 2 classes of 3 images, and 1 of "
            "each to validate\n");

  result = launcher.run({"data", "check", "tiny-imagenet"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_EQ(result.output,
            "tiny-imagenet: 6 images to train, 2 to validate, 2 classes, 0 corrupt\n");
  EXPECT_EQ(result.errors, "lockstep: checking drawn images in data/tiny-imagenet-like\n");

  result = launcher.run({"data", "pack", "tiny-imagenet", "--short-side", "32"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output,
              HasSubstr("data/tiny-imagenet-train.lspack: 6 images, 6 of them made smaller, 0 "
                        "corrupt, "));
  EXPECT_THAT(result.output, HasSubstr("data/tiny-imagenet-val.lspack: 2 images, 2 of them made"));

  result = launcher.run({"data", "check", "tiny-imagenet"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_EQ(result.errors,
            "lockstep: checking drawn images in data/tiny-imagenet-train.lspack and "
            "tiny-imagenet-val.lspack, packed from tiny-imagenet-like\n");

  // Again from the folders, not from the smaller images of the packs.
  result = launcher.run({"data", "pack", "tiny-imagenet", "--short-side", "48"});
  EXPECT_EQ(result.errors, "lockstep: packing drawn images in data/tiny-imagenet-like\n");
  EXPECT_THAT(result.output, HasSubstr("6 images, 6 of them made smaller"));
}

TEST_F(Images, MustBeThereToTrainAndToValidate) {
  make();
  fs::remove_all(launcher.path("data/tiny-imagenet-like/val/images"));
  fs::create_directory(launcher.path("data/tiny-imagenet-like/val/images"));
  std::ofstream(launcher.path("data/tiny-imagenet-like/val/val_annotations.txt")) << "";
  const Result result = launcher.run({"data", "check", "tiny-imagenet"});

  EXPECT_EQ(result.status.code, 1) << result.errors;
  EXPECT_EQ(result.output,
            "tiny-imagenet: 6 images to train, 0 to validate, 2 classes, 0 corrupt\n"
            "nothing to validate with: a training needs --no-validation\n");
}

TEST_F(Images, ThatAreCopiedAsTheyAreAreNotCalledSound) {
  make();
  const Result result = launcher.run({"data", "pack", "tiny-imagenet"});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(
      result.output,
      HasSubstr("data/tiny-imagenet-train.lspack: 6 images, copied as they are, unchecked, "));
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
                "2.JPEG: is a PNG file, not a JPEG, as n02105855_2933.JPEG of ImageNet is "
                "(--corrupt skip trains without it)\n"
                "tiny-imagenet: 6 images to train, 2 to validate, 2 classes, 3 corrupt\n");

  result = launcher.run({"data", "pack", "tiny-imagenet", "--short-side", "32", "--output", "out"});
  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, HasSubstr(folder + "0.JPEG: is empty\n"));
  EXPECT_THAT(result.output,
              HasSubstr("out/tiny-imagenet-train.lspack: 6 images, 3 of them made smaller, 3 "
                        "corrupt, "));
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
            "lockstep: error: cannot pack TinyImageNet in data/tiny-imagenet-like: there are no "
            "images to train on\n  try: lockstep data check tiny-imagenet\n");
  EXPECT_FALSE(fs::exists(launcher.path("data/tiny-imagenet-train.lspack")));
}

TEST_F(Images, AreNotMadeOverWhatIsThere) {
  fs::create_directories(launcher.path("data/tiny-imagenet-like"));
  std::ofstream(launcher.path("data/tiny-imagenet-like/mine")) << "keep me\n";

  const Result result = make();

  EXPECT_EQ(result.status.code, 64);
  EXPECT_EQ(
      result.errors,
      "lockstep: error: cannot make tiny-imagenet-like: data/tiny-imagenet-like is there already\n"
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
  // What a photograph of this size has.
  EXPECT_NEAR(static_cast<double>(fs::file_size(train("n90000001_0.JPEG"))), 90000, 60000);
}

TEST_F(Images, AreRefusedWithWhatWouldDo) {
  EXPECT_EQ(refusal({"make", "tiny-imagenet"}),
            "64 lockstep: error: cannot make 'tiny-imagenet': no such data set of images\n"
            "  there are: tiny-imagenet-like\n"
            "  try:       lockstep data make tiny-imagenet-like\n");
  EXPECT_EQ(refusal({"make"}),
            "64 lockstep: error: cannot make: no data set is named\n"
            "  there are: tiny-imagenet-like\n"
            "  try:       lockstep data make tiny-imagenet-like\n");
  EXPECT_EQ(refusal({"pack", "tiny-imagnet"}),
            "64 lockstep: error: cannot pack 'tiny-imagnet': no such data set of images\n"
            "  there are: tiny-imagenet, imagenet\n"
            "  try:       lockstep data pack tiny-imagenet\n");
  EXPECT_EQ(refusal({"check", "mnist"}),
            "64 lockstep: error: cannot check 'mnist': no such data set of images\n"
            "  there are: tiny-imagenet, imagenet\n"
            "  try:       lockstep data check tiny-imagenet\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--classes", "201"}),
            "64 lockstep: error: cannot use --classes 201\n"
            "  it may be: 2 to 200\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--per-class", "0"}),
            "64 lockstep: error: cannot use --per-class 0\n"
            "  it may be: 1 to 1000000\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--size", "5by5"}),
            "64 lockstep: error: cannot use --size '5by5'\n"
            "  expected: pixels, or WIDTHxHEIGHT\n"
            "  try:      --size 64, or --size 500x375\n");
  EXPECT_EQ(refusal({"make", "tiny-imagenet-like", "--size", "64x4"}),
            "64 lockstep: error: cannot use --size 4\n"
            "  it may be: 8 to 20000\n");
  EXPECT_EQ(refusal({"pack", "imagenet", "--quality", "101"}),
            "64 lockstep: error: cannot use --quality 101\n"
            "  it may be: 1 to 100\n");
  EXPECT_EQ(refusal({"check", "imagenet", "--threads", "-1"}),
            "64 lockstep: error: cannot use --threads -1\n"
            "  it may be: 0 to 1024\n");
  EXPECT_EQ(refusal({"check", "imagenet"}),
            "74 lockstep: error: cannot find ImageNet in data\n"
            "  looked in: data/imagenet  (no such directory)\n"
            "  looked in: data/ILSVRC  (no such directory)\n"
            "  looked in: data/imagenet/ILSVRC  (no such directory)\n"
            "  looked in: data  (no such directory)\n"
            "  try:       put ImageNet's train/ and val/ into data/imagenet\n");
}

}  // namespace
}  // namespace lockstep::cli
