// SPDX-License-Identifier: Apache-2.0
//
// lockstep-bench on the CPU with tiny models: output, files and errors.
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/os/command.h"
#include "common/os/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Bench : public ::testing::Test {
 protected:
  // `before`: environment variables of this command.
  os::CommandResult bench(const std::string& arguments, const std::string& before = "") {
    return os::run_command(
        {"/bin/bash",
         "-c",
         fmt::format("{} {}/lockstep-bench {}", before, LOCKSTEP_BIN_DIR, arguments)},
        {.directory = path()});
  }

  nlohmann::json read(const char* name) {
    return nlohmann::json::parse(os::read_file(path() / name));
  }

  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  os::TemporaryDirectory directory_;
};

constexpr const char* kTiny =
    "gpt2 --device cpu --size tiny --precision fp32 --batch 2 --context 8 --steps 2 --warmup 1 ";

TEST_F(Bench, ShowsEachSubcommandItsOwnExamples) {
  const std::vector<std::string> commands = {"gpt2", "mnist", "resnet50", "loader", "allreduce"};
  for (const std::string& command : commands) {
    const std::string help = bench(command + " --help").output;
    for (const std::string& other : commands) {
      const auto example = HasSubstr("lockstep-bench " + other + " -");
      if (other == command) {
        EXPECT_THAT(help, AllOf(example, HasSubstr("--peer also"), HasSubstr("Exit codes:")));
      } else {
        EXPECT_THAT(help, Not(example)) << command;
      }
    }
  }
}

TEST_F(Bench, TrainsASmallGpt2AndSaysHowFast) {
  const os::CommandResult done = bench(std::string(kTiny) + "--json out.json --curve curve.csv");
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("GPT-2 tiny, 2 x 8 tokens per step, fp32, adamw, cpu"),
                    HasSubstr("tokens/s"),
                    HasSubstr("% of the matrix rate"),
                    HasSubstr("copy bandwidth")));
  const nlohmann::json json = read("out.json");
  const nlohmann::json& ours = json.at("lockstep");
  const double rate = ours.at("tokens_per_second");
  const double milliseconds = ours.at("ms_per_step");
  EXPECT_GT(rate, 0);
  EXPECT_NEAR(rate * milliseconds / 1e3, 2 * 8, 1e-6);
  for (const char* part : {"forward_ms", "backward_ms", "update_ms"}) {
    EXPECT_GT(ours.at(part), 0) << part;
  }
  EXPECT_GT(json.at("matrix_rate"), 0);
  EXPECT_GT(json.at("copy_bandwidth"), 0);
  EXPECT_EQ(ours.at("losses").size(), 1U + 3U * 2U);
  const std::vector<std::string> lines = split(os::read_file(path() / "curve.csv"), '\n');
  ASSERT_GE(lines.size(), 8U);
  EXPECT_EQ(lines[0], "step,loss");
  EXPECT_THAT(lines[1],
              HasSubstr(fmt::format("1,{:.4f}", ours.at("losses")[0].get<double>()).substr(0, 5)));
  // Without training, all tokens have about the same probability.
  EXPECT_NEAR(ours.at("losses")[0], std::log(50257), 0.5);
  EXPECT_FALSE(std::filesystem::exists(path() / "runs"));
}

TEST_F(Bench, TrainsASmallGpt2WithMuon) {
  const os::CommandResult done = bench(std::string(kTiny) + "--optimizer muon --json out.json");
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output, HasSubstr("GPT-2 tiny, 2 x 8 tokens per step, fp32, muon, cpu"));
  const nlohmann::json losses = read("out.json").at("lockstep").at("losses");
  EXPECT_LT(losses.back(), losses.front());
}

TEST_F(Bench, BeginsWithTheSameWeightsAndTokensAgain) {
  ASSERT_EQ(bench(std::string(kTiny) + "--save-weights w.pt --save-tokens t.bin --json 1.json")
                .status.code,
            0);
  ASSERT_EQ(bench(std::string(kTiny) + "--weights w.pt --tokens t.bin --json 2.json").status.code,
            0);
  const nlohmann::json one = read("1.json").at("lockstep").at("losses");
  const nlohmann::json other = read("2.json").at("lockstep").at("losses");
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], other[i], 1e-5) << i;
  }
  const os::CommandResult refused =
      bench("gpt2 --device cpu --size tiny --batch 3 --context 8 --precision fp32 --tokens t.bin");
  EXPECT_EQ(refused.status.code, 64);
  EXPECT_THAT(refused.errors, HasSubstr("cannot train on t.bin: it has another size"));
}

TEST_F(Bench, SweepsBatchSizesOfGpt2) {
  const os::CommandResult done = bench(
      "gpt2 --device cpu --size tiny --context 8 --sweep --largest-batch 2 --json sweep.json");
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("GPT-2 tiny, sequences of 8 tokens, adamw, cpu"),
                    HasSubstr("fastest    --precision fp32 --batch 2")));
  const nlohmann::json json = read("sweep.json");
  ASSERT_EQ(json.at("runs").size(), 2U);  // with and without recomputation
  EXPECT_GT(json.at("fastest").at("tokens_per_second"), 0);
  EXPECT_EQ(json.at("runs")[1].at("recompute"), true);
}

TEST_F(Bench, RejectsOptionsThatASweepWouldIgnore) {
  const os::CommandResult refused = bench("gpt2 --device cpu --size tiny --sweep --batch 2");
  EXPECT_EQ(refused.status.code, 64);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("--sweep"), HasSubstr("--batch")));
}

TEST_F(Bench, GivesTheLossCurveOfThePeer) {
  const os::CommandResult done = bench(
      std::string(kTiny) + "--peer --peer-mode eager --json p.json --python " LOCKSTEP_PYTHON);
  if (done.status.code == 69) {
    GTEST_SKIP() << done.errors;
  }
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output, AllOf(HasSubstr("PyTorch eager"), HasSubstr("loss curves")));
  EXPECT_LT(read("p.json").at("largest_loss_difference"), 1e-3);
}

TEST_F(Bench, TimesTheTrainerNextToABareLoop) {
  const os::CommandResult done =
      bench("mnist --device cpu --net mlp --batch 8 --steps 5 --warmup 2 --json out.json");
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output, AllOf(HasSubstr("images/s, Trainer"), HasSubstr("bare loop")));
  const nlohmann::json ours = read("out.json").at("lockstep");
  EXPECT_GT(ours.at("bare_us"), 0);
  EXPECT_NEAR(
      ours.at("images_per_second").get<double>() * ours.at("eager_us").get<double>(), 8e6, 1);
}

TEST_F(Bench, TimesTheWayToAnAccuracyFromTheCommandOn) {
  const os::CommandResult done =
      bench("mnist --device cpu --net mlp --generated-digits --accuracy 20 --json out.json");
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output, HasSubstr("s, command to first step"));
  const nlohmann::json run = read("out.json").at("lockstep")[0];
  EXPECT_GE(run.at("accuracy"), 0.2);
  EXPECT_GT(run.at("first_step_seconds"), 0);
  EXPECT_GT(run.at("seconds"), run.at("first_step_seconds"));
}

constexpr const char* kSomeImages =
    "loader --device cpu --images 12 --batch 4 --size 32 --seconds 0.05 --threads 0,2 ";

TEST_F(Bench, CountsTheImagesThatALoaderMakes) {
  const os::CommandResult done = bench(std::string(kSomeImages) + "--generated --json out.json");
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("Loader, 12 images (generated, 500 x 375, files), 32 x 32 pixels"),
                    HasSubstr("images/s, 2 threads, from a pack"),
                    HasSubstr("us per image: decode and scale")));
  const nlohmann::json json = read("out.json");
  const nlohmann::json& ours = json.at("lockstep");
  EXPECT_GT(ours.at("images_per_second").at("0"), 0);
  EXPECT_GT(ours.at("images_per_second").at("2"), 0);
  EXPECT_GT(ours.at("images_per_second_of_other_form"), 0);
  EXPECT_GT(ours.at("decode_us"), ours.at("read_us"));
  EXPECT_EQ(json.count("peer"), 0U);
}

TEST_F(Bench, ComparesALoaderWithTorchvisions) {
  const os::CommandResult done =
      bench(std::string(kSomeImages) + "--peer --json out.json --python " LOCKSTEP_PYTHON);
  if (done.status.code == 69 || done.output.find("No peer") != std::string::npos) {
    GTEST_SKIP() << done.errors << done.output;
  }
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output, HasSubstr("torchvision"));
  EXPECT_GT(read("out.json").at("peer").at("images_per_second").at("2"), 0);
}

TEST_F(Bench, LoadsWithoutAPeerWhereTorchvisionIsMissing) {
  // A fake Python that has torch but not torchvision.
  const auto python = path() / "python";
  os::write_file(python,
                 "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\necho '{\"missing\": \"torchvision\"}'\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const os::CommandResult done =
      bench(std::string(kSomeImages) + "--peer --python " + python.string());
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("images/s, 2 threads"),
                    HasSubstr("No peer: " + python.string() + " has no torchvision. Try ")));
}

TEST_F(Bench, UsesThePythonOfTheSystemIfTheFirstOneHasNoTorch) {
  if (!os::run_command({"/usr/bin/python3", "-c", "import torch"}).status.is_success()) {
    GTEST_SKIP() << "/usr/bin/python3 has no torch";
  }
  const auto python = path() / "python3";
  os::write_file(python, "#!/bin/sh\nexit 1\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string first_in_path = fmt::format("PATH={}:$PATH", path().string());

  const os::CommandResult done =
      bench(std::string(kTiny) + "--peer --peer-mode eager", first_in_path);
  EXPECT_EQ(done.status.code, 0) << done.errors;

  // A request is not replaced.
  const os::CommandResult refused =
      bench(std::string(kTiny) + "--peer --python python3", first_in_path);
  EXPECT_EQ(refused.status.code, 69);
  EXPECT_THAT(refused.errors, HasSubstr("cannot compare with Python: it has no torch"));
}

TEST_F(Bench, SumsOverTheWorkersItStarts) {
  const os::CommandResult done =
      bench("allreduce --device cpu --workers 2 --sizes 4,64 --seconds 0.01 --json out.json",
            "CUDA_VISIBLE_DEVICES=");
  ASSERT_EQ(done.status.code, 0) << done.errors;
  EXPECT_THAT(done.output, AllOf(HasSubstr("2 workers"), HasSubstr("64.0 KiB")));
  const nlohmann::json ours = read("out.json").at("lockstep");
  ASSERT_EQ(ours.at("sizes").size(), 2U);
  EXPECT_EQ(ours.at("sizes")[1].at("bytes"), 65536);
  EXPECT_GT(ours.at("sizes")[1].at("seconds"), 0);
}

TEST_F(Bench, SaysWhatItCannotDo) {
  const auto refuse = [&](const std::string& arguments, int code, const std::string& words) {
    const os::CommandResult refused = bench(arguments);
    EXPECT_EQ(refused.status.code, code) << arguments;
    EXPECT_THAT(refused.errors, HasSubstr(words)) << arguments;
  };
  refuse("", 64, "A subcommand is required");
  refuse("gpt2 --size huge", 64, "unknown size of GPT-2: 'huge'");
  refuse("gpt2 --precison bf16", 64, "invalid command line");
  refuse("gpt2 --batch 0", 64, "--batch: 0 is less than 1");
  refuse(
      "gpt2 --size tiny --context 9999", 64, "--context exceeds the context length of the model");
  refuse("gpt2 --size tiny --optimizer muon --peer",
         64,
         "cannot compare muon with Python: the peer does not support it");
  refuse("gpt2 --size tiny --peer --python /no/python", 69, "cannot compare with Python");
  refuse("loader --data-dir /no/where", 74, "cannot find ImageNet in /no/where");
  refuse("loader --tiny", 64, "--data-dir");
  refuse("loader --generated --data-dir .", 64, "--data-dir");
  refuse("allreduce --peer", 64, "lockstep-bench allreduce --workers 2 --peer");
}

TEST_F(Bench, DecodesOnAGpuOnlyIfThereIsOne) {
  const os::CommandResult done = bench("loader --device cpu --jpeg gpu --images 4");

  EXPECT_EQ(done.status.code, 64);
  EXPECT_THAT(done.errors,
              AllOf(HasSubstr("cannot decode JPEG files on a GPU: there is none, or --device cpu"),
                    HasSubstr("--jpeg cpu")));
}

}  // namespace
}  // namespace lockstep
