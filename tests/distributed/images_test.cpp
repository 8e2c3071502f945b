// SPDX-License-Identifier: Apache-2.0
//
// Tests the image programs on generated images, started like a user starts them.
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <map>
#include <regex>

#include "common/os/command.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kTinyImagenet = LOCKSTEP_BIN_DIR "/tiny_imagenet";
const std::string kImagenet = LOCKSTEP_BIN_DIR "/imagenet";

constexpr int kClasses = 8;
constexpr int kTests = 3;  // of each class

class Images : public ::testing::Test {
 protected:
  void SetUp() override {
    const os::CommandResult made = sh(fmt::format(
        "{} data make tiny-imagenet-like --classes {} --per-class 6 --val-per-class {} --size 24",
        kLockstep,
        kClasses,
        kTests));
    ASSERT_EQ(made.status.code, 0) << made.output << made.errors;
  }

  os::CommandResult sh(const std::string& line) const {
    return os::run_command({"/bin/bash", "-c", line}, {.directory = directory_.path()});
  }

  // Trains a few steps of a small network on `workers` workers in the run directory `name`.
  os::CommandResult train(int workers, const std::string& run, const std::string& flags) const {
    return sh(fmt::format(
        "{} run --nproc-per-node {} --run-dir {} -- {} --generated --image-size 16 --steps 3 "
        "--global-batch 8 --lr 0.001 --warmup 0 --num-workers 1 {}",
        kLockstep,
        workers,
        run,
        kTinyImagenet,
        flags));
  }

  NamedTensors weights(const std::string& run) const {
    return load_weights(path(run) / "model.pt");
  }
  fs::path path(const std::string& name) const { return directory_.path() / name; }

 private:
  os::TemporaryDirectory directory_;
};

// The final accuracy line, which does not contain times.
std::string accuracy_line(const std::string& output) {
  std::smatch found;
  const std::regex line("test accuracy  [0-9.]+ %, top-5 [0-9.]+ % of [0-9]+ samples");
  return std::regex_search(output, found, line) ? found.str() : "none in " + output;
}

// The norm of the difference of all weights and averages. A value that rounding moves across the
// threshold of a ReLU makes it 0.005. Without synchronized batch norm it is 2.8. Training changes
// the weights by a total of 0.05.
double distance(const NamedTensors& some, const NamedTensors& others) {
  double squares = some.size() == others.size() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(some.size(), others.size()); ++i) {
    EXPECT_EQ(some[i].first, others[i].first);
    squares += (some[i].second.to(torch::kFloat64) - others[i].second.to(torch::kFloat64))
                   .square()
                   .sum()
                   .item<double>();
  }
  return std::sqrt(squares);
}

TEST_F(Images, TrainAlikeUnderDdpAndDeepspeedAndInOneProcess) {
  const os::CommandResult alone = train(1, "alone", "-s single --conv im2col");
  ASSERT_EQ(alone.status.code, 0) << alone.output << alone.errors;
  for (const std::string flags :
       {"-s ddp", "-s deepspeed --zero-stage 1", "-s deepspeed --zero-stage 3"}) {
    SCOPED_TRACE(flags);
    const std::string run = "run" + std::to_string(std::hash<std::string>()(flags));
    const os::CommandResult result = train(2, run, flags + " --sync-batchnorm --conv im2col");

    ASSERT_EQ(result.status.code, 0) << result.output << result.errors;
    EXPECT_LE(distance(weights(run), weights("alone")), 0.015);
    EXPECT_EQ(accuracy_line(result.output), accuracy_line(alone.output));
    EXPECT_THAT(accuracy_line(result.output), HasSubstr(fmt::format("{}", kClasses * kTests)));
  }
}

TEST_F(Images, ThatAreNoneAreRefusedOrLeftOut) {
  const os::CommandResult broken =
      sh("cd data/tiny-imagenet-like/val/images && ls | head -1 && echo nothing > $(ls | head -1)");
  const std::string file = broken.output.substr(0, broken.output.find('\n'));

  const os::CommandResult refused = train(2, "refused", "-s ddp");
  const os::CommandResult skipped =
      train(2, "skipped", "-s deepspeed --zero-stage 3 --corrupt skip");

  EXPECT_NE(refused.status.code, 0);
  EXPECT_THAT(refused.output + refused.errors, HasSubstr(file));
  EXPECT_EQ(skipped.status.code, 0) << skipped.output << skipped.errors;
  EXPECT_THAT(accuracy_line(skipped.output),
              HasSubstr(fmt::format("of {} samples", kClasses * kTests - 1)));
}

// Arranges the directories of TinyImageNet like those of ImageNet.
constexpr const char* kAsImagenet =
    "set -e; mkdir -p imagenet/val; for d in data/tiny-imagenet-like/train/*; do "
    "mkdir -p imagenet/val/${d##*/}; mkdir -p imagenet/train; "
    "cp -r $d/images imagenet/train/${d##*/}; done; "
    "while read -r file class rest; do "
    "cp data/tiny-imagenet-like/val/images/$file imagenet/val/$class/; "
    "done < data/tiny-imagenet-like/val/val_annotations.txt";

TEST_F(Images, GoOnWithTorchvisionsWeightsAndGiveThemBack) {
  const std::string python = LOCKSTEP_PYTHON;
  if (!sh(python + " -c 'import torch, torchvision'").status.is_success()) {
    GTEST_SKIP() << "python3-torchvision is not installed";
  }
  os::write_file(path("there.py"),
                 "import torch, torchvision\n"
                 "net = torchvision.models.resnet18(num_classes=8)\n"
                 "torch.save(net.state_dict(), 'theirs.pth')\n"
                 "net = torchvision.models.resnet18()\n"
                 "torch.save(net.state_dict(), 'thousand.pth')\n");
  os::write_file(path("tuned.py"),
                 "import torch\n"
                 "ours = torch.load('tuned/model.pt')\n"
                 "theirs = torch.load('thousand.pth')\n"
                 "assert ours['fc.weight'].shape == (8, 512) and ours['fc.bias'].shape == (8,)\n"
                 "assert ours['layer4.1.conv2.weight'].equal(theirs['layer4.1.conv2.weight'])\n");
  os::write_file(path("back.py"),
                 "import torch, torchvision\n"
                 "net = torchvision.models.resnet18(num_classes=8)\n"
                 "ours = torch.load('run/model.pt')\n"
                 "net.load_state_dict(ours)\n"
                 "theirs = torch.load('theirs.pth')\n"
                 "assert ours.keys() == theirs.keys()\n"
                 "assert all(ours[k].equal(theirs[k]) for k, _ in net.named_parameters())\n"
                 "print('batches', ours['bn1.num_batches_tracked'].item())\n");
  ASSERT_EQ(sh(kAsImagenet).status.code, 0);
  const os::CommandResult there = sh(python + " there.py");
  ASSERT_EQ(there.status.code, 0) << there.errors;

  // With a learning rate of 0, only the batch norm statistics change.
  const os::CommandResult result =
      sh(fmt::format("{} run --nproc-per-node 2 --run-dir run -- {} --data-dir imagenet --net "
                     "resnet18 --image-size 16 --steps 2 --global-batch 8 --lr 0 --num-workers 1 "
                     "--pretrained theirs.pth",
                     kLockstep,
                     kImagenet));

  ASSERT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(accuracy_line(result.output), HasSubstr("of 24 samples"));
  const os::CommandResult back = sh(python + " back.py");
  EXPECT_EQ(back.status.code, 0) << back.errors;
  EXPECT_THAT(back.output, HasSubstr("batches 2"));

  // The weights have 1000 classes and the data has eight: all but the classifier are loaded.
  const os::CommandResult tuned =
      sh(fmt::format("{} run --nproc-per-node 1 --run-dir tuned -- {} --data-dir imagenet --net "
                     "resnet18 --image-size 16 --steps 1 --global-batch 8 --lr 0 --num-workers 1 "
                     "--pretrained thousand.pth",
                     kLockstep,
                     kImagenet));
  ASSERT_EQ(tuned.status.code, 0) << tuned.output << tuned.errors;
  EXPECT_THAT(tuned.output,
              HasSubstr("thousand.pth has 1000 classes, the data has 8: the classifier is not "
                        "loaded\n"));
  const os::CommandResult compared = sh(python + " tuned.py");
  EXPECT_EQ(compared.status.code, 0) << compared.errors;
}

TEST_F(Images, AskForANumberWhereANumberIsMeant) {
  for (const auto& [flags, message] : std::map<std::string, std::string>{
           {"--label-smoothing much", "--label-smoothing 'much' is not a number"},
           {"--label-smoothing 5", "'5' is not a number from 0 to 1"},
           {"--label-smoothing=-1", "'-1' is not a number from 0 to 1"},
           {"--image-size 16.5", "'16.5' is not a whole number from 8 to 4096"}}) {
    for (const std::string& program : {kTinyImagenet + " --generated", kImagenet}) {
      const os::CommandResult result = sh(program + " --steps 1 " + flags);

      EXPECT_EQ(result.status.code, 64) << program << flags << result.errors;
      EXPECT_THAT(result.errors, HasSubstr(message)) << program;
    }
  }
}

}  // namespace
}  // namespace lockstep
