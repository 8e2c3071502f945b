// SPDX-License-Identifier: Apache-2.0
#include "common/os/rotating_file.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::os {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RotatingFileTest : public ::testing::Test {
 protected:
  static std::string text_of(const fs::path& path) {
    return fs::exists(path) ? read_file(path) : "none";
  }

  TemporaryDirectory directory_;
  fs::path path_ = directory_.path() / "events" / "node-0.jsonl";
};

TEST_F(RotatingFileTest, MakesItsDirectoryAndAddsToWhatIsThere) {
  EXPECT_TRUE(RotatingFile(path_).append("one\n"));
  EXPECT_TRUE(RotatingFile(path_).append("two\n"));

  EXPECT_EQ(text_of(path_), "one\ntwo\n");
  EXPECT_THAT(find_parts(path_), ElementsAre(path_));
}

TEST_F(RotatingFileTest, BecomesAnOldPartWhenItIsFull) {
  RotatingFile file(path_, {.part_bytes = 8, .old_parts = 2});

  for (const char* line : {"1111\n", "2222\n", "3333\n", "4444\n", "5\n"}) {
    EXPECT_TRUE(file.append(line));
  }

  EXPECT_EQ(text_of(path_), "4444\n5\n");
  EXPECT_EQ(text_of(path_.string() + ".1"), "3333\n");
  EXPECT_EQ(text_of(path_.string() + ".2"), "2222\n");
  EXPECT_EQ(text_of(path_.string() + ".3"), "none");
  EXPECT_THAT(find_parts(path_),
              ElementsAre(path_.string() + ".2", path_.string() + ".1", path_.string()));
}

TEST_F(RotatingFileTest, TakesALineThatIsLongerThanAPart) {
  RotatingFile file(path_, {.part_bytes = 4, .old_parts = 1});

  EXPECT_TRUE(file.append("longer than that\n"));
  EXPECT_TRUE(file.append("next\n"));

  EXPECT_EQ(text_of(path_.string() + ".1"), "longer than that\n");
  EXPECT_EQ(text_of(path_), "next\n");
}

TEST_F(RotatingFileTest, CountsWhatAnotherProcessHasLeft) {
  fs::create_directories(path_.parent_path());
  std::ofstream(path_) << "12345678\n";

  EXPECT_TRUE(RotatingFile(path_, {.part_bytes = 10, .old_parts = 1}).append("new\n"));

  EXPECT_EQ(text_of(path_), "new\n");
}

TEST_F(RotatingFileTest, BeginsItsOwnLineBehindOneThatACrashHasLeftUnfinished) {
  fs::create_directories(path_.parent_path());
  std::ofstream(path_) << "whole\nunfin";

  EXPECT_TRUE(RotatingFile(path_).append("next\n"));

  EXPECT_EQ(text_of(path_), "whole\nunfin\nnext\n");
}

TEST_F(RotatingFileTest, SaysThatTheDiskIsFull) {
  fs::create_directories(path_.parent_path());
  fs::create_symlink("/dev/full", path_);
  RotatingFile file(path_);

  EXPECT_FALSE(file.append("lost\n"));

  EXPECT_THAT(file.fault(), HasSubstr("No space left on device"));
}

TEST_F(RotatingFileTest, GoesOnWhenThereIsRoomAgain) {
  std::ofstream(directory_.path() / "events") << "a file where a directory should be";
  RotatingFile file(path_);
  EXPECT_FALSE(file.append("lost\n"));
  fs::remove(directory_.path() / "events");

  EXPECT_TRUE(file.append("kept\n"));

  EXPECT_EQ(text_of(path_), "kept\n");
}

}  // namespace
}  // namespace lockstep::os
