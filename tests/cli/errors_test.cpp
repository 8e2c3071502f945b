// SPDX-License-Identifier: Apache-2.0
// Every message with which the command line refuses, as one text.
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;

const std::vector<std::vector<std::string>>& refused() {
  static const std::vector<std::vector<std::string>> kLines = {
      {"rnu"},
      {"train"},
      {"--verison"},
      {"run"},
      {"run", "--"},
      {"run", "--nproc-per-nod", "2", "./train"},
      {"run", "--nprocs=2", "./train"},
      {"run", "--run-dri=x", "./train"},
      {"run", "-np", "2", "./train"},
      {"run", "--something-else", "./train"},
      {"run", "--grace"},
      {"run", "--nproc-per-node", "0", "./train"},
      {"run", "--nproc_per_node=two", "./train"},
      {"run", "--nproc-per-node", "gpu", "./train"},
      {"run", "--master-port", "http", "./train"},
      {"run", "--master-addr", "192.0.2.1", "--master-port", "23456", "./train"},
      {"run", "--master-addr", "not a host", "./train"},
      {"run", "--grace", "-1", "./train"},
      {"run", "--env", "NAME", "./train"},
      {"run", "--env", "RANK=1", "./train"},
      {"run", "--run-dir", "", "./train"},
      {"run", "--json", "./train"},
      {"run", "./trian"},
      {"run", "./nothing-like-it"},
      {"run", "train"},
      {"run", "no-such-program"},
      {"run", "./notes.txt"},
      {"run", "./folder"},
      {"run", "trian.py"},
      {"data", "fecth"},
      {"data", "fetch"},
      {"data", "fetch", "minst"},
      {"data", "fetch", "imagenet"},
      {"data", "fetch", "mnist", "cifar10"},
      {"data", "list", "--data-dri", "x"},
  };
  return kLines;
}

TEST(Errors, SayWhatIsWrongWhoSaysSoAndWhatToTypeInstead) {
  Launcher launcher;
  launcher.write_script("train", "#!/bin/sh\ntouch started\n");
  std::ofstream(launcher.path("train.py")) << "raise SystemExit(1)\n";
  std::ofstream(launcher.path("notes.txt")) << "text\n";
  std::filesystem::create_directory(launcher.path("folder"));
  launcher.environment["PATH"] = "/usr/bin:/bin";
  launcher.environment["CUDA_VISIBLE_DEVICES"] = "";

  std::string text;
  for (const std::vector<std::string>& words : refused()) {
    const Result result = launcher.run(words);
    EXPECT_THAT(result.output, IsEmpty());
    std::vector<std::string> typed = {"lockstep"};
    for (const std::string& word : words) {
      typed.push_back(quote_for_shell(word));
    }
    text += "$ " + join(typed, " ") + "\n" + result.errors + "[exit code " +
            std::to_string(result.status.shell_code()) + "]\n\n";
  }

  const std::string here = std::filesystem::canonical(launcher.path(".")).string();
  expect_golden(replaced(text, here, "/home/me"), "errors.txt");
  EXPECT_FALSE(std::filesystem::exists(launcher.path("started")));
}

}  // namespace
}  // namespace lockstep::testing
