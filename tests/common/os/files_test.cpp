// SPDX-License-Identifier: Apache-2.0
#include "common/os/files.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/error.h"
#include "support/small_files.h"

namespace lockstep::os {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::ThrowsMessage;

class Files : public ::testing::Test {
 protected:
  std::filesystem::path at(const std::string& name) const { return directory_.path() / name; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      result.push_back(entry.path().filename().string());
    }
    std::ranges::sort(result);
    return result;
  }

  TemporaryDirectory directory_;
};

TEST_F(Files, AreReplacedAtomically) {
  const std::string bytes("a\0b\xff", 4);

  atomic_write(at("file"), "old");
  atomic_write(at("file"), bytes);

  EXPECT_EQ(read_file(at("file")), bytes);
  EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(Files, AreReadAtAnyPlace) {
  write_file(at("file"), "0123456789");
  const InputFile file(at("file"));
  std::string middle(3, '\0');

  file.read(4, middle.data(), middle.size());

  EXPECT_EQ(file.size(), 10);
  EXPECT_EQ(middle, "456");
  EXPECT_THAT([&] { file.read(9, middle.data(), middle.size()); },
              ThrowsMessage<Error>(
                  Eq("cannot read " + at("file").string() + ": it ends early\n  byte: 10")));
}

TEST_F(Files, NameThePathAndTheReasonWhenTheyFail) {
  write_file(at("file"), "");
  const std::string missing = at("no/file").string();

  EXPECT_THAT([&] { read_file(missing); },
              ThrowsMessage<Error>(Eq("cannot read " + missing + ": No such file or directory")));
  EXPECT_THAT(
      [&] { read_file(directory_.path()); },
      ThrowsMessage<Error>(Eq("cannot read " + directory_.path().string() + ": Is a directory")));
  EXPECT_THAT([&] { write_file(missing, ""); },
              ThrowsMessage<Error>(Eq("cannot create " + missing + ": No such file or directory")));
  EXPECT_THAT([&] { make_directories(at("file/below")); },
              ThrowsMessage<Error>(Eq("cannot create directory " + at("file/below").string() +
                                      ": Not a directory")));
  EXPECT_THAT([&] { sync_directory(at("no")); },
              ThrowsMessage<Error>(Eq("cannot open directory " + at("no").string() +
                                      ": No such file or directory")));
  EXPECT_THAT([&] { rename_path(at("no"), at("yes")); },
              ThrowsMessage<Error>(Eq("cannot rename " + at("no").string() + " to " +
                                      at("yes").string() + ": No such file or directory")));
}

// A file size limit simulates a full disk: write(2) returns a short count, then an error.
TEST_F(Files, KeepTheOldBytesWhenTheNewOnesDoNotFit) {
  atomic_write(at("file"), "old");
  const pid_t child = ::fork();
  if (child == 0) {
    const testing::SmallFiles small(1000);
    try {
      atomic_write(at("file"), std::string(5000, 'x'));
    } catch (const Error& error) {
      const bool as_expected = error.code() == ExitCode::Io &&
                               std::string(error.what()).ends_with(".partial: File too large");
      ::_exit(as_expected ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);

  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(at("file")), "old");
  EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(Files, ChangePlaces) {
  write_file(at("one"), "1");
  write_file(at("two"), "2");

  if (!exchange_paths(at("one"), at("two"))) {
    GTEST_SKIP() << "this file system cannot exchange two names";
  }
  EXPECT_EQ(read_file(at("one")), "2");
  EXPECT_EQ(read_file(at("two")), "1");
}

TEST_F(Files, HaveLinksThatCanBeTurned) {
  write_file(at("one"), "1");
  write_file(at("two"), "2");

  replace_link(at("link"), "one");
  EXPECT_EQ(read_file(at("link")), "1");
  replace_link(at("link"), "two");
  EXPECT_EQ(read_file(at("link")), "2");
  EXPECT_THAT(names(), ElementsAre("link", "one", "two"));
}

TEST_F(Files, AreRemovedWithAllBelow) {
  make_directories(at("a/b/c"));
  write_file(at("a/b/file"), "x");
  write_file(at("other"), "stays");
  replace_link(at("a/link"), at("other"));

  remove_tree(at("a"));
  remove_tree(at("a"));

  EXPECT_THAT(names(), ElementsAre("other"));
}

TEST_F(Files, TellWhetherAnotherOneHasTheDirectory) {
  make_directories(at("a"));
  {
    const auto mine = DirectoryLock::find(at("a"));
    ASSERT_TRUE(mine);
    rename_path(at("a"), at("b"));
    EXPECT_FALSE(DirectoryLock::find(at("b")));
  }
  EXPECT_TRUE(DirectoryLock::find(at("b")));
}

// Rank 0 renames the directory of a checkpoint as soon as it sees the last index, while the writer
// of that index is still in atomic_write(). Here the write itself removes the name of the
// directory: `self` is a link from the directory to itself, and the file replaces it.
TEST_F(Files, DoNotNeedTheNameOfTheirDirectoryOnceTheyAppear) {
  make_directories(at("draft"));
  std::filesystem::create_symlink(".", at("draft/self"));

  EXPECT_NO_THROW(atomic_write(at("draft/self/self"), "complete"));

  EXPECT_FALSE(std::filesystem::is_directory(at("draft/self")));
  EXPECT_EQ(read_file(at("draft/self")), "complete");
}

TEST(IsUsable, IsTrueOfWhatMayBeReadAndWritten) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "a", "");

  EXPECT_TRUE(is_usable(directory.path() / "a"));
  EXPECT_TRUE(is_usable("/dev/null"));
  EXPECT_FALSE(is_usable(directory.path() / "b"));
}

TEST(TemporaryDirectory, IsGoneAfterwards) {
  std::filesystem::path path;
  {
    const TemporaryDirectory directory("files-test");
    path = directory.path();
    EXPECT_TRUE(path.filename().string().starts_with("files-test-"));
    write_file(path / "file", "x");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace lockstep::os
