// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

struct Page {
  std::vector<std::string> command;
  std::string golden;
};

std::vector<Page> pages() {
  return {{{}, "help.txt"},
          {{"run"}, "help_run.txt"},
          {{"submit"}, "help_generate_slurm.txt"},
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

TEST(Help, NamesTheAliasOfASubcommand) {
  EXPECT_EQ(help_of({"generate-slurm"}), help_of({"submit"}));
  EXPECT_THAT(help_of({}), HasSubstr("\n  generate-slurm  Alias of submit\n"));
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
      "`lockstep run` starts a training program, `lockstep submit` submits a Slurm job and\n"
      "`lockstep data fetch` downloads data. This page contains the output of `--help`; the test\n"
      "`Help.IsAlsoThePageOfTheDocumentation` generates it. [Launch](launch.md) describes the\n"
      "launcher.\n";
  for (const Page& page : pages()) {
    std::vector<std::string> words = page.command;
    words.insert(words.begin(), "lockstep");
    text += "\n## " + join(words, " ") + "\n\n```text\n" + help_of(page.command) + "```\n";
    if (page.command == std::vector<std::string>{"submit"}) {
      text += "\n## lockstep generate-slurm\n\nAlias of [lockstep submit](#lockstep-submit).\n";
    }
  }
  text +=
      "\n## What can go wrong\n"
      "\n"
      "- An unknown option or subcommand is an error with exit code 64. The message shows the\n"
      "  closest match, and nothing is started. Options of `lockstep run` can be abbreviated if\n"
      "  the abbreviation is unique.\n"
      "- Options of the program belong after the program. The launcher does not read them: an\n"
      "  option of `lockstep run` after the program is passed to the program.\n";

  expect_same_as_file(text, "docs/cli.md");
}

TEST(Version, IsOneLine) {
  EXPECT_THAT(Launcher().run({"--version"}).output,
              MatchesRegex("lockstep [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace lockstep::testing
