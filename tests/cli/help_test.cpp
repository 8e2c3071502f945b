// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::MatchesRegex;

struct Page {
  std::vector<std::string> command;
  std::string golden;
};

std::vector<Page> pages() {
  return {{{}, "help.txt"},
          {{"run"}, "help_run.txt"},
          {{"generate-slurm"}, "help_generate_slurm.txt"},
          {{"status"}, "help_status.txt"},
          {{"watch"}, "help_watch.txt"},
          {{"export"}, "help_export.txt"},
          {{"report"}, "help_report.txt"},
          {{"scaling"}, "help_scaling.txt"},
          {{"logs"}, "help_logs.txt"},
          {{"cancel"}, "help_cancel.txt"},
          {{"dashboard"}, "help_dashboard.txt"},
          {{"env"}, "help_env.txt"},
          {{"env", "build"}, "help_env_build.txt"},
          {{"doctor"}, "help_doctor.txt"},
          {{"network"}, "help_network.txt"},
          {{"data"}, "help_data.txt"},
          {{"data", "fetch"}, "help_data_fetch.txt"},
          {{"data", "list"}, "help_data_list.txt"},
          {{"data", "make"}, "help_data_make.txt"},
          {{"data", "pack"}, "help_data_pack.txt"},
          {{"data", "check"}, "help_data_check.txt"}};
}

std::string help_of(std::vector<std::string> command) {
  command.emplace_back("--help");
  const Result result = Launcher().run(command);
  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.errors, IsEmpty());
  return result.output;
}

TEST(Help, IsAPageToReadForEveryCommand) {
  for (const Page& page : pages()) {
    SCOPED_TRACE(page.golden);
    const std::string text = help_of(page.command);
    expect_golden(text, page.golden);
    for (const std::string& line : split(text, '\n')) {
      EXPECT_LE(line.size(), 80U) << line;
    }
  }
}

TEST(Help, ComesWithTheShortOptionToo) {
  EXPECT_EQ(Launcher().run({"run", "-h"}).output, help_of({"run"}));
}

TEST(Help, ComesToStderrWhenNothingWasAsked) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"data"}}) {
    const Result result = Launcher().run(words);
    EXPECT_EQ(result.status.code, 64);
    EXPECT_THAT(result.output, IsEmpty());
    EXPECT_EQ(result.errors, help_of(words));
  }
}

TEST(Help, IsAlsoThePageOfTheDocumentation) {
  std::string text =
      "# The command line\n"
      "\n"
      "To start a gang, see `lockstep run`; to get data, `lockstep data fetch`. This page is what\n"
      "`--help` prints, made by the test `Help.IsAlsoThePageOfTheDocumentation`; `launch.md` tells "
      "the\n"
      "story.\n";
  for (const Page& page : pages()) {
    std::vector<std::string> words = page.command;
    words.insert(words.begin(), "lockstep");
    text += "\n## " + join(words, " ") + "\n\n```text\n" + help_of(page.command) + "```\n";
  }
  text +=
      "\n## What can go wrong\n"
      "\n"
      "- A misspelt option or subcommand is refused with the closest match, exit code 64, and "
      "nothing\n"
      "  is started. Options of `lockstep run` may be cut short where that leaves no doubt. "
      "Options "
      "of the program\n"
      "  belong after the program.\n"
      "- An option of `lockstep run` that comes after the program goes to the program: what "
      "follows "
      "it\n"
      "  is never read by the launcher.\n";

  expect_same_as_file(text, "docs/cli.md");
}

TEST(Version, IsOneLine) {
  EXPECT_THAT(Launcher().run({"--version"}).output,
              MatchesRegex("lockstep [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace lockstep::testing
