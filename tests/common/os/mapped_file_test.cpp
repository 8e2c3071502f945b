// SPDX-License-Identifier: Apache-2.0
#include "common/os/mapped_file.h"

#include <gmock/gmock.h>
#include <string>
#include <utility>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

using ::testing::ThrowsMessage;

std::string text(const MappedFile& file) {
  return {file.bytes().begin(), file.bytes().end()};
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "full", "seven\nbytes");
  write_file(directory.path() / "empty", "");

  EXPECT_EQ(text(MappedFile(directory.path() / "full")), "seven\nbytes");
  EXPECT_EQ(text(MappedFile(directory.path() / "empty")), "");
}

TEST(MappedFile, OutlivesTheNameOfTheFileAndAMove) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "one", "one");
  write_file(directory.path() / "two", "two");
  MappedFile first(directory.path() / "one");
  MappedFile second(directory.path() / "two");
  remove_tree(directory.path() / "one");
  second = std::move(first);
  const MappedFile third(std::move(second));

  EXPECT_EQ(text(third), "one");
}

TEST(MappedFile, SaysWhatCannotBeRead) {
  const TemporaryDirectory directory;
  const auto missing = directory.path() / "missing";

  EXPECT_THAT([&] { MappedFile file(missing); },
              ThrowsMessage<Error>("cannot read " + missing.string() +
                                   "\n  reason: No such file or directory  (system)"));
  EXPECT_THAT([&] { MappedFile file(directory.path()); },
              ThrowsMessage<Error>("cannot read " + directory.path().string() +
                                   "\n  reason: Is a directory  (system)"));
}

}  // namespace
}  // namespace lockstep::os
