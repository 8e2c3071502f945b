// SPDX-License-Identifier: Apache-2.0
#include "common/os/growing_file.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::os {
namespace {

class GrowingFile : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::app) << text;
  }

  TemporaryDirectory directory_;
};

TEST_F(GrowingFile, IsReadFromAnyPlace) {
  append("file", "0123456789");

  EXPECT_EQ(find_piece(path("file"), 4, 3)->bytes, "456");
  EXPECT_EQ(find_piece(path("file"), 8, 100)->bytes, "89");
  EXPECT_EQ(find_piece(path("file"), 50, 100)->bytes, "");
  EXPECT_EQ(find_look(path("file"))->size, 10U);
}

TEST_F(GrowingFile, StaysTheSameWhenItIsRenamed) {
  append("file", "old");
  const auto before = find_look(path("file"));
  std::filesystem::rename(path("file"), path("file.1"));
  append("file", "new");

  EXPECT_EQ(find_look(path("file.1")), before);
  EXPECT_NE(find_look(path("file"))->identity, before->identity);
  EXPECT_EQ(find_piece(path("file"), 0, 10)->look, find_look(path("file")));
}

TEST_F(GrowingFile, IsNothingWhereThereIsNone) {
  EXPECT_FALSE(find_look(path("none")));
  EXPECT_FALSE(find_piece(path("none"), 0, 1));
  EXPECT_FALSE(find_look(directory_.path()));
  EXPECT_FALSE(find_piece(directory_.path(), 0, 1));
}

}  // namespace
}  // namespace lockstep::os
