// SPDX-License-Identifier: Apache-2.0
// The files of a run directory, independent of the program.
#include <filesystem>
#include <gmock/gmock.h>

#include "common/contract/event.h"
#include "common/contract/node_sample.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Collect : public ::testing::Test {
 protected:
  Result run(const std::vector<std::string>& options, const std::string& script) {
    start(options, script);
    return launcher.wait();
  }
  void start(const std::vector<std::string>& options, const std::string& script) {
    std::vector<std::string> words = {"run", "--nproc-per-node", "2", "--run-dir", "run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"sh", "-c", script});
    launcher.start(words);
  }
  // Ends workers that run kUntilStopped.
  Result finish() {
    std::ofstream(launcher.path("go")) << "now\n";
    return launcher.wait();
  }
  static std::vector<std::string> lines_of(const fs::path& path) {
    std::vector<std::string> lines = split(read_text(path), '\n');
    std::erase(lines, "");
    return lines;
  }

  static constexpr const char* kUntilStopped = "while [ ! -e go ]; do sleep 0.02; done";

  Launcher launcher;
};

TEST_F(Collect, ASampleOfTheNodeEverySoOften) {
  start({"--sample-every", "0.2"}, kUntilStopped);
  contract::NodeSample last;
  EXPECT_TRUE(comes_true([&] {
    const auto lines = lines_of(launcher.run_directory().node_samples(0));
    if (lines.size() < 3) {
      return false;
    }
    last = contract::parse_node_sample(lines[lines.size() - 2]);  // the last may be incomplete
    return last.workers.size() == 2;
  }));
  const Result result = finish();

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_EQ(last.node, 0);
  EXPECT_GT(last.memory_bytes, 0);
  EXPECT_GT(last.memory_limit_bytes, 0);
}

TEST_F(Collect, NoSamplesUnlessRequested) {
  const Result result = run({"--sample-every", "0"}, "sleep 0.3");

  EXPECT_EQ(result.status.code, 0);
  EXPECT_FALSE(fs::exists(launcher.run_directory().node_samples(0)));
}

TEST_F(Collect, NumbersThatWorkersPrint) {
  const Result result = run({"--metric",
                             "loss=loss: ([0-9.]+)",
                             "--metric",
                             "train/step=step ([0-9]+)",
                             "--redirects",
                             "2"},
                            "echo \"loss: 0.$RANK step 7\"; echo 'loss: 9' >&2");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  const auto lines = lines_of(launcher.run_directory().output_metrics(1));
  ASSERT_EQ(lines.size(), 3U);
  bool is_found = false;
  for (const std::string& line : lines) {
    const contract::Event event = contract::parse_event(line);
    EXPECT_EQ(event.kind, "metric");
    EXPECT_EQ(event.rank, 1);
    is_found = is_found || contract::find_number(event, "value") == 0.1;
  }
  EXPECT_TRUE(is_found);
  EXPECT_EQ(lines_of(launcher.run_directory().output_metrics(0)).size(), 3U);
}

TEST_F(Collect, OneWarningWhenTheDiskIsFull) {
  const fs::path file = launcher.run_directory().node_samples(0);
  fs::create_directories(file.parent_path());
  fs::create_symlink("/dev/full", file);
  fs::create_symlink("/dev/full", launcher.run_directory().output_metrics(0));
  fs::create_directories(launcher.run_directory().log(0, 0).parent_path());
  fs::create_symlink("/dev/full", launcher.run_directory().log(0, 0));
  fs::create_symlink("/dev/full", launcher.run_directory().log(0, 1));

  const Result result = run({"--sample-every", "0.1", "--metric", "n=n ([0-9]+)"},
                            "for i in 1 2 3 4 5; do echo n $i; sleep 0.2; done; echo done");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("done\n"));
  const size_t first = result.errors.find("No space left on device");
  ASSERT_NE(first, std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find("No space left on device", first + 1), std::string::npos)
      << result.errors;
  EXPECT_EQ(lines_of(launcher.run_directory().output_metrics(1)).size(), 5U);
}

TEST_F(Collect, OneWarningWhenTheDirectoryIsAFile) {
  fs::create_directories(launcher.run_directory().root());
  std::ofstream(launcher.run_directory().root() / "events") << "in the way";

  start({"--sample-every", "0.1"}, std::string(kUntilStopped) + "; sleep 0.5");
  EXPECT_TRUE(comes_true([&] {
    return read_text(launcher.path("stderr")).find("cannot write") != std::string::npos;
  }));
  const Result result = finish();  // after some more samples

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("cannot write"));
  EXPECT_EQ(result.errors.find("cannot write"), result.errors.rfind("cannot write"));
}

TEST_F(Collect, NothingIsStartedWithAMetricThatCannotBe) {
  const Result result = run({"--metric", "loss=loss: [0-9"}, "touch started");

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("invalid regular expression"),
                    HasSubstr("--metric 'loss=loss: ([0-9.e+-]+)'")));
  EXPECT_FALSE(fs::exists(launcher.path("started")));
}

}  // namespace
}  // namespace lockstep::testing
